//! Tests that take minutes: every published measurement, laws on thousands of random inputs,
//! mutants of random plans, ladders of memory limits, programs that are branched for seconds.
//!
//! A target of its own, which `cargo test` leaves out and `.ci/run` runs. `RANDOM_TIMES=3` tries
//! three times as many random programs.

mod accuracy;
mod branching;
mod memory_limits;
mod mutants;
mod reliability;
mod reshards;
mod sizes;
