//! Queries for tests of the book's numbers: times of reshards, collectives of a plan, sizes of a
//! step.

use serde_json::Value;
use shardwise::inference::{Inference, RequestedPhase, Sizing};
use shardwise::json::{PlanJson, StepJson};
use shardwise::lint::{self, Levels, Settings};
use shardwise::verify::{Setup, evaluate, verify};
use shardwise::{Hardware, Options, Planned, Refinement, Strategy};

use crate::random::Arrays;
use crate::read;

/// The v5e of the book's chapter on inference, `tpu-v5e-820`: 820 GB/s of HBM, where the table of
/// chips, and the preset, say 810.
fn with_820() -> Option<Hardware> {
    let preset = Hardware::preset("tpu-v5e")?;
    Some(Hardware { name: "tpu-v5e-820".to_owned(), hbm_bandwidth: Some(820e9), ..preset })
}

/// The plan of a valid program.
///
/// # Panics
/// If it is not.
pub fn planned(source: &str, options: &Options) -> Planned {
    let options = Options {
        known: options.known.iter().cloned().chain(with_820()).collect(),
        ..options.clone()
    };
    shardwise::plan("fact", source, &options).unwrap_or_else(|error| panic!("{error}\n{source}"))
}

/// The book's own plan, whatever the memory.
pub fn textbook(source: &str) -> Planned {
    planned(
        source,
        &Options {
            strategy: Strategy::Textbook,
            memory: Some(f64::INFINITY),
            ..Options::default()
        },
    )
}

/// The cheapest plan, whatever the memory.
pub fn searched(source: &str) -> Planned {
    planned(source, &Options { memory: Some(f64::INFINITY), ..Options::default() })
}

/// The textbook's plan of a program of the book.
pub fn book(name: &str) -> Planned {
    textbook(&read(&format!("tests/programs/book/{name}.shard")))
}

/// The steps that move anything.
pub fn moves(plan: &PlanJson) -> Vec<&StepJson> {
    plan.steps.iter().filter(|step| !step.axes.is_empty() && step.kind != "slice").collect()
}

/// `AllGather_XY(In)`: a collective as tables list it.
pub fn short(step: &StepJson) -> String {
    let right = step.text.split(" = ").nth(1).unwrap_or(&step.text);
    let kind = right.split('_').next().unwrap_or(right);
    format!("{kind}_{}({})", step.axes.concat(), step.value)
}

/// The collectives of a plan in order.
pub fn collectives(planned: &Planned) -> Vec<String> {
    moves(&planned.json()).into_iter().map(short).collect()
}

/// The collectives that a fact lists, and which of them it calls critical: `AllToAll_{Z->B}(Q)` as
/// `AllToAll_Z(Q)`.
pub fn listed(fact: &Value) -> Vec<(String, bool)> {
    let lines = fact["value"].as_array().map(Vec::as_slice).unwrap_or_default();
    let line = |line: &Value| Some((plain(line["op"].as_str()?), line["critical"].as_bool()?));
    lines.iter().filter_map(line).collect()
}

fn plain(op: &str) -> String {
    match (op.find("->"), op.find('}')) {
        (Some(from), Some(to)) => format!("{}{}", &op[..from], &op[to + 1..]).replace('{', ""),
        _ => op.to_owned(),
    }
}

/// The one collective from one sharding of a value to another.
///
/// # Panics
/// If there are none or several.
pub fn reshard(head: &str, from: &str, to: &str, refinement: Refinement) -> StepJson {
    let options = Options {
        strategy: Strategy::Textbook,
        refinement,
        memory: Some(f64::INFINITY),
        ..Options::default()
    };
    let plan = planned(&format!("{head}\ninput A{from}\noutput A{to}\n"), &options).json();
    assert_eq!(plan.steps.len(), 1, "{head} {from} {to}");
    plan.steps[0].clone()
}

/// Its seconds.
pub fn seconds(head: &str, from: &str, to: &str) -> f64 {
    reshard(head, from, to, Refinement::Book).time_s
}

/// A plan as a step of decoding, at other batches too.
///
/// # Panics
/// If it is none.
pub fn decode(planned: &Planned, batches: &[u64]) -> Inference {
    let sizing = Sizing { phase: RequestedPhase::Decode, batches: batches.to_vec() };
    planned.inference(&sizing).unwrap_or_else(|e| panic!("{e}\n{planned}"))
}

/// The values that the unsharded program computes from those of `given`.
///
/// # Panics
/// If it is no program, or something is not given.
pub fn evaluated(source: &str, given: &[(&str, &[f64])]) -> Arrays {
    let checked = shardwise::check("fact", source, &Options::default());
    let program = checked.program.unwrap_or_else(|| panic!("{}\n{source}", checked.findings));
    let given = given.iter().map(|(name, data)| ((*name).to_owned(), data.to_vec())).collect();
    let values = evaluate(&program, &given).expect("all is declared");
    values.into_iter().collect()
}

/// Runs the searched plan of a program on simulated devices.
///
/// # Panics
/// If it computes anything else than the unsharded program.
pub fn runs_right(source: &str) {
    let verdict = verify("fact", source, &Options::default(), &Setup::default())
        .unwrap_or_else(|error| panic!("{error}\n{source}"));
    assert!(verdict.mismatch.is_none() && verdict.undefined == 0, "{verdict}\n{source}");
}

/// The codes of what `check` finds.
pub fn findings(source: &str) -> Vec<&'static str> {
    let linted = lint::lint("fact.shard", source, &Options::default(), &Settings::default());
    linted.findings.iter().map(|finding| finding.diag.code).collect()
}

/// Checks that `check` finds something with this code.
///
/// # Panics
/// If it does not.
pub fn fires(source: &str, code: &str) {
    assert!(findings(source).contains(&code), "{code}: {:?}\n{source}", findings(source));
}

/// Whether `check`, with this lint on, has a finding of it.
///
/// # Panics
/// If there is no such lint.
pub fn warned(source: &str, code: &str) -> bool {
    let mut settings = Settings::default();
    settings.layer(Levels {
        warn: vec![code.parse().expect("a code is a selector")],
        ..Levels::default()
    });
    let linted = lint::lint("fact.shard", source, &Options::default(), &settings);
    linted.findings.iter().any(|finding| finding.diag.code == code)
}

/// A program without a plan, and the code of the reason.
///
/// # Panics
/// If it has a plan, or another reason.
pub fn refused(source: &str, code: &str) {
    let findings = shardwise::plan("fact", source, &Options::default())
        .map(|plan| plan.to_string())
        .expect_err(source);
    assert!(findings.reports.iter().any(|report| report.diag.code == code), "{findings}");
}
