//! Explaining: every plan and every refusal is explained.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardwise_tests::reliability::try_chosen;

fuzz_target!(|bytes: &[u8]| try_chosen(&["explain"], bytes));
