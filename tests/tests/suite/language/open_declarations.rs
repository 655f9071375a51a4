//! Declarations left open: the search chooses their shardings, under a memory limit too.

use shardwise::{Options, Planned};
use shardwise_tests::read;
use shardwise_tests::snapshot::plan_snapshot;

fn plan(path: &str, memory: Option<f64>) -> Planned {
    shardwise::plan(
        path,
        &read(&format!("tests/programs/{path}.shard")),
        &Options { memory, ..Options::default() },
    )
    .unwrap_or_else(|e| panic!("{path}: {e}"))
}

#[test]
fn question_5_without_its_answers() {
    let open = plan("open/p3-q5", None);
    for option in 1..=4 {
        let written = plan(&format!("book/p3-q5-{option}"), None);
        assert!(
            open.report.serial_s <= written.report.serial_s * (1.0 + 1e-12),
            "option {option}\n{written}\n{open}"
        );
    }
    assert_eq!(open.status_name(), "optimal");
    assert!(!open.alternatives().is_empty(), "what is as cheap is named\n{open}");
    plan_snapshot("open", "p3-q5", &open);
}

#[test]
fn question_7_without_its_answers() {
    let (open, written) = (plan("open/p3-q7", Some(300e6)), plan("book/p3-q7", Some(300e6)));
    assert!(open.report.memory.peak_bytes <= 300e6, "{open}");
    assert!(open.report.serial_s <= written.report.serial_s, "{written}\n{open}");
    plan_snapshot("open", "p3-q7", &open);
}

/// With enough memory, data parallelism; with less, weights are split as well.
#[test]
fn a_layer_to_train_with_less_and_less_memory() {
    let mut last = 0.0;
    for (name, memory) in [("unlimited", f64::INFINITY), ("2GB", 2e9), ("600MB", 6e8)] {
        let planned = plan("open/mlp-train", Some(memory));
        assert!(planned.report.memory.peak_bytes <= memory, "{planned}");
        assert!(planned.report.serial_s >= last, "{name}: less memory is never cheaper\n{planned}");
        last = planned.report.serial_s;
        plan_snapshot("open", &format!("mlp-train-{name}"), &planned);
    }
}

/// An output whose sharding is open leaves with the last that it accepts, as the plan says; what
/// else it would accept is not held until the end.
#[test]
fn an_open_output_is_held_once() {
    let source = "hardware h100\nmesh X=2\ndim A=8, B=4, C=12\ninput x[A, C_X], z[B_X, C]\n\
        y[A, C] = x + 1.0\nw = softmax_B(z)\noutput w[B, C]\noutput y[A, C_?]\n";
    let plan = |source: &str| {
        let planned = shardwise::plan("open", source, &Options::default());
        planned.unwrap_or_else(|findings| panic!("{findings}")).to_string()
    };
    let once = plan(source);
    assert!(once.contains("# memory: peak 384 B "), "{once}");
    assert_eq!(once, plan(&once));
}
