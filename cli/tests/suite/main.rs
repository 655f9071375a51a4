//! The command as a process: a module a subcommand or subject. Needs nothing but Rust and a POSIX
//! shell; tests that need more are in the suite `tools`.

#[path = "../common/mod.rs"]
mod common;

mod calibrate;
mod check;
mod command;
mod diff;
mod explain;
mod hardware;
mod import;
mod limits;
mod lsp;
mod new;
mod newcomer;
mod sweep;
mod targets;
mod tune;
mod tutorial;
mod watch;
mod write;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs the command at the workspace's root, on `input` as standard input.
fn run(arguments: &[&str], input: &str) -> Output {
    run_in(&common::root(), arguments, input)
}

/// The same in a folder.
fn run_in(folder: &Path, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(common::SHARDWISE)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    // A command that does not read its input closes it early; that is its right.
    let _ = child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes()));
    child.wait_with_output().expect("the command ends")
}
