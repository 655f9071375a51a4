//! `assert`s, held against a plan.

use shardwise_grammar::codes;
use shardwise_ir::Diag;
use shardwise_ir::plan::{Plan, StepKind};
use shardwise_ir::program::{Assert, Budget, CollectiveKind, Over};
use shardwise_passes::report::Report;

use crate::units;

/// What of the program's budgets the plan breaks; each error shows the offending step.
pub(crate) fn broken(plan: &Plan, report: &Report) -> Vec<Diag> {
    plan.program.asserts.iter().filter_map(|assert| check(plan, report, assert)).collect()
}

fn check(plan: &Plan, report: &Report, assert: &Assert) -> Option<Diag> {
    match &assert.budget {
        Budget::TimeAtMost(quantity, limit) => {
            let time = time(report, quantity);
            (time > *limit).then(|| {
                let worst = dearest(plan, report, quantity).map_or(String::new(), |step| format!("; the dearest step is `{step}`"));
                over(assert, format!("`{quantity}` is {}, over {}{worst}", units::seconds(time), units::seconds(*limit)))
            })
        }
        Budget::MemoryAtMost(limit) => {
            let peak = report.memory.peak_bytes;
            let at = report.memory.peak_step.map_or(String::new(), |step| format!(" at `{}`", crate::text::step(plan, &plan.steps[step])));
            (peak > *limit)
                .then(|| over(assert, format!("a device holds {} at its peak{at}, over {}", units::bytes(peak), units::bytes(*limit))))
        }
        Budget::No(kind, across) => forbidden(plan, report, kind, across.as_ref())
            .map(|step| over(assert, format!("the plan has `{}`", crate::text::step(plan, &plan.steps[step])))),
        Budget::StaysSharded(value) => {
            let whole = plan
                .steps
                .iter()
                .position(|step| step.result.value == *value && step.result.sharding.dims.iter().all(|axes| axes.is_empty()));
            whole.map(|step| over(assert, format!("`{}` makes it whole", crate::text::step(plan, &plan.steps[step]))))
        }
    }
}

fn over(assert: &Assert, message: String) -> Diag {
    Diag::error(codes::budget::BROKEN, format!("`assert {}` does not hold: {message}", assert.text), assert.span, "asserted here")
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

fn dearest(plan: &Plan, report: &Report, quantity: &str) -> Option<String> {
    let counts = |step: usize| quantity != "comm" || matches!(plan.steps[step].kind, StepKind::Collective(..));
    let dearest =
        (0..plan.steps.len()).filter(|&step| counts(step)).max_by(|&a, &b| report.steps[a].seconds.total_cmp(&report.steps[b].seconds));
    dearest.map(|step| crate::text::step(plan, &plan.steps[step]))
}

fn forbidden(plan: &Plan, report: &Report, kind: &CollectiveKind, across: Option<&Over>) -> Option<usize> {
    let runs_there = |step: usize| match across {
        None => true,
        Some(Over::Axis(axis)) => report.steps[step].axes.contains(axis),
        Some(Over::Kind(kind)) => report.steps[step].axes.iter().any(|&axis| plan.program.mesh.axes[axis].kind() == *kind),
    };
    (0..plan.steps.len()).find(|&step| {
        let same = matches!(&plan.steps[step].kind, StepKind::Collective(collective, _) if collective.kind == *kind);
        same && runs_there(step)
    })
}
