//! Plans exported to `StableHLO`, parsed and verified by JAX's MLIR, run on virtual devices of the
//! CPU and compared with the unsharded program in float64.

use std::process::Command;

use shardwise::codes;

use crate::common::{SHARDWISE, root, text};
use crate::require;
use crate::run_sdy::run;

#[test]
fn modules_of_the_book_compute_what_they_mean() {
    require(&["python3"]);
    assert!(run("book", &["book"], |number, _| number % 3 == 0) > 20);
}

#[test]
fn modules_with_loops_gradients_updates_and_pipelines_compute_what_they_mean() {
    require(&["python3"]);
    let folders = ["layers", "scans", "microbatches", "optimizer", "operations", "sparse"];
    assert!(run("loops", &folders, |number, _| number % 2 == 0) > 10);
    assert!(run("pipelines", &["pipelines", "nested"], |number, _| number % 4 == 0) > 5);
}

#[test]
fn what_cannot_be_exported_yet_is_an_error_with_a_code() {
    let program = root().join("tests/programs/renamed-padded.shard");
    let output = Command::new(SHARDWISE)
        .args(["export", "sdy"])
        .arg(program)
        .output()
        .expect("shardwise starts");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    let error = text(&output.stderr);
    assert!(error.contains(codes::tool::NOT_EXPORTED) && error.contains("StableHLO"), "{error}");
}
