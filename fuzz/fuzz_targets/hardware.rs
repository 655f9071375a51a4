//! Hardware files: read and written as the same chips, or refused with errors that point into them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardwise_tests::reliability::try_chosen;

fuzz_target!(|bytes: &[u8]| try_chosen(&["hardware"], bytes));
