//! Plans exported to JAX, run on virtual devices of the CPU and compared with the unsharded
//! program in float64.

use std::path::PathBuf;
use std::process::Command;

use shardwise::Strategy;
use shardwise::export::{EXPORTS, Format};
use shardwise::{Planned, codes};

use crate::cases::{Case, DEVICES, assert_equal, cases};
use crate::common::{SHARDWISE, empty_folder, root, text};
use crate::require;

fn jax() -> &'static Format<Planned> {
    EXPORTS.iter().find(|format| format.name == "jax").expect("it is in the table")
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

/// Runs the plans of the programs in a folder; how many there are.
fn run(folder: &str, strategy: Strategy) -> usize {
    let scratch = empty_folder(&format!("jax-{folder}-{strategy:?}"));
    let write = |case: &Case| {
        let module =
            (jax().write)(&case.planned).unwrap_or_else(|why| panic!("{}: {why}", case.name));
        let path = case.write(&scratch);
        std::fs::write(path.with_extension("py"), module).expect("a file can be written");
        path
    };
    let paths: Vec<PathBuf> = cases(folder, strategy).iter().map(write).collect();
    let mut script = python();
    script.arg(root().join("cli/python/run_jax.py"));
    assert_equal(&mut script, &paths, "jax==0.10.2");
    paths.len()
}

#[test]
fn exported_programs_of_the_book_compute_what_they_mean() {
    assert!(run("book", Strategy::Search) > 70);
}

#[test]
fn exported_loops_gradients_and_updates_compute_what_they_mean() {
    let folders = ["layers", "microbatches", "optimizer", "operations", "sparse", "attention"];
    assert!(folders.map(|folder| run(folder, Strategy::Search)).iter().sum::<usize>() > 30);
}

#[test]
fn main_of_a_module_compares_the_plan_with_the_unsharded_program() {
    let folder = empty_folder("jax-main");
    let program = root().join("tests/programs/layers/train.shard");
    let exported = Command::new(SHARDWISE)
        .args(["export", "jax", "-o", "train.py"])
        .arg(program)
        .current_dir(&folder)
        .output()
        .expect("shardwise starts");
    assert!(exported.status.success(), "{}", text(&exported.stderr));
    let ran = python().arg("train.py").current_dir(&folder).output().expect("python starts");
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    assert_eq!(text(&ran.stdout).matches("largest difference").count(), 3);
}

#[test]
fn what_cannot_be_exported_yet_is_an_error_with_a_code() {
    let program = root().join("tests/programs/pipelines/1f1b.shard");
    let output = Command::new(SHARDWISE)
        .args(["export", "jax"])
        .arg(program)
        .output()
        .expect("shardwise starts");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    assert!(text(&output.stderr).contains(codes::tool::NOT_EXPORTED), "{}", text(&output.stderr));
}
