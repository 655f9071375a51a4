//! Planning: any text is planned or refused; a plan is accepted, formats and is planned to itself, and
//! lies between its bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardwise_tests::reliability::try_chosen;

fuzz_target!(|bytes: &[u8]| try_chosen(&["plan or refused", "plan of a plan", "bounds", "lint"], bytes));
