//! Modules of every program: what they compute, and the collectives that XLA compiles them to.

use std::path::PathBuf;
use std::process::Command;

use shardwise::Planned;
use shardwise::Strategy;
use shardwise::export::{Format, JAX_STYLES};

use crate::cases::{Case, DEVICES, JAX, assert_equal, cases};
use crate::common::{empty_folder, root};
use crate::environment::python;
use crate::virtual_devices::with_devices;

/// A script of `cli/python`, with as many virtual devices as the largest mesh of a case.
pub(crate) fn script(name: &str) -> Command {
    let mut command = Command::new(python());
    with_devices(&mut command, DEVICES).arg(root().join("cli/python").join(name));
    command
}

pub(crate) fn style(name: &str) -> &'static Format<Planned> {
    JAX_STYLES.iter().find(|style| style.name == name).expect("it is in the table")
}

/// Writes the modules of all programs in a style, and their cases; the paths of those. What cannot
/// be written must say so with a code, and is printed.
pub(crate) fn written(style: &Format<Planned>, folder: &str) -> Vec<PathBuf> {
    let scratch = empty_folder(folder);
    let write = |case: &Case| case.write_module(style, &scratch);
    let paths: Vec<PathBuf> = cases("", Strategy::Search).iter().filter_map(write).collect();
    println!("{}: {} programs", style.name, paths.len());
    paths
}

fn compute_what_they_mean(name: &str, least: usize) {
    let paths = written(style(name), &format!("conformance-{name}"));
    assert!(paths.len() >= least, "{}", paths.len());
    assert_equal(&mut script("run_jax.py"), &paths, JAX);
}

#[test]
fn modules_of_all_programs_compute_what_they_mean() {
    compute_what_they_mean("shard_map", 200);
}

#[test]
fn shardings_as_types_of_all_programs_compute_what_they_mean() {
    compute_what_they_mean("explicit", 150);
}

#[test]
fn shardings_as_constraints_of_all_programs_compute_what_they_mean() {
    compute_what_they_mean("constraints", 150);
}

#[test]
fn collectives_of_all_programs_are_those_of_their_plans() {
    let paths = written(style("shard_map"), "conformance-collectives");
    assert_equal(&mut script("check_collectives.py"), &paths, JAX);
}
