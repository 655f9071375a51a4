//! The scripts that measure, run on this machine: JAX on virtual devices of the CPU.

use std::process::Command;

use crate::cases::JAX;
use crate::common::{SHARDWISE, empty_folder, root, text};
use crate::require;

/// A machine of slow virtual devices.
const CHIP: &str = "[cpu]\nbf16 = 1e12\nmemory_bandwidth = 1e11\nlink_bandwidth = 1e11\n";

#[test]
fn what_jax_measures_is_read() {
    require(&["python3"]);
    let folder = empty_folder("measure-jax");
    std::fs::write(folder.join("cpu.toml"), CHIP).expect("a file can be written");
    let script = root().join("cli/python/measure_jax.py");
    let measured = Command::new("python3")
        .args([script.as_os_str(), "--quick".as_ref(), "--dtypes=f32".as_ref()])
        .env("JAX_PLATFORMS", "cpu")
        .env("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(&folder)
        .output()
        .expect("python starts");
    let log = text(&measured.stdout);
    assert!(measured.status.success(), "it needs {JAX}: {}", text(&measured.stderr));
    for kind in ["product", "pass", "all_gather", "reduce_scatter", "all_reduce", "all_to_all"] {
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
