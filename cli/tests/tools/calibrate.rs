//! `measure_jax.py` on virtual devices of the CPU.

use std::process::Command;

use crate::cases::JAX;
use crate::common::root;
use crate::measuring::assert_read;
use crate::require;

const KINDS: [&str; 6] =
    ["product", "pass", "all_gather", "reduce_scatter", "all_reduce", "all_to_all"];

#[test]
fn what_jax_measures_is_read() {
    require(&["python3"]);
    let mut script = Command::new("python3");
    script
        .arg(root().join("cli/python/measure_jax.py"))
        .args(["--quick", "--dtypes=f32"])
        .env("JAX_PLATFORMS", "cpu")
        .env("XLA_FLAGS", "--xla_force_host_platform_device_count=4");
    assert_read(&mut script, "measure-jax", &KINDS, JAX);
}
