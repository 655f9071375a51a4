//! Plans within a limit on memory: they fit, they are not dearer than they must be, and what is said of them is true.

use proptest::prelude::any;
use proptest::strategy::{Strategy as _, ValueTree};
use proptest::test_runner::TestRunner;
use shardwise::{Options, Planned, Strategy};
use shardwise_tests::{drawn, read, sketch, statements};

fn plan(source: &str, memory: f64) -> Result<Planned, shardwise::Findings> {
    shardwise::plan("program", source, &Options { memory: Some(memory), ..Options::default() })
}

#[test]
fn two_matrices_under_300_megabytes() {
    let tensor_parallel = read("tests/programs/book/p3-q7.shard");
    let planned = plan(&tensor_parallel, 300e6).expect("the second option fits");
    assert_eq!(statements(&planned.to_string()), statements(&read("tests/programs/book/p3-q7.plan")));
    assert_eq!(planned.status_name(), "optimal");

    let gathered = read("tests/programs/book/p3-q7-fsdp.shard");
    let textbook = Options { strategy: Strategy::Textbook, memory: Some(300e6), ..Options::default() };
    let findings = shardwise::plan("q7", &gathered, &textbook).expect_err("a whole matrix does not fit");
    assert!(drawn(&findings).contains("`Win[D, F]` 537 MB"), "{}", drawn(&findings));
    let planned = plan(&gathered, 300e6).expect("the activations can be moved instead");
    assert!(planned.report.memory.peak_bytes <= 300e6, "{planned}");
    assert!(!planned.to_string().contains("Win[D, F]"), "{planned}");
}

#[test]
fn what_cannot_fit_is_told_with_what_is_in_the_way() {
    let findings = plan(&read("tests/programs/book/p3-q7.shard"), 200e6).expect_err("the matrices alone are 268 MB");
    let text = drawn(&findings);
    assert_eq!(findings.reports[0].diag.code, "SW505", "{text}");
    assert!(text.contains("the smallest plan found needs") && text.contains("params and state 268 MB"), "{text}");
}

/// The same program at many limits: a plan that fits a limit must not be cheaper than one that is called optimal there.
#[test]
fn limits_agree_with_each_other() {
    let mut runner = TestRunner::deterministic();
    let numbers = proptest::collection::vec(any::<u32>(), 120);
    let (mut limited, mut proven) = (0, 0);
    for i in 0..60 {
        let numbers = numbers.new_tree(&mut runner).expect("numbers can be drawn").current();
        let source = sketch::program(&numbers, 1 + i % 2, 2 + i % 5);
        let Ok(free) = plan(&source, f64::INFINITY) else { continue };
        let mut plans = vec![free];
        for part in [0.9, 0.75, 0.5, 0.3] {
            let limit = plans[0].report.memory.peak_bytes * part;
            if let Ok(planned) = plan(&source, limit) {
                let (peak, price) = (planned.report.memory.peak_bytes, planned.report.serial_s);
                assert!(peak <= limit, "{peak} in {limit}\n{planned}");
                assert!(planned.lower_bound_s() <= price * (1.0 + 1e-9), "{planned}");
                assert!(price >= plans[0].report.serial_s * (1.0 - 1e-9), "{planned}\n{}", plans[0]);
                limited += 1;
                proven += usize::from(planned.status_name() == "optimal");
                plans.push(planned);
            }
        }
        for claim in &plans {
            let limit = claim.capacity_bytes.unwrap_or(f64::INFINITY);
            for other in plans.iter().filter(|other| other.report.memory.peak_bytes <= limit) {
                assert!(claim.lower_bound_s() <= other.report.serial_s * (1.0 + 1e-9), "{source}\n{claim}\n{other}");
            }
        }
    }
    assert!(limited >= 30 && proven * 5 >= limited * 2, "{proven} proven of {limited}");
}
