//! A plan as a comment on a pull request: a heading with its time, the totals beside those of the
//! textbook's plan, a table of the collectives, and findings and the plan itself to fold out.
//!
//! `diff --format md` is the comment about a change; this one is about a program that is new.

use std::fmt::Write as _;

use indexmap::IndexMap;
use shardwise_ir::plan::{Step, StepKind};
use shardwise_ir::print;
use shardwise_passes::report::{Report, StepCost};

use crate::Planned;
use crate::display::units;
use crate::lint::{self, Finding, Lines, Settings};
use crate::planned::summary::held_kinds;
use crate::use_def::moves_data;

/// The most collectives with a line of their own.
const MOST_ROWS: usize = 20;

/// A line and its executions in a step, all layers together.
#[derive(Default)]
struct Row {
    executions: f64,
    bytes: f64,
    seconds: f64,
    critical: bool,
}

/// The comment.
pub(super) fn markdown(planned: &Planned) -> String {
    let mesh = &planned.plan.program.mesh;
    let axes = print::mesh(mesh);
    let mut out = format!(
        "### `{}`: {} a step, bound by {}\n\n`{}` on {} ({}).\n",
        code(&planned.name),
        units::seconds(planned.report.schedule.makespan_s),
        planned.bound_by(),
        code(&axes.join(", ")),
        planned.plan.program.hardware.reference(),
        units::counted(mesh.devices(), "device"),
    );
    out.extend(planned.parallelism().iter().map(|axis| format!("* {axis}\n")));
    out.push_str(&totals(planned));
    out.push_str(&collectives(planned));
    out.push_str(&findings(planned));
    let text = planned.to_string();
    let _ = write!(out, "\n{}", folded("The plan", &format!("```text\n{text}```\n")));
    out
}

/// Times and memory, beside the textbook's where that has a plan of its own.
fn totals(planned: &Planned) -> String {
    type Total = (&'static str, fn(&Report) -> String);
    const TOTALS: [Total; 5] = [
        ("scheduled", |of| units::seconds(of.schedule.makespan_s)),
        ("serial", |of| units::seconds(of.serial_s)),
        ("compute", |of| units::seconds(of.compute_s)),
        ("communication", |of| units::seconds(of.comm_s)),
        ("peak memory", |of| units::bytes(of.memory.peak_bytes)),
    ];
    let compares = planned.strategy_name() == "search" && !planned.rules_fail;
    let heads = if compares { "| | plan | textbook |" } else { "| | plan |" };
    let lines = if compares { "| --- | ---: | ---: |" } else { "| --- | ---: |" };
    let mut out = format!("\n{heads}\n{lines}\n");
    for (name, value) in TOTALS {
        let book =
            if compares { format!(" {} |", value(&planned.textbook)) } else { String::new() };
        let _ = writeln!(out, "| {name} | {} |{book}", value(&planned.report));
    }
    if let Some(capacity) = planned.capacity_bytes {
        let share = 100.0 * planned.report.memory.peak_bytes / capacity;
        let _ = writeln!(out, "\nPeak memory is {share:.1}% of {}.", units::bytes(capacity));
    }
    out + &remarks(planned)
}

/// The expected time, utilisation, and what is held at the peak, where the text of a plan has them.
fn remarks(planned: &Planned) -> String {
    let held = held_kinds(&planned.report).join(", ");
    let held = Some(held).filter(|kinds| !kinds.is_empty());
    let lines = [
        planned.expected_line(),
        planned.metrics_line(),
        held.map(|kinds| format!("held at the peak: {kinds}")),
    ];
    let lines: Vec<String> = lines.into_iter().flatten().collect();
    if lines.is_empty() { String::new() } else { format!("\n* {}\n", lines.join("\n* ")) }
}

/// The collectives with the most time first; equal lines in one row.
fn collectives(planned: &Planned) -> String {
    let mut rows: IndexMap<String, Row> = IndexMap::new();
    let steps = planned.plan.steps.iter().zip(&planned.report.steps).enumerate();
    let moves = |(_, (step, cost)): &(usize, (&Step, &StepCost))| moves_data(step, cost);
    for (number, (step, cost)) in steps.filter(moves) {
        let row = rows.entry(text(planned, step)).or_default();
        row.executions += cost.times;
        row.bytes += cost.times * cost.bytes;
        row.seconds += cost.total_s();
        row.critical |= planned.report.schedule.critical[number];
    }
    if rows.is_empty() {
        return "\nNothing is communicated.\n".to_owned();
    }
    rows.sort_by(|_, a, _, b| b.seconds.total_cmp(&a.seconds));
    let mut out = "\n| collective | times | bytes | time | |\n| --- | ---: | ---: | ---: | --- |\n"
        .to_owned();
    for (text, row) in rows.iter().take(MOST_ROWS) {
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {} | {} |",
            code(text),
            units::number(row.executions),
            units::bytes(row.bytes),
            units::seconds(row.seconds),
            if row.critical { "critical" } else { "" },
        );
    }
    if rows.len() > MOST_ROWS {
        let rest: f64 = rows.values().skip(MOST_ROWS).map(|row| row.seconds).sum();
        let (count, time) = (rows.len() - MOST_ROWS, units::seconds(rest));
        let _ = writeln!(out, "| {count} others | | | {time} | |");
    }
    out
}

/// A collective, or a statement that sends data itself.
fn text(planned: &Planned, step: &Step) -> String {
    let text = print::step(&planned.plan.program, step);
    match step.kind {
        StepKind::Collective(..) => text,
        StepKind::Local(_) => text.split(" in k").next().unwrap_or_default().to_owned(),
    }
}

/// What `check` finds, with the edits.
fn findings(planned: &Planned) -> String {
    let (name, source) = (&planned.name, &planned.source);
    let linted = lint::lint(name, source, &planned.options, &Settings::default());
    if linted.findings.is_empty() {
        return "\nNo findings.\n".to_owned();
    }
    let lines = Lines::new(source);
    let items: String = linted.findings.iter().map(|finding| item(finding, &lines)).collect();
    let count = units::counted(linted.findings.len() as u64, "finding");
    format!("\n{}", folded(&count, &items))
}

fn item(finding: &Finding, lines: &Lines<'_>) -> String {
    let diag = &finding.diag;
    let mut out = format!("* {} at line {}: {}", diag.code, lines.of(finding.span()), diag.message);
    if let Some(help) = &diag.help {
        let _ = write!(out, "; {help}");
    }
    out.replace('\n', " ") + "\n"
}

fn folded(title: &str, content: &str) -> String {
    format!("<details><summary>{title}</summary>\n\n{content}\n</details>\n")
}

/// Text between backticks in a table, where a bar would end the cell.
fn code(text: &str) -> String {
    text.replace('|', "\\|").replace('`', "'")
}
