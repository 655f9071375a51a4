//! Programs that are imported, verified and exported to JAX, and run beside what they came from.

use std::path::Path;
use std::process::Command;

use crate::common::{path_with_binary, root, text};

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

/// Compares what was written with where it came from, by a script; `needs` is what to install.
pub(crate) fn assert_equal(script: &str, scratch: &Path, cases: &[String], needs: &str) {
    let output = Command::new("python3")
        .arg(root().join("cli/python").join(script))
        .arg(scratch)
        .args(cases)
        .env("JAX_PLATFORMS", "cpu")
        .env("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("python starts");
    let log = text(&output.stdout);
    let wrong: Vec<&str> = log.lines().filter(|line| !line.starts_with("equal ")).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(output.status.success(), "run `pip install {needs}`: {}", text(&output.stderr));
    assert_eq!(log.lines().count(), cases.len());
}
