//! Random programs that the fuzzer chooses: both plans compute what the program does, the search's
//! is never the more expensive one, planning a plan gives the same text, and a plan with one
//! character replaced is checked without a panic.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use shardwise::verify::{Setup, verify};
use shardwise::{Options, Strategy};
use shardwise_tests::random_program;

fuzz_target!(|bytes: &[u8]| {
    let [shape, place, character, numbers @ ..] = bytes else { return };
    let numbers: Vec<u32> = numbers.iter().map(|&byte| u32::from(byte)).collect();
    let source = random_program::program(
        &numbers,
        1 + usize::from(shape % 3),
        1 + usize::from(shape / 4) % 12,
    );
    let options = Options {
        timeout: Some(Duration::from_secs(2)),
        memory: Some(f64::INFINITY),
        ..Options::default()
    };
    for strategy in [Strategy::Search, Strategy::Textbook] {
        let Ok(verdict) =
            verify("fuzz", &source, &Options { strategy, ..options.clone() }, &Setup::default())
        else {
            return;
        };
        assert!(verdict.mismatch.is_none(), "{verdict}\n{source}");
    }
    let planned = shardwise::plan("fuzz", &source, &options).expect("it was planned before");
    assert!(
        planned.report.serial_s <= planned.textbook.serial_s * (1.0 + 1e-9),
        "{source}\n{planned}"
    );
    let text = planned.to_string();
    let again = shardwise::plan("fuzz", &text, &options).expect("a plan can be planned");
    assert_eq!(again.to_string(), text);
    let mut mutated: Vec<char> = text.chars().collect();
    let at = usize::from(*place) * mutated.len() / 256;
    mutated[at] = char::from(*character);
    let mutated: String = mutated.into_iter().collect();
    shardwise::check("fuzz", &mutated, &Options { explicit: true, ..options });
});
