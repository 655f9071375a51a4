//! Any text parses to a tree and errors that point into it, formats to a fixed point, and is
//! checked (and planned, if it is small) without a panic.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use shardwise::{Findings, Options};

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let checked = shardwise::check("fuzz", &text, &Options::default());
    points_into(&checked.findings, &text);
    if let Ok(once) = shardwise::format("fuzz", &text) {
        let twice = shardwise::format("fuzz", &once).expect("formatted text can be formatted");
        assert_eq!(twice, once);
    }
    if checked.program.is_some_and(|program| program.ops.len() <= 6 && program.mesh.axes.len() <= 2)
    {
        let options = Options { timeout: Some(Duration::from_secs(1)), ..Options::default() };
        match shardwise::plan("fuzz", &text, &options) {
            Ok(planned) => points_into(&planned.warnings, &text),
            Err(findings) => points_into(&findings, &text),
        }
    }
});

fn points_into(findings: &Findings, text: &str) {
    for label in findings.reports.iter().flat_map(|report| &report.diag.labels) {
        let is_inside = text.get(label.span.start..label.span.end).is_some();
        assert!(is_inside, "{label:?} is outside of the text, or inside of a character");
    }
}
