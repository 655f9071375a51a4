//! Reading: any text is resolved or refused with errors that point into it; what is read formats and
//! prints as the same program.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardwise_tests::reliability::try_chosen;

fuzz_target!(|bytes: &[u8]| try_chosen(&["read or refused", "format", "print"], bytes));
