//! SARIF 2.1.0, as code scanning reads it.
//!
//! The few objects that are needed are defined here; a crate for the complete standard would bring
//! a build script and builders for hundreds of types, without the important parts (stable
//! fingerprints, relative paths). A test validates the result against the standard's schema.

use std::collections::BTreeMap;
use std::hash::Hasher;

use rustc_hash::FxHasher;
use serde::Serialize;
use shardwise_ir::Span;
use shardwise_ir::codes;

use super::{name_of, severity_name};
use crate::lint::definition::{Finding, Fix, Level};
use crate::lint::engine::Linted;
use crate::lint::rules::find;
use crate::source::place::Lines;

#[derive(Serialize)]
struct Log {
    #[serde(rename = "$schema")]
    schema: &'static str,
    version: &'static str,
    runs: [Run; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Run {
    tool: Tool,
    column_kind: &'static str,
    results: Vec<ResultRecord>,
}

#[derive(Serialize)]
struct Tool {
    driver: Driver,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Driver {
    name: &'static str,
    semantic_version: &'static str,
    information_uri: &'static str,
    rules: Vec<Rule>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    id: &'static str,
    name: &'static str,
    short_description: Text,
    full_description: Text,
    help: Text,
    default_configuration: Configuration,
}

#[derive(Serialize)]
struct Configuration {
    level: &'static str,
}

#[derive(Serialize)]
struct Text {
    text: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResultRecord {
    rule_id: &'static str,
    rule_index: usize,
    level: &'static str,
    message: Text,
    locations: Vec<Location>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    related_locations: Vec<Location>,
    partial_fingerprints: BTreeMap<&'static str, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fixes: Vec<FixRecord>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    properties: BTreeMap<&'static str, f64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Location {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<usize>,
    #[serde(rename = "physicalLocation")]
    physical: Physical,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Text>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Physical {
    artifact_location: Artifact,
    region: Region,
}

#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct Artifact {
    uri: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri_base_id: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Region {
    start_line: usize,
    start_column: usize,
    end_line: usize,
    end_column: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FixRecord {
    description: Text,
    artifact_changes: [Change; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Change {
    artifact_location: Artifact,
    replacements: Vec<Replacement>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Replacement {
    deleted_region: Region,
    inserted_content: Text,
}

/// The SARIF text, indented.
pub fn sarif(linted: &[Linted]) -> String {
    let mut ids: Vec<&'static str> =
        linted.iter().flat_map(|file| &file.findings).map(|finding| finding.diag.code).collect();
    ids.sort_unstable();
    ids.dedup();
    let driver = Driver {
        name: "shardwise",
        semantic_version: env!("CARGO_PKG_VERSION"),
        information_uri: env!("CARGO_PKG_REPOSITORY"),
        rules: ids.iter().map(|id| rule(id)).collect(),
    };
    let results = linted.iter().flat_map(|file| results(file, &ids)).collect();
    let run = Run { tool: Tool { driver }, column_kind: "unicodeCodePoints", results };
    let log = Log {
        schema: "https://json.schemastore.org/sarif-2.1.0.json",
        version: "2.1.0",
        runs: [run],
    };
    serde_json::to_string_pretty(&log).unwrap_or_default() + "\n"
}

fn rule(id: &'static str) -> Rule {
    let (short, full, level) = match (find(id), codes::find(id)) {
        (Some(lint), _) => (
            lint.what.to_owned(),
            lint.why.to_owned(),
            if lint.level == Level::Deny { "error" } else { "warning" },
        ),
        (None, Some(code)) => (code.summary().to_owned(), code.summary().to_owned(), "error"),
        (None, None) => (id.to_owned(), id.to_owned(), "error"),
    };
    let help = find(id)
        .map(ToString::to_string)
        .or_else(|| codes::find(id).map(|code| code.page.to_owned()))
        .unwrap_or_default();
    Rule {
        id,
        name: name_of(id),
        short_description: Text { text: short },
        full_description: Text { text: full },
        help: Text { text: help },
        default_configuration: Configuration { level },
    }
}

fn results(file: &Linted, ids: &[&'static str]) -> Vec<ResultRecord> {
    let lines = Lines::new(&file.source);
    let mut seen: BTreeMap<u64, usize> = BTreeMap::new();
    file.findings.iter().map(|finding| result(file, &lines, finding, ids, &mut seen)).collect()
}

fn result(
    file: &Linted,
    lines: &Lines<'_>,
    finding: &Finding,
    ids: &[&'static str],
    seen: &mut BTreeMap<u64, usize>,
) -> ResultRecord {
    let diag = &finding.diag;
    let mut labels = diag.labels.iter();
    let first = labels.next().map(|label| location(file, lines, label.span, None));
    let related = labels.enumerate().map(|(number, label)| Location {
        id: Some(number + 1),
        ..location(file, lines, label.span, Some(label.text.clone()))
    });
    let help = diag.help.as_ref().map_or(String::new(), |help| format!("\n{help}"));
    ResultRecord {
        rule_id: diag.code,
        rule_index: ids.iter().position(|id| *id == diag.code).unwrap_or_default(),
        level: severity_name(diag.severity),
        message: Text { text: format!("{}{help}", diag.message) },
        locations: first.into_iter().collect(),
        related_locations: related.collect(),
        partial_fingerprints: BTreeMap::from([(
            "shardwiseStatement/v1",
            fingerprint(lines, finding, seen),
        )]),
        fixes: finding.fix.iter().map(|fix| fix_record(file, lines, fix)).collect(),
        properties: finding
            .price
            .map(|price| BTreeMap::from([("seconds", price.seconds), ("bytes", price.bytes)]))
            .unwrap_or_default(),
    }
}

/// The fingerprint, which stays the same when lines are added above: the code, the line's text, and
/// which of several equal ones it is.
fn fingerprint(lines: &Lines<'_>, finding: &Finding, seen: &mut BTreeMap<u64, usize>) -> String {
    let mut hasher = FxHasher::default();
    hasher.write(finding.diag.code.as_bytes());
    hasher.write(lines.line(lines.place(finding.span().start).line).trim().as_bytes());
    let hash = hasher.finish();
    let number = seen.entry(hash).or_default();
    *number += 1;
    format!("{hash:016x}:{number}")
}

fn location(file: &Linted, lines: &Lines<'_>, span: Span, message: Option<String>) -> Location {
    let physical =
        Physical { artifact_location: artifact(&file.name), region: region(lines, span) };
    Location { id: None, physical, message: message.map(|text| Text { text }) }
}

fn region(lines: &Lines<'_>, span: Span) -> Region {
    let (start, end) = lines.range(span);
    Region {
        start_line: start.line,
        start_column: start.column,
        end_line: end.line,
        end_column: end.column,
    }
}

/// Paths are relative to the root of the checkout.
fn artifact(path: &str) -> Artifact {
    let is_absolute = path.starts_with('/');
    let scheme = if is_absolute { "file://" } else { "" };
    Artifact {
        uri: format!("{scheme}{}", encoded(path)),
        uri_base_id: (!is_absolute).then_some("%SRCROOT%"),
    }
}

/// Percent-encodes what may not stand in the path of a URI.
fn encoded(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/!$&'()*+,;=@".contains(&byte);
    path.replace('\\', "/")
        .bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

fn fix_record(file: &Linted, lines: &Lines<'_>, fix: &Fix) -> FixRecord {
    let replacements = fix.edits.iter().map(|edit| Replacement {
        deleted_region: region(lines, edit.span),
        inserted_content: Text { text: edit.text.clone() },
    });
    let change =
        Change { artifact_location: artifact(&file.name), replacements: replacements.collect() };
    FixRecord { description: Text { text: fix.title.clone() }, artifact_changes: [change] }
}
