//! Plans within a limit on memory: they fit, they are not costlier than necessary, and their claims
//! are true.

use shardwise::{Options, Planned, Strategy};
use shardwise_tests::{drawn, read, statements};

fn plan(source: &str, memory: f64) -> Result<Planned, shardwise::Findings> {
    shardwise::plan("program", source, &Options { memory: Some(memory), ..Options::default() })
}

#[test]
fn two_matrices_under_300_megabytes() {
    let tensor_parallel = read("tests/programs/book/p3-q7.shard");
    let planned = plan(&tensor_parallel, 300e6).expect("the second option fits");
    assert_eq!(
        statements(&planned.to_string()),
        statements(&read("tests/programs/book/p3-q7.plan"))
    );
    assert_eq!(planned.status_name(), "optimal");

    let gathered = read("tests/programs/book/p3-q7-fsdp.shard");
    let textbook =
        Options { strategy: Strategy::Textbook, memory: Some(300e6), ..Options::default() };
    let findings =
        shardwise::plan("q7", &gathered, &textbook).expect_err("a whole matrix does not fit");
    assert!(drawn(&findings).contains("`Win[D, F]` 537 MB"), "{}", drawn(&findings));
    let planned = plan(&gathered, 300e6).expect("the activations can be moved instead");
    assert!(planned.report.memory.peak_bytes <= 300e6, "{planned}");
    assert!(!planned.to_string().contains("Win[D, F]"), "{planned}");
}

#[test]
fn what_cannot_fit_is_reported_with_what_is_in_the_way() {
    let findings = plan(&read("tests/programs/book/p3-q7.shard"), 200e6)
        .expect_err("the matrices alone are 268 MB");
    let text = drawn(&findings);
    assert_eq!(findings.reports[0].diag.code, "SW505", "{text}");
    assert!(
        text.contains("the smallest plan found needs") && text.contains("params and state 268 MB"),
        "{text}"
    );
}

/// Two programs whose looser limit once was refused, or had the costlier plan.
#[test]
fn a_looser_limit_has_no_costlier_plan() {
    let refused = "hardware tpu-v5p\nmesh X=8, Y=2\ndim F=256, K=48, G=128, B=64\n\
        input in1[B_{X,Y}, K, G]\nparam w4[B]\ninput in9[B_X, F_Y, G]\n\
        v2 = causal_{G,B}(in1)\nv3 = in1 *B w4\nv7 = layernorm_K(in1)\nv8 = v7 *B in9\n\
        output v3[K_X, G]\n";
    let costlier = "hardware tpu-v5p\nmesh X=2, Y=2, Z=8\n\
        dim K=64, T=1024, E=128, K2=K\ninput in1[K2, E]\ninput in4[K2, K_{Z,X}, E_Y]\n\
        param w8[K, T, K2_Z]\nv3[E, K] = in1 *K2 in4\nv5 = in1 *E,K2 in4\n\
        v6[K_?, E_?] = rename(in1)\nv7 = v5 *K w8\n";
    for (source, tight, loose) in [(refused, 1e6, 1.1e6), (costlier, 1_487_667.0, 1_580_646.0)] {
        let seconds = |limit| plan(source, limit).expect("the tighter fits").report.serial_s;
        assert!(seconds(loose) <= seconds(tight), "{source}");
    }
}
