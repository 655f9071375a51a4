//! The cases as their files have them.

use serde_json::Value;
use shardwise::accuracy::Group;

use crate::read;

/// A published measurement.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name on the page.
    pub id: String,
    /// The name of its source, as the file of cases lists it.
    pub source: String,
    /// What was measured.
    pub what: String,
    /// The group whose error it counts to.
    pub group: Group,
    /// Seconds, or bytes.
    pub measured: f64,
    /// Programs whose times add up.
    pub parts: Vec<Part>,
    /// Whether the measured run wrote the scores of attention to memory.
    pub writes_scores: bool,
    /// Why it is no measure of the cost model, if it is none: it is shown and not counted.
    pub outlier: Option<String>,
}

/// A program of a case.
#[derive(Clone, Debug)]
pub struct Part {
    /// The file in `tests/measured/programs`.
    pub program: String,
    /// A preset, or a machine of `tests/measured/clusters.toml`.
    pub hardware: String,
    /// As `--mesh` takes it.
    pub mesh: String,
    /// As `--dim` takes it.
    pub dims: String,
    /// How often it runs.
    pub times: f64,
    /// Words of the program's text, and what they are replaced by.
    replace: Vec<(String, String)>,
}

impl Part {
    /// The program's text.
    pub fn source(&self) -> String {
        let text = read(&format!("tests/measured/programs/{}", self.program));
        self.replace.iter().fold(text, |text, (from, to)| text.replace(from, to))
    }
}

impl Case {
    /// The machine of its first part.
    pub fn hardware(&self) -> &str {
        &self.parts[0].hardware
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn part(value: &Value) -> Part {
    let words = |pair: &Value| (text(&pair[0]), text(&pair[1]));
    Part {
        program: text(&value["program"]),
        hardware: text(&value["hardware"]),
        mesh: text(&value["mesh"]),
        dims: text(&value["dim"]),
        times: value["times"].as_f64().unwrap_or(1.0),
        replace: value["replace"].as_array().into_iter().flatten().map(words).collect(),
    }
}

fn group(value: &Value) -> Group {
    match value["group"].as_str() {
        Some("collective") => Group::Collectives,
        Some("gemm" | "hbm") => Group::Kernels,
        Some("train") => Group::Training,
        Some("prefill") => Group::Prefill,
        Some("decode") => Group::Decode,
        _ => Group::Memory,
    }
}

fn case(value: &Value) -> Case {
    let measured = value["measured_s"].as_f64().or(value["measured_peak_bytes"].as_f64());
    Case {
        id: text(&value["id"]),
        source: text(&value["source"]),
        what: text(&value["what"]),
        group: group(value),
        measured: measured.expect("a measurement"),
        parts: value["parts"].as_array().into_iter().flatten().map(part).collect(),
        writes_scores: value["attention"] == "written",
        outlier: value["outlier"].as_str().map(str::to_owned),
    }
}

fn cases(file: &str) -> Vec<Case> {
    let json: Value = serde_json::from_str(&read(file)).expect("JSON");
    json["cases"].as_array().into_iter().flatten().map(case).collect()
}

/// Measured times.
pub fn time_cases() -> Vec<Case> {
    cases("tests/measured/cases.json")
}

/// Measured peaks of memory.
pub fn memory_cases() -> Vec<Case> {
    cases("tests/measured/memory_cases.json")
}

/// Megatron's models of 1.7B to 1T parameters; times follow from the published rates.
pub fn megatron_cases() -> Vec<Case> {
    cases("tests/measured/megatron.json")
}

/// What calculon's optimiser finds; the time is its own prediction.
pub fn calculon_cases() -> Vec<Case> {
    cases("tests/measured/calculon.json")
}
