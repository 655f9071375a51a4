//! Comparing: a plan does not differ from itself, and from others in one direction as in the other.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardwise_tests::reliability::try_chosen;

fuzz_target!(|bytes: &[u8]| try_chosen(&["diff with itself", "diff"], bytes));
