//! Parsing a printed program returns the same program, and formatting keeps its meaning. The first
//! byte chooses between text and the random programs of the tests.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardwise::Options;
use shardwise_ir::print::same;
use shardwise_tests::random_program;

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let text = if first % 4 == 0 {
        String::from_utf8_lossy(rest).into_owned()
    } else {
        random_program::program(
            &numbers(rest),
            1 + usize::from(first / 4) % 3,
            1 + usize::from(first / 16) % 12,
        )
    };
    let Some(program) = shardwise::check("fuzz", &text, &Options::default()).program else {
        return;
    };
    let read = |text: &str| {
        shardwise::check("fuzz", text, &Options::default())
            .program
            .unwrap_or_else(|| panic!("is not read again:\n{text}"))
    };
    let printed = program.to_string();
    assert!(same(&program, &read(&printed)), "{text}\nprints as\n{printed}");
    let formatted = shardwise::format("fuzz", &text).expect("what can be read can be formatted");
    assert!(same(&program, &read(&formatted)), "{text}\nformats as\n{formatted}");
});

fn numbers(bytes: &[u8]) -> Vec<u32> {
    bytes.iter().map(|&byte| u32::from(byte)).collect()
}
