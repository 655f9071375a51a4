//! `communication-bound`: a product is bound by its links; reports the size from which on it would
//! not be.
//!
//! Off by default: a program does not state whether it can have a larger batch.

use shardwise_ir::ids::OpId;
use shardwise_ir::plan::{Plan, Step, StepKind};
use shardwise_ir::program::OpKind;
use shardwise_passes::crossover::{Bound, batches, crossovers};

use crate::display::units;
use crate::lint::analysis::program::is_worth_reporting;
use crate::lint::definition::{Finding, Group, Level, Lint, LintContext, Parameter, Priced};

pub(crate) const LINT: Lint = Lint {
    code: "SW313",
    name: "communication-bound",
    group: Group::Communication,
    level: Level::Allow,
    of_plans: true,
    what: "The collectives of a product take longer than its compute.",
    why: "Even if everything overlaps, the devices idle. Which is larger depends on the batch \
        per device: both grow with it where activations are communicated, only compute does where \
        weights are gathered, and then there is a crossover: a batch above which the product is \
        compute-bound.",
    bad_example: "hardware tpu-v5p
mesh X=16
dim B=16384, D=8192, F=32768
input In[B_X, D]
param Win[D_X, F]
Tmp = In *D Win
output Tmp[B_X, F]
",
    good_example: "hardware tpu-v5p
mesh X=16
dim B=65536, D=8192, F=32768
input In[B_X, D]
param Win[D_X, F]
Tmp = In *D Win
output Tmp[B_X, F]
",
    parameters: &[Parameter {
        name: "factor",
        default: 1.0,
        meaning: "how many times as long as \
        the arithmetic the collectives take at least",
    }],
    check,
};

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    let best = context.best();
    let least = LINT.number(context, "factor");
    let products = best
        .work()
        .filter(|(_, _, op)| matches!(context.program.ops[*op].kind, OpKind::Einsum { .. }));
    products
        .filter_map(|(step, cost, op)| finding(context, best, step, op, cost.total_s(), least))
        .collect()
}

fn finding(
    context: &LintContext<'_>,
    best: &Priced,
    step: &Step,
    op: OpId,
    compute_s: f64,
    least: f64,
) -> Option<Finding> {
    let own: Vec<usize> = best
        .moves()
        .filter(|(_, other, ..)| serves(other, step))
        .map(|(number, ..)| number)
        .collect();
    let moved_s: f64 = own.iter().map(|&number| best.report.steps[number].total_s()).sum();
    let bytes: f64 = own.iter().map(|&number| best.report.steps[number].total_bytes()).sum();
    if moved_s < least * compute_s || !is_worth_reporting(moved_s - compute_s, best.report.serial_s)
    {
        return None;
    }
    let program = context.program;
    let name = context.name(program.ops[op].result);
    let message = format!(
        "`{name}` is communication-bound: {} on the links, {} of compute",
        units::seconds(moved_s),
        units::seconds(compute_s)
    );
    let finding = Finding::new(
        &LINT,
        message,
        program.ops[op].span,
        format!("{} times as long", units::number(moved_s / compute_s)),
    );
    let mut steps: Vec<Step> = own.iter().map(|&number| best.plan.steps[number].clone()).collect();
    steps.push(step.clone());
    let alone = Plan { program: best.plan.program.clone(), steps };
    let turns = batches(program).into_iter().find_map(|dim| {
        let last = crossovers(&alone, dim, context.refinement())
            .into_iter()
            .last()
            .filter(|crossover| crossover.above == Bound::Compute)?;
        Some(format!(
            "compute-bound above `{}={}`",
            program.dims[dim].name,
            units::number(last.size.ceil())
        ))
    });
    let help = turns.unwrap_or_else(|| {
        "no batch changes that: split another dimension, or over fewer devices".to_owned()
    });
    Some(finding.help(help).costs(moved_s - compute_s, bytes))
}

/// Whether a collective reshards an operand of `step`, or its result.
fn serves(collective: &Step, step: &Step) -> bool {
    let is_move = matches!(collective.kind, StepKind::Collective(..));
    is_move
        && (step.operands.contains(&collective.result)
            || collective.operands.contains(&step.result))
}
