//! Programs that are imported, verified and exported to JAX, and run beside what they came from.

use std::path::Path;
use std::process::Command;

use crate::common::{SHARDWISE, blocks, path_with_binary, root, text};
use crate::virtual_devices::with_devices;

/// The devices of the mesh that imported programs have.
const DEVICES: u64 = 4;

/// Imports from `source` what a file has under a name, verifies and exports it; its case for the
/// scripts that compare.
pub(crate) fn written(source: &str, scratch: &Path, file: &Path, of: (&str, &str)) -> String {
    let (name, arguments) = of;
    let target = format!("{}:{name}", file.display());
    let stem = file.file_stem().expect("a file has a name").to_string_lossy();
    let script = format!(
        "set -e
        shardwise import {source} '{target}' --args '{arguments}' --mesh 'X=2, Y=2' \
            -o {stem}_{name}.shard
        shardwise verify {stem}_{name}.shard
        shardwise export jax {stem}_{name}.shard -o {stem}_{name}.py"
    );
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(scratch)
        .env("PATH", path_with_binary())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("a shell starts");
    let errors = text(&output.stderr);
    assert!(output.status.success(), "{target}: {errors}{}", text(&output.stdout));
    format!("{target}={arguments}")
}

/// What an import in a folder says, which has to end in an error and no program.
pub(crate) fn refusal(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new(SHARDWISE)
        .arg("import")
        .args(arguments)
        .current_dir(folder)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("shardwise starts");
    let error = text(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{arguments:?}: {error}");
    error
}

/// Compares what was written with where it came from, by a script; `needs` is what to install.
pub(crate) fn assert_equal(script: &str, scratch: &Path, cases: &[String], needs: &str) {
    let output = with_devices(&mut Command::new("python3"), DEVICES)
        .arg(root().join("cli/python").join(script))
        .arg(scratch)
        .args(cases)
        .output()
        .expect("python starts");
    let log = text(&output.stdout);
    let wrong: Vec<&str> = log.lines().filter(|line| !line.starts_with("equal ")).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(output.status.success(), "run `pip install {needs}`: {}", text(&output.stderr));
    assert_eq!(log.lines().count(), cases.len());
}

/// The first line of a page that goes from a function to numbers: its block for `bash`.
pub(crate) fn line_of(page: &str) -> String {
    let text = std::fs::read_to_string(root().join(page)).expect("the page is there");
    let line = blocks(&text).into_iter().find(|(language, _)| language == "bash");
    line.expect("the page has such a line").1
}

/// Runs such a line; each output that it prints is compared.
pub(crate) fn assert_runs(line: &str) {
    let output = with_devices(&mut Command::new("bash"), DEVICES)
        .args(["-c", &format!("set -o pipefail\n{line}")])
        .current_dir(root())
        .env("PATH", path_with_binary())
        .output()
        .expect("a shell starts");
    let (printed, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{line}\n{errors}");
    let is_compared = |line: &str| line.contains(": largest difference ");
    assert!(!printed.is_empty() && printed.lines().all(is_compared), "{line}\n{printed}");
}
