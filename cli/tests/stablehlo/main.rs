//! Every plan exported to `StableHLO`, parsed and verified by JAX's MLIR, run on virtual devices of
//! the CPU and compared with the unsharded program in float64.
//!
//! The suite `tools` runs a part of them; this one takes minutes and runs on demand:
//! `pip install -r cli/python/requirements.txt`, then
//! `cargo test -p shardwise-cli --test stablehlo`.

#[path = "../tools/cases.rs"]
#[expect(dead_code, reason = "this suite writes no modules of Python")]
mod cases;
#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "this suite runs no pages")]
mod common;
#[path = "../tools/run_sdy.rs"]
mod run_sdy;
#[path = "../tools/virtual_devices.rs"]
mod virtual_devices;

#[test]
fn every_module_computes_what_it_means() {
    assert!(run_sdy::run("all", &[""], |_, _| true) > 200);
}
