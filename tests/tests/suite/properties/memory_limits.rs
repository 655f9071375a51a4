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
