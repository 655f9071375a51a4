//! Plans exported to JAX, run on virtual devices of the CPU and compared with the unsharded
//! program in float64: every second program of a folder, since XLA takes a second for each. The
//! suite `conformance` runs all programs.

use std::path::PathBuf;
use std::process::Command;

use shardwise::Strategy;
use shardwise::export::{EXPORTS, Format, JAX_STYLES};
use shardwise::{Planned, codes};

use crate::cases::{Case, DEVICES, JAX, assert_equal, cases};
use crate::common::{SHARDWISE, empty_folder, root, text};
use crate::require;
use crate::virtual_devices::with_devices;

fn jax() -> &'static Format<Planned> {
    EXPORTS.iter().find(|format| format.name == "jax").expect("it is in the table")
}

/// Python, with as many virtual devices as the largest mesh of a case.
fn python() -> Command {
    require(&["python3"]);
    let mut command = Command::new("python3");
    with_devices(&mut command, DEVICES);
    command
}

/// Of so many programs of a folder, one is run.
const OF_PROGRAMS: usize = 2;

/// Runs plans of programs in a folder, as modules in a style, with a script of `cli/python`; how
/// many there are.
fn run_script(name: &str, folder: &str, style: &Format<Planned>) -> usize {
    let scratch = empty_folder(&format!("jax-{name}-{folder}-{}", style.name));
    let write = |case: &Case| case.write_module(style, &scratch);
    let cases = cases(folder, Strategy::Search);
    let paths: Vec<PathBuf> = cases.iter().step_by(OF_PROGRAMS).filter_map(write).collect();
    let mut script = python();
    script.arg(root().join("cli/python").join(name));
    assert_equal(&mut script, &paths, JAX);
    paths.len()
}

/// Compares what modules of the programs in some folders compute with what these mean.
fn run(folders: &[&str], style: &Format<Planned>) -> usize {
    folders.iter().map(|folder| run_script("run_jax.py", folder, style)).sum()
}

#[test]
fn collectives_of_compiled_modules_are_those_of_their_plans() {
    let script = "check_collectives.py";
    let count = |folder: &&str| run_script(script, folder, jax());
    assert!(["layers", "scans", "pipelines"].iter().map(count).sum::<usize>() > 12);
}

#[test]
fn shardings_as_types_and_as_constraints_compute_what_programs_mean() {
    for style in JAX_STYLES.iter().filter(|style| style.name != "shard_map") {
        let folders = ["layers", "scans", "microbatches", "operations", "attention"];
        let ran = run(&folders, style);
        assert!(ran > 15, "{}: {ran}", style.name);
    }
}

#[test]
fn styles_are_those_of_modules_for_jax() {
    let refused = |options: &[&str]| {
        let output = Command::new(SHARDWISE)
            .arg("export")
            .args(options)
            .args(["--style", "explicit"])
            .arg(root().join("tests/programs/mlp-2d.shard"))
            .output()
            .expect("shardwise starts");
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
        text(&output.stderr)
    };
    assert!(refused(&["torch"]).contains("for `export jax`"));
    assert!(refused(&["jax", "--format", "specs"]).contains("not of --format specs"));
}

#[test]
fn what_has_no_style_is_written_without_one() {
    let exported = |style: &[&str]| {
        let output = Command::new(SHARDWISE)
            .args(["export", "jax"])
            .args(style)
            .arg(root().join("tests/programs/pipelines/gpipe.shard"))
            .output()
            .expect("shardwise starts");
        (output.status.success(), text(&output.stderr))
    };
    let (is_written, why) = exported(&["--style", "constraints"]);
    assert!(!is_written && why.contains(codes::tool::NOT_EXPORTED), "{why}");
    assert!(why.contains("leave out `--style`"), "{why}");
    assert!(exported(&[]).0);
}

#[test]
fn exported_programs_of_the_book_compute_what_they_mean() {
    assert!(run(&["book"], jax()) > 35);
}

