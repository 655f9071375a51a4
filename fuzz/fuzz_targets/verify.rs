//! Running: both plans compute on simulated devices what the program computes on one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardwise_tests::reliability::try_chosen;

fuzz_target!(|bytes: &[u8]| try_chosen(&["verify"], bytes));
