//! Plans exported to `StableHLO`, parsed and verified by JAX's MLIR, run on virtual devices of the
//! CPU and compared with the unsharded program in float64.

use std::path::PathBuf;
use std::process::Command;

use shardwise::export::{EXPORTS, Format};
use shardwise::{Planned, Strategy, codes};

use crate::cases::{Case, DEVICES, assert_equal, cases};
use crate::common::{SHARDWISE, empty_folder, root, text};
use crate::require;

fn sdy() -> &'static Format<Planned> {
    EXPORTS.iter().find(|format| format.name == "sdy").expect("it is in the table")
}

/// Python, with as many virtual devices as the largest mesh of a case.
fn python() -> Command {
    require(&["python3"]);
    let mut command = Command::new("python3");
    command
        .env("JAX_PLATFORMS", "cpu")
        .env("XLA_FLAGS", format!("--xla_force_host_platform_device_count={DEVICES}"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// Runs the plans of the programs in folders that `wanted` chooses, in one process; returns how
/// many there are. What cannot be exported must say so with a code.
fn run(name: &str, folders: &[&str], wanted: impl Fn(usize, &Case) -> bool) -> usize {
    let scratch = empty_folder(&format!("sdy-{name}"));
    let write = |case: &Case| {
        let module = match (sdy().write)(&case.planned.small(DEVICES)) {
            Ok(module) => module,
            Err(why) => {
                assert!(why.contains(codes::tool::NOT_EXPORTED), "{}: {why}", case.name);
                return None;
            }
        };
        let path = case.write(&scratch);
        std::fs::write(path.with_extension("mlir"), module).expect("a file can be written");
        Some(path)
    };
    let all = folders.iter().flat_map(|folder| cases(folder, Strategy::Search));
    let all = all.enumerate().filter(|(number, case)| wanted(*number, case));
    let paths: Vec<PathBuf> = all.filter_map(|(_, case)| write(&case)).collect();
    let mut script = python();
    script.arg(root().join("cli/python/run_sdy.py"));
    assert_equal(&mut script, &paths, "jax==0.10.2");
    paths.len()
}

#[test]
fn modules_of_the_book_compute_what_they_mean() {
    assert!(run("book", &["book"], |number, _| number % 3 == 0) > 20);
}

#[test]
fn modules_with_loops_gradients_updates_and_pipelines_compute_what_they_mean() {
    let folders = ["layers", "scans", "microbatches", "optimizer", "operations", "sparse"];
    assert!(run("loops", &folders, |number, _| number % 2 == 0) > 10);
    assert!(run("pipelines", &["pipelines", "nested"], |number, _| number % 4 == 0) > 5);
}

#[test]
#[ignore = "it takes minutes: run it with `-- --ignored`"]
fn every_module_computes_what_it_means() {
    assert!(run("all", &[""], |_, _| true) > 200);
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
