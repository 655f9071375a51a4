//! Syntax alone: any text parses to a tree and errors that point into it, and formats to a fixed
//! point. Fast enough for millions of inputs.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let (_, diags) = shardwise_grammar::parse(&text);
    for label in diags.iter().flat_map(|diag| &diag.labels) {
        let is_inside = text.get(label.span.start..label.span.end).is_some();
        assert!(is_inside, "{label:?} is outside of the text, or inside of a character");
    }
    if let Ok(once) = shardwise_grammar::format(&text) {
        let twice = shardwise_grammar::format(&once).expect("formatted text can be formatted");
        assert_eq!(twice, once);
    }
});
