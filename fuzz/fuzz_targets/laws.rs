//! The laws that the tests try on random inputs, on inputs that the fuzzer chooses.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardwise_tests::reliability::inputs::{Input, Kind};
use shardwise_tests::reliability::{check, laws};
use shardwise_tests::{random_model, random_program};

fuzz_target!(|bytes: &[u8]| {
    let [law, kind, rest @ ..] = bytes else { return };
    let laws = laws();
    let law = &laws[usize::from(*law) % laws.len()];
    let kind = law.kinds[usize::from(*kind) % law.kinds.len()];
    let numbers: Vec<u32> = rest.iter().map(|&byte| u32::from(byte)).collect();
    let text = match kind {
        Kind::Program => random_program::program(&numbers, 1 + rest.len() % 3, 1 + rest.len() % 8),
        Kind::Model => random_model::model(&numbers),
        Kind::Mutant | Kind::Bytes | Kind::Hardware => String::from_utf8_lossy(rest).into_owned(),
    };
    if let Err(fault) = check(law, &Input::new(kind, text, 0)) {
        panic!("{}: {fault}", law.name);
    }
});
