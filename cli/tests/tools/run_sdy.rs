//! Modules of `StableHLO`, run on virtual devices of the CPU.

use std::path::PathBuf;
use std::process::Command;

use shardwise::export::{EXPORTS, Format};
use shardwise::{Planned, Strategy, codes};

use crate::cases::{Case, DEVICES, JAX, assert_equal, cases};
use crate::common::{empty_folder, root};
use crate::virtual_devices::with_devices;

fn sdy() -> &'static Format<Planned> {
    EXPORTS.iter().find(|format| format.name == "sdy").expect("it is in the table")
}

/// Python, with as many virtual devices as the largest mesh of a case.
fn python() -> Command {
    let mut command = Command::new("python3");
    with_devices(&mut command, DEVICES);
    command
}

/// Runs the plans of the programs in folders that `wanted` chooses, in one process; returns how
/// many there are. What cannot be exported must say so with a code.
pub(crate) fn run(name: &str, folders: &[&str], wanted: impl Fn(usize, &Case) -> bool) -> usize {
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
    assert_equal(&mut script, &paths, JAX);
    paths.len()
}
