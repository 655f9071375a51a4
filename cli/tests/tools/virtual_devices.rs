//! JAX on virtual devices of the CPU.

use std::process::Command;

/// What XLA compiles runs slower than by default, is compiled in half of the time, and computes the
/// same: modules here run once, on few numbers.
const QUICKLY_COMPILED: &str =
    "--xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=0";

/// Gives a command that runs Python so many devices.
pub(crate) fn with_devices(command: &mut Command, devices: u64) -> &mut Command {
    let count = format!("--xla_force_host_platform_device_count={devices}");
    command
        .env("JAX_PLATFORMS", "cpu")
        .env("XLA_FLAGS", format!("{count} {QUICKLY_COMPILED}"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
}
