//! The memory of a device over the steps of the plan, by kind, against its limit, and what is held
//! at the peak.

use std::fmt::Write as _;

use askama::Template;
use shardwise_ir::Role;
use shardwise_ir::ids::ValueId;
use shardwise_ir::plan::Plan;
use shardwise_ir::print;
use shardwise_ir::sharding::Pin;
use shardwise_passes::held::{self, HeldKind};
use shardwise_passes::liveness::{self, Live};

use crate::Planned;
use crate::display::units;
use crate::planned::step_name::step_name;

/// The size of the chart.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 220.0;
/// Of more steps, each column is the one of its steps with most memory.
const COLUMNS: usize = 1000;
/// The rows of the table.
const ROWS: usize = 15;
/// A limit higher than this many peaks is not drawn.
const FAR: f64 = 3.0;

/// The kinds from the bottom of the chart to its top.
const KINDS: [(HeldKind, &str); 6] = [
    (HeldKind::Parameters, "parameters"),
    (HeldKind::State, "state"),
    (HeldKind::Inputs, "inputs"),
    (HeldKind::GatheredParameters, "gathered"),
    (HeldKind::Activations, "activations"),
    (HeldKind::Gradients, "gradients"),
];

/// What is held at the peak.
struct Row {
    text: String,
    kind: &'static str,
    class: &'static str,
    bytes: String,
    share: f64,
    kept: String,
}

/// A kind as an area of the chart.
struct Area {
    class: &'static str,
    name: &'static str,
    path: String,
}

/// The memory of a plan.
#[derive(Template)]
#[template(path = "memory.html")]
pub(super) struct MemoryPanel {
    peak: String,
    peak_step: String,
    /// Where the peak is, in per cent of the width.
    peak_at: f64,
    limit: Option<String>,
    /// Where the limit is drawn, in per cent of the height.
    limit_at: Option<f64>,
    top: String,
    areas: Vec<Area>,
    rows: Vec<Row>,
    others: String,
}

/// The memory of a plan.
pub(super) fn memory(planned: &Planned) -> MemoryPanel {
    let (plan, memory) = (&planned.plan, &planned.report.memory);
    let live = liveness::live_ranges(plan, plan.dataflow());
    let peak = memory.peak_bytes;
    let limit = planned.capacity_bytes;
    let drawn = limit.filter(|limit| *limit <= FAR * peak);
    let top = 1.05 * drawn.unwrap_or(peak).max(peak).max(1.0);
    let steps = plan.steps.len().max(1);
    let peak_step = memory.peak_step.unwrap_or(0);
    let named = memory.peak_step.map(|step| step_name(&plan.program, &plan.steps[step]));
    let (rows, others) = rows(planned, &live, peak_step);
    MemoryPanel {
        peak: units::bytes(peak),
        peak_step: named.unwrap_or_default(),
        peak_at: round(100.0 * (peak_step as f64 + 0.5) / steps as f64),
        limit: limit.map(units::bytes),
        limit_at: drawn.map(|limit| round(100.0 * (1.0 - limit / top))),
        top: units::bytes(top),
        areas: areas(plan, &live, top),
        rows,
        others,
    }
}

/// For each kind its bytes at each step.
fn by_kind(plan: &Plan, live: &[Live]) -> Vec<Vec<f64>> {
    let steps = plan.steps.len().max(1);
    let kinds = held::kinds(&plan.program);
    let position = |kind: HeldKind| KINDS.iter().position(|(other, _)| *other == kind);
    let mut bytes = vec![vec![0.0; steps]; KINDS.len()];
    for value in plan.program.values.indices() {
        let is_param = plan.program.values[value].role == Some(Role::Param);
        let row = usize::from(!is_param);
        let resident = held::resident_bytes(&plan.program, value).unwrap_or_default();
        bytes[row].iter_mut().for_each(|at| *at += resident);
    }
    for of in live {
        let row = position(kinds[of.of.value]).unwrap_or(0);
        let end = (*of.steps.end() + 1).min(steps);
        bytes[row][*of.steps.start()..end].iter_mut().for_each(|at| *at += of.bytes);
    }
    bytes
}

