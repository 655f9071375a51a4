//! Laws of pairs of programs, each on the inputs that libFuzzer chooses; the first byte chooses the
//! law.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardwise_tests::reliability::try_chosen;

const LAWS: [&str; 7] = [
    "renaming",
    "order",
    "dead statements",
    "freedom",
    "memory ladder",
    "bandwidth",
    "threads",
];

fuzz_target!(|bytes: &[u8]| {
    let Some((&law, rest)) = bytes.split_first() else { return };
    try_chosen(&[LAWS[usize::from(law) % LAWS.len()]], rest);
});
