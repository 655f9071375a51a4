//! Every program of the tests exported to JAX and compared: outputs with the unsharded program in
//! all styles, collectives of the compiled modules with the plans, gradients with `jax.vjp`, and
//! plans with what XLA's partitioner makes of the same programs.
//!
//! `.ci/run` runs a part of it in the suite `tools`; all of it takes half an hour, on demand:
//! `cargo test -p shardwise-cli --test conformance`. It needs Python, and a network once:
//! the suite makes a virtual environment with the pinned JAX.

#![expect(clippy::print_stdout, reason = "a suite on demand shows what is refused")]

#[path = "../tools/cases.rs"]
#[expect(dead_code, reason = "this suite writes no modules for PyTorch")]
mod cases;
#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "this suite runs no pages")]
mod common;
mod environment;
mod gradients;
mod modules;
mod partitioner;
#[path = "../tools/virtual_devices.rs"]
mod virtual_devices;
