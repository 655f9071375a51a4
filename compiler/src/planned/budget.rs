//! Checks a plan against the program's `assert`s and the memory capacity.

use shardwise_grammar::span::Span;
use shardwise_ir::codes;
use shardwise_ir::plan::{Plan, StepKind};
use shardwise_ir::program::{Assert, Budget, CollectiveKind, Over};
use shardwise_ir::{Diag, print};
use shardwise_passes::ExpandedPlan;
use shardwise_passes::liveness;
use shardwise_passes::report::Report;

use crate::display::units;
use crate::options::{Effort, Options, Strategy};

/// The budgets of the program that the plan breaks; each error shows the offending step.
pub(crate) fn broken(plan: &Plan, report: &Report) -> Vec<Diag> {
    plan.program.asserts.iter().filter_map(|assert| check(plan, report, assert)).collect()
}

fn check(plan: &Plan, report: &Report, assert: &Assert) -> Option<Diag> {
    match &assert.budget {
        Budget::TimeAtMost(quantity, limit) => {
            let time = time(report, quantity);
            (time > *limit).then(|| {
                let worst = costliest(plan, report, quantity)
                    .map_or(String::new(), |step| format!("; the costliest step is `{step}`"));
                let [time, limit] = units::different_seconds([time, *limit]);
                over(assert, format!("`{quantity}` is {time}, over {limit}{worst}"))
            })
        }
        Budget::MemoryAtMost(limit) => {
            let peak = report.memory.peak_bytes;
            let at = report.memory.peak_step.map_or(String::new(), |step| {
                format!(" at `{}`", print::step(&plan.program, &plan.steps[step]))
            });
            (peak > *limit).then(|| {
                let [peak, limit] = units::different_bytes([peak, *limit]);
                over(assert, format!("a device holds {peak} at its peak{at}, over {limit}"))
            })
        }
        Budget::No(kind, across) => forbidden(plan, report, kind, across.as_ref()).map(|step| {
            over(
                assert,
                format!("the plan has `{}`", print::step(&plan.program, &plan.steps[step])),
            )
        }),
        Budget::StaysSharded(value) => {
            let whole = plan.steps.iter().position(|step| {
                step.result.value == *value
                    && step.result.sharding.dims.iter().all(|axes| axes.is_empty())
            });
            whole.map(|step| {
                over(
                    assert,
                    format!("`{}` gathers it", print::step(&plan.program, &plan.steps[step])),
                )
            })
        }
    }
}

fn over(assert: &Assert, message: String) -> Diag {
    Diag::error(
        codes::budget::BROKEN,
        format!("`assert {}` does not hold: {message}", assert.text),
        assert.span,
        "asserted here",
    )
}

fn time(report: &Report, quantity: &str) -> f64 {
    match quantity {
        "comm" => report.comm_s,
        "compute" => report.compute_s,
        "overlap" => report.overlap_s,
        "scheduled" => report.schedule.makespan_s,
        _ => report.serial_s,
    }
}

fn costliest(plan: &Plan, report: &Report, quantity: &str) -> Option<String> {
    let counts = |step: usize| quantity != "comm" || report.steps[step].is_move(&plan.steps[step]);
    let costliest = (0..plan.steps.len())
        .filter(|&step| counts(step))
        .max_by(|&a, &b| report.steps[a].total_s().total_cmp(&report.steps[b].total_s()));
    costliest.map(|step| print::step(&plan.program, &plan.steps[step]))
}

fn forbidden(
    plan: &Plan,
    report: &Report,
    kind: &CollectiveKind,
    across: Option<&Over>,
) -> Option<usize> {
    let runs_there = |step: usize| match across {
        None => true,
        Some(Over::Axes(axes)) => report.steps[step].axes.iter().any(|axis| axes.contains(axis)),
        Some(Over::Kind(kind)) => report.steps[step]
            .axes
            .iter()
            .any(|&axis| plan.program.mesh.axes[axis].runs_over(*kind)),
    };
    (0..plan.steps.len()).find(|&step| {
        let same = match &plan.steps[step].kind {
            StepKind::Collective(collective, _) => collective.kind == *kind,
            StepKind::Local(_) => false,
        };
        same && runs_there(step)
    })
}

/// The warning that a plan written by its author exceeds the memory of a device.
pub(crate) fn over_capacity(plan: &Plan, report: &Report, capacity: Option<f64>) -> Option<Diag> {
    let peak = report.memory.peak_bytes;
    let capacity = capacity.filter(|&capacity| peak > capacity)?;
    let at = report.memory.peak_step.map(|step| print::step(&plan.program, &plan.steps[step]));
    let span = plan.program.ops.first().map_or_else(Default::default, |op| op.span);
    let [peak, capacity] = units::different_bytes([peak, capacity]);
    let message = format!("a device would need {peak}, but has {capacity}");
    let label =
        at.map_or_else(|| "in this program".to_owned(), |at| format!("the peak is at `{at}`"));
    Some(Diag::warning(codes::budget::MEMORY, message, span, label))
}

/// The limit of values that a message lists, the largest first.
const CULPRITS: usize = 3;

/// The error that no plan fits: the smallest one, and the values live at its peak.
pub(crate) fn no_room(plan: &ExpandedPlan<'_>, options: &Options) -> Option<Diag> {
    let memory = liveness::memory(plan);
    let capacity =
        options.capacity(&plan.program).filter(|&capacity| memory.peak_bytes > capacity)?;
    let whose = match options.strategy {
        Strategy::Search => "the smallest plan found",
        Strategy::Textbook => "the textbook's plan",
    };
    let step = memory.peak_step.unwrap_or(0);
    let held = liveness::live_at(plan, plan.dataflow(), step);
    let list = held.iter().take(CULPRITS).map(|(of, bytes)| {
        format!("`{}` {}", print::materialization(&plan.program, of), units::bytes(*bytes))
    });
    let resident = (memory.resident_bytes > 0.0)
        .then(|| format!("params and state {}", units::bytes(memory.resident_bytes)));
    let others: f64 = held.iter().skip(CULPRITS).map(|(_, bytes)| bytes).sum();
    let others = (others > 0.0).then(|| format!("others {}", units::bytes(others)));
    let held: Vec<String> = list.chain(others).chain(resident).collect();
    // What is asked for is enough.
    let peak_bytes = units::rounded_up(memory.peak_bytes);
    let [peak, capacity] = units::different_bytes([peak_bytes, capacity]);
    let message = format!("{whose} needs {peak}, and a device has {capacity}");
    let (span, label) = match plan.steps.get(step) {
        Some(step) => (
            plan.program.values[step.result.value].span,
            format!("the peak is at `{}`", print::step(&plan.program, step)),
        ),
        None => (Span::default(), "in this program".to_owned()),
    };
    let diag = Diag::error(codes::budget::NO_ROOM, message, span, label);
    Some(diag.help(format!(
        "live there: {}; shard more, use more devices, or set `--memory` to the capacity{}",
        held.join(", "),
        early_end(options)
    )))
}

/// What to add where the search has not looked for every plan that it could find.
fn early_end(options: &Options) -> &'static str {
    match options {
        Options { strategy: Strategy::Textbook, .. } => {
            "; `--strategy search` looks for plans that fit"
        }
        _ if options.is_due() => {
            "; the search ended before it had looked for all plans that may fit: give it more time"
        }
        Options { effort: Effort::Quick, .. } => {
            "; `--effort normal` looks for more plans that may fit"
        }
        _ => "",
    }
}
