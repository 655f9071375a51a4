//! The scripts that measure, run on this machine: what they print is read, and rates are fitted.

use std::process::Command;

use crate::common::{SHARDWISE, empty_folder, text};

/// A machine of slow virtual devices.
const CHIP: &str = "[cpu]\nbf16 = 1e12\nmemory_bandwidth = 1e11\nlink_bandwidth = 1e11\n";

/// Runs a script that measures `kinds`, and fits rates to what it prints. It needs packages.
pub(crate) fn assert_read(script: &mut Command, name: &str, kinds: &[&str], needs: &str) {
    let folder = empty_folder(name);
    std::fs::write(folder.join("cpu.toml"), CHIP).expect("a file can be written");
    let measured = script
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(&folder)
        .output()
        .expect("python starts");
    let log = text(&measured.stdout);
    assert!(measured.status.success(), "it needs {needs}: {}", text(&measured.stderr));
    for kind in kinds {
        assert!(log.lines().any(|line| line.starts_with(kind)), "{kind}: {log}");
    }
    // How much runs differ depends on what else this machine does: all are used here.
    let steady: String = log
        .lines()
        .map(|line| line.rsplit_once(',').map_or(line, |(row, _)| row).to_owned() + "\n")
        .collect();
    std::fs::write(folder.join("bench.csv"), steady).expect("a file can be written");
    let arguments = ["calibrate", "bench.csv", "--hardware-file", "cpu.toml", "--hardware", "cpu"];
    let fitted =
        Command::new(SHARDWISE).args(arguments).current_dir(&folder).output().expect("it starts");
    assert!(fitted.status.success(), "{}", text(&fitted.stderr));
    assert!(text(&fitted.stdout).contains("[measured-cpu]"), "{}", text(&fitted.stdout));
    assert!(text(&fitted.stderr).contains("products: "), "{}", text(&fitted.stderr));
}
