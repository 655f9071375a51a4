//! The findings as JSON: one object, field names fixed, more may be added.

use serde::Serialize;
use shardwise_ir::Span;

use super::{Summary, name_of, severity_name};
use crate::lint::definition::{Finding, Fix, Price, Safety};
use crate::lint::engine::Linted;
use crate::source::place::Lines;

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    files: usize,
    errors: usize,
    warnings: usize,
    findings: Vec<Record<'a>>,
}

#[derive(Serialize)]
struct Record<'a> {
    path: &'a str,
    code: &'static str,
    name: &'static str,
    severity: &'static str,
    message: &'a str,
    help: Option<&'a str>,
    /// The cost of the fault: seconds per step, and bytes of a device.
    cost: Option<Cost>,
    /// The fault first, its causes after it.
    labels: Vec<Label<'a>>,
    fix: Option<FixRecord<'a>>,
}

#[derive(Serialize)]
struct Cost {
    seconds: f64,
    bytes: f64,
}

/// A place: bytes from 0, lines and columns (characters) from 1.
#[derive(Serialize)]
struct At {
    start: usize,
    end: usize,
    line: usize,
    column: usize,
    end_line: usize,
    end_column: usize,
}

#[derive(Serialize)]
struct Label<'a> {
    text: &'a str,
    #[serde(flatten)]
    at: At,
}

#[derive(Serialize)]
struct FixRecord<'a> {
    title: &'a str,
    /// `safe`, or `suggestion`: never applied without asking.
    safety: &'static str,
    edits: Vec<EditRecord<'a>>,
}

#[derive(Serialize)]
struct EditRecord<'a> {
    #[serde(flatten)]
    at: At,
    text: &'a str,
}

/// The JSON text, indented.
pub fn json(linted: &[Linted]) -> String {
    let summary = Summary::of(linted);
    let findings = linted.iter().flat_map(|file| {
        let lines = Lines::new(&file.source);
        file.findings.iter().map(move |finding| record(file, &lines, finding))
    });
    let document = Document {
        schema: "shardwise.check/1",
        files: summary.files,
        errors: summary.errors,
        warnings: summary.warnings,
        findings: findings.collect(),
    };
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}

fn record<'a>(file: &'a Linted, lines: &Lines<'_>, finding: &'a Finding) -> Record<'a> {
    let diag = &finding.diag;
    Record {
        path: &file.name,
        code: diag.code,
        name: name_of(diag.code),
        severity: severity_name(diag.severity),
        message: &diag.message,
        help: diag.help.as_deref(),
        cost: finding.price.map(|Price { seconds, bytes }| Cost { seconds, bytes }),
        labels: diag
            .labels
            .iter()
            .map(|label| Label { text: &label.text, at: at(lines, label.span) })
            .collect(),
        fix: finding.fix.as_ref().map(|fix| fix_record(lines, fix)),
    }
}

fn fix_record<'a>(lines: &Lines<'_>, fix: &'a Fix) -> FixRecord<'a> {
    let safety = match fix.safety {
        Safety::Safe => "safe",
        Safety::Suggestion => "suggestion",
    };
    let edits =
        fix.edits.iter().map(|edit| EditRecord { at: at(lines, edit.span), text: &edit.text });
    FixRecord { title: &fix.title, safety, edits: edits.collect() }
}

fn at(lines: &Lines<'_>, span: Span) -> At {
    let (from, to) = lines.range(span);
    At {
        start: span.start,
        end: span.end,
        line: from.line,
        column: from.column,
        end_line: to.line,
        end_column: to.column,
    }
}