#[test]
fn exported_loops_gradients_and_updates_compute_what_they_mean() {
    let folders =
        ["layers", "scans", "microbatches", "optimizer", "operations", "sparse", "attention"];
    assert!(run(&folders, jax()) > 15);
}

#[test]
fn exported_pipelines_and_loops_in_loops_compute_what_they_mean() {
    assert!(run(&["pipelines", "nested"], jax()) > 11);
}

#[test]
fn main_of_a_module_compares_the_plan_with_the_unsharded_program() {
    for program in ["layers/train", "pipelines/gpipe"] {
        let folder = empty_folder("jax-main");
        let exported = Command::new(SHARDWISE)
            .args(["export", "jax", "-o", "step.py"])
            .arg(root().join("tests/programs").join(program).with_extension("shard"))
            .current_dir(&folder)
            .output()
            .expect("shardwise starts");
        assert!(exported.status.success(), "{}", text(&exported.stderr));
        let ran = python().arg("step.py").current_dir(&folder).output().expect("python starts");
        assert!(ran.status.success(), "{program}: {}", text(&ran.stderr));
        assert_eq!(text(&ran.stdout).matches("largest difference").count(), 3);
    }
}

/// A pipeline whose layers have a dimension that its axis does not divide.
const PADDED_PIPELINE: &str = "\
hardware tpu-v5p
mesh Z=4, X=4
dim B=64, D=256, F=1023 pad
input x[B, D]
pipeline Z, microbatches=8 {
  repeat L=16 {
    carry x
    param Win[D, F_X], Wout[F_X, D]
    x = x + gelu(x *D Win) *F Wout
  }
}
output x[B, D]
";

#[test]
fn what_cannot_be_exported_yet_is_an_error_with_a_code() {
    let folder = empty_folder("jax-refused");
    std::fs::write(folder.join("padded.shard"), PADDED_PIPELINE).expect("a file can be written");
    let output = Command::new(SHARDWISE)
        .args(["export", "jax", "padded.shard"])
        .current_dir(&folder)
        .output()
        .expect("shardwise starts");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    assert!(text(&output.stderr).contains(codes::tool::NOT_EXPORTED), "{}", text(&output.stderr));
}

/// Rules applied to logical axes are the specs, which JAX accepts on the plan's mesh, and which are
/// those of the module that runs the plan.
const SPECS: &str = r#"
import sys, jax
from jax.sharding import NamedSharding, PartitionSpec as P
import module, specs

mesh = jax.make_mesh((1,) * len(specs.MESH), tuple(specs.MESH))
rules = dict(specs.LOGICAL_AXIS_RULES)
given = {**specs.PARAMS, **specs.STATE, **specs.INPUTS}
assert set(given) == set(specs.LOGICAL_AXES) == set(module.IN_SPECS), given
for name, spec in given.items():
    axes = specs.LOGICAL_AXES[name]
    shape = tuple(2 * mesh.size for _ in axes)
    by_rules = NamedSharding(mesh, P(*(rules[axis] for axis in axes)))
    padded = lambda spec: tuple(spec) + (None,) * (len(axes) - len(spec))
    assert padded(by_rules.spec) == padded(spec) == padded(module.IN_SPECS[name]), name
    assert jax.device_put(jax.numpy.zeros(shape), by_rules).shape == shape
print("equal", len(given))
"#;

#[test]
fn specs_and_logical_axes_are_those_of_the_module() {
    let folder = empty_folder("jax-specs");
    let program = root().join("tests/programs/layers/train.shard");
    for (format, file) in [("module", "module.py"), ("specs", "specs.py")] {
        let exported = Command::new(SHARDWISE)
            .args(["export", "jax", "--format", format, "-o", file])
            .arg(&program)
            .current_dir(&folder)
            .output()
            .expect("shardwise starts");
        assert!(exported.status.success(), "{}", text(&exported.stderr));
    }
    let ran = python().args(["-c", SPECS]).current_dir(&folder).output().expect("python starts");
    assert!(text(&ran.stdout).starts_with("equal "), "{}", text(&ran.stderr));
}