fn areas(plan: &Plan, live: &[Live], top: f64) -> Vec<Area> {
    let bytes = by_kind(plan, live);
    let steps = bytes[0].len();
    let columns = steps.min(COLUMNS);
    let total = |step: usize| bytes.iter().map(|kind| kind[step]).sum::<f64>();
    let chosen: Vec<usize> = (0..columns)
        .map(|column| {
            let range = column * steps / columns..(column + 1) * steps / columns;
            range.max_by(|a, b| total(*a).total_cmp(&total(*b))).unwrap_or(0)
        })
        .collect();
    let mut below = vec![0.0; columns];
    let mut areas = Vec::new();
    for (kind, (of, class)) in KINDS.iter().enumerate() {
        let above: Vec<f64> =
            below.iter().zip(&chosen).map(|(below, step)| below + bytes[kind][*step]).collect();
        if above != below {
            areas.push(Area { class, name: of.name(), path: area(&below, &above, top) });
        }
        below = above;
    }
    areas
}

/// The area between two lines of steps.
fn area(below: &[f64], above: &[f64], top: f64) -> String {
    let x = |column: usize| round(WIDTH * column as f64 / above.len() as f64);
    let y = |bytes: f64| round(HEIGHT * (1.0 - bytes / top));
    let mut path = format!("M0 {}", y(above[0]));
    for (column, bytes) in above.iter().enumerate() {
        let _ = write!(path, "V{}H{}", y(*bytes), x(column + 1));
    }
    for (column, bytes) in below.iter().enumerate().rev() {
        let _ = write!(path, "V{}H{}", y(*bytes), x(column));
    }
    path + "z"
}

/// What is held at the peak, the largest first, and the sum of what the table leaves out.
fn rows(planned: &Planned, live: &[Live], peak_step: usize) -> (Vec<Row>, String) {
    let program = &planned.plan.program;
    let kinds = held::kinds(program);
    let mut held: Vec<(String, HeldKind, f64, String)> = Vec::new();
    for (value, declared) in program.values.iter_enumerated() {
        let pin = declared.declared_sharding.as_ref();
        if let (Some(bytes), Some(pin)) = (held::resident_bytes(program, value), pin) {
            let is_param = declared.role == Some(Role::Param);
            let kind = if is_param { HeldKind::Parameters } else { HeldKind::State };
            let text = format!("{}{}", declared.name, pinned(planned, value, pin));
            held.push((text, kind, bytes, "always".to_owned()));
        }
    }
    for of in live.iter().filter(|of| of.steps.contains(&peak_step)) {
        let text = print::materialization(program, &of.of);
        let kept = format!("steps {} to {}", of.steps.start() + 1, of.steps.end() + 1);
        held.push((text, kinds[of.of.value], of.bytes, kept));
    }
    held.retain(|(_, _, bytes, _)| *bytes > 0.0);
    held.sort_by(|a, b| b.2.total_cmp(&a.2));
    let rest: f64 = held.iter().skip(ROWS).map(|(_, _, bytes, _)| bytes).sum();
    let others = match held.len().saturating_sub(ROWS) {
        0 => String::new(),
        count => format!("and {count} others, {}", units::bytes(rest)),
    };
    let peak = planned.report.memory.peak_bytes;
    let rows = held.into_iter().take(ROWS).map(|(text, kind, bytes, kept)| Row {
        text,
        kind: kind.name(),
        class: KINDS.iter().find(|(of, _)| *of == kind).map_or("", |(_, class)| class),
        bytes: units::bytes(bytes),
        share: round(100.0 * bytes / peak),
        kept,
    });
    (rows.collect(), others)
}

fn pinned(planned: &Planned, value: ValueId, pin: &Pin) -> String {
    let program = &planned.plan.program;
    print::Printer::new(program).pin(&program.values[value].dims, pin)
}

fn round(number: f64) -> f64 {
    (10.0 * number).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::{KINDS, by_kind};
    use crate::Options;
    use shardwise_passes::liveness;

    #[test]
    fn the_highest_column_is_the_peak() {
        let program = include_str!("../templates/pipeline.shard");
        let planned = crate::plan("p", program, &Options::default()).expect("it has a plan");
        let plan = &planned.plan;
        let bytes = by_kind(plan, &liveness::live_ranges(plan, plan.dataflow()));
        let total = |step: usize| (0..KINDS.len()).map(|kind| bytes[kind][step]).sum::<f64>();
        let peak = (0..plan.steps.len()).map(total).fold(0.0, f64::max);
        let expected = planned.report.memory.peak_bytes;
        assert!((peak / expected - 1.0).abs() < 1e-9, "{peak} {expected}");
    }
}
