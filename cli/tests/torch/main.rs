//! Plans exported to `PyTorch`, run in processes under gloo on the CPU and compared with the
//! unsharded program in float64.
//!
//! The wheel of `torch` brings gigabytes of libraries for GPUs, so that this suite runs on demand:
//! `pip install torch numpy`, then `cargo test -p shardwise-cli --test torch`.

#[path = "../tools/cases.rs"]
mod cases;
#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "this suite runs no build tools")]
mod common;
mod imported;
#[path = "../tools/importing.rs"]
mod importing;
mod measured;
#[path = "../tools/measuring.rs"]
mod measuring;
#[path = "../tools/virtual_devices.rs"]
mod virtual_devices;

use std::process::Command;

use crate::cases::{assert_equal, torch_modules};
use crate::common::{SHARDWISE, empty_folder, root, text};

/// Runs the plans of the programs in a folder; how many there are.
fn run(folder: &str) -> usize {
    let paths = torch_modules(folder, &empty_folder(&format!("torch-{folder}")));
    let mut script = Command::new("python3");
    script.arg(root().join("cli/python/run_torch.py"));
    assert_equal(&mut script, &paths, "torch numpy");
    paths.len()
}

#[test]
fn exported_programs_of_the_book_compute_what_they_mean() {
    assert!(run("book") > 70);
}

#[test]
fn exported_loops_gradients_and_updates_compute_what_they_mean() {
    let folders = [
        "layers",
        "scans",
        "microbatches",
        "optimizer",
        "operations",
        "sparse",
        "attention",
        "nested",
    ];
    assert!(folders.map(run).iter().sum::<usize>() > 55);
}

#[test]
fn exported_pipelines_compute_what_they_mean() {
    assert!(run("pipelines") > 10);
}

#[test]
fn exported_models_compute_what_they_mean() {
    assert!(run("models") > 5);
}

#[test]
fn main_of_a_module_compares_the_plan_with_the_unsharded_program() {
    let folder = empty_folder("torch-main");
    let exported = Command::new(SHARDWISE)
        .args(["export", "torch", "-o", "train.py"])
        .arg(root().join("tests/programs/layers/train.shard"))
        .current_dir(&folder)
        .output()
        .expect("shardwise starts");
    assert!(exported.status.success(), "{}", text(&exported.stderr));
    let ran = Command::new("python3")
        .arg("train.py")
        .current_dir(&folder)
        .output()
        .expect("python starts");
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    assert_eq!(text(&ran.stdout).matches("largest difference").count(), 3);
}
