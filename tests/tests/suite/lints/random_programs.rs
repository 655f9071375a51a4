//! Lints on random programs: findings point into the source and have a price, and safe edits do not
//! change results.

use std::cell::Cell;

use proptest::prelude::{TestCaseError, prop_assert, prop_assert_eq};
use proptest::strategy::Strategy as _;
use shardwise::Options;
use shardwise::lint::{self, Levels, Linted, Settings, formats};
use shardwise_tests::random::{for_all, numbers};
use shardwise_tests::small_sizes::outputs;
use shardwise_tests::{files, random_program, small_sizes};

/// Every lint, those that are off by default too.
fn everything() -> Settings {
    let mut settings = Settings::default();
    settings.layer(Levels { warn: vec!["all".parse().expect("a selector")], ..Levels::default() });
    settings
}

fn is_sound(linted: &Linted) -> Result<(), TestCaseError> {
    let source = &linted.source;
    for finding in &linted.findings {
        for label in &finding.diag.labels {
            prop_assert!(
                source.get(label.span.start..label.span.end).is_some(),
                "{} points nowhere\n{source}",
                finding.diag.code
            );
        }
        let is_number = |x: f64| x.is_finite() && x >= 0.0;
        prop_assert!(
            finding.price.is_none_or(|price| is_number(price.seconds) && is_number(price.bytes)),
            "{finding:?}\n{source}"
        );
    }
    for text in [formats::concise, formats::github, formats::json, formats::sarif, formats::junit]
        .map(|format| format(std::slice::from_ref(linted)))
    {
        prop_assert!(linted.findings.is_empty() || !text.is_empty());
    }
    Ok(())
}

/// Lints a program and makes its safe edits; how many were made.
fn judge(source: &str) -> Result<usize, TestCaseError> {
    let (options, settings) = (Options::default(), everything());
    let before = lint::lint("random", source, &options, &settings);
    is_sound(&before)?;
    let (after, count) = lint::fixed(before.clone(), &options, &settings);
    is_sound(&after)?;
    let (again, more) = lint::fixed(after.clone(), &options, &settings);
    prop_assert_eq!((&again.source, more), (&after.source, 0), "{}", source);
    if count == 0 {
        return Ok(0);
    }
    // Some programs do not survive being made small.
    let Some((original, edited)) =
        small_sizes::program("before", source).zip(small_sizes::program("after", &after.source))
    else {
        return Ok(0);
    };
    prop_assert_eq!(outputs(&original), outputs(&edited), "{}\n{}", source, after.source);
    Ok(count)
}

fn run(cases: u32, axes: usize, operations: usize) -> usize {
    let edits = Cell::new(0);
    let program = |numbers: Vec<u32>| random_program::program(&numbers, axes, operations);
    let judged = |source: String| judge(&source).map(|count| edits.set(edits.get() + count));
    for_all(cases, &numbers(120).prop_map(program), judged);
    edits.get()
}

#[test]
fn random_programs_on_one_axis() {
    let edits: usize = [1, 4, 8].into_iter().map(|operations| run(60, 1, operations)).sum();
    assert!(edits > 50, "hardly anything was edited: {edits}");
}

#[test]
fn random_programs_on_two_axes() {
    let edits: usize = [3, 8].into_iter().map(|operations| run(40, 2, operations)).sum();
    assert!(edits > 20, "hardly anything was edited: {edits}");
}

/// Texts that nobody would write: every program up to each of its lines, with one line missing, and
/// with a word exchanged.
#[test]
fn broken_programs_are_reported_and_nothing_panics() {
    let folders = ["book", "training", "explicit", "errors", "codes", "open"];
    let programs =
        folders.iter().flat_map(|folder| files(&format!("tests/programs/{folder}"), ".shard"));
    let settings = everything();
    for (name, source) in programs {
        let lines: Vec<&str> = source.lines().collect();
        for at in 0..lines.len() {
            let without: Vec<&str> = lines
                .iter()
                .enumerate()
                .filter(|(number, _)| *number != at)
                .map(|(_, line)| *line)
                .collect();
            let allowed = format!("{}\nallow SW301, SW3 {}\n", lines[..at].join("\n"), lines[at]);
            for text in [lines[..at].join("\n"), without.join("\r\n"), allowed] {
                let linted = lint::lint(&name, &text, &Options::default(), &settings);
                is_sound(&linted).unwrap_or_else(|error| panic!("{name}: {error}"));
                lint::fixed(linted, &Options::default(), &settings);
            }
        }
    }
}
