//! `fsdp-in-decode`: weights are sharded as in training, in a program that multiplies them with a
//! few tokens.
//!
//! The lint tries each weight without the axes, and with them on another dimension, and proposes
//! the cheapest plan that fits.

use shardwise_ir::ids::ValueId;
use shardwise_ir::plan::Materialization;
use shardwise_ir::print;
use shardwise_ir::program::CollectiveKind;
use shardwise_ir::sharding::{AxisList, AxisRef, Sharding};
use shardwise_passes::local_shape;

use crate::display::units;
use crate::lint::analysis::program::{is_decode, is_param, is_worth_reporting};
use crate::lint::definition::{Edit, Finding, Fix, Group, Level, Lint, LintContext, Saving};

pub(crate) const LINT: Lint = Lint {
    code: "SW310",
    name: "fsdp-in-decode",
    group: Group::Communication,
    level: Level::Warn,
    of_plans: false,
    what: "A weight is sharded over an axis from which every decode step has to gather it, or \
        move activations instead.",
    why: "With a large batch, gathers of weights overlap with compute. A decode step has too few \
        tokens for that: it is bound by reading weights once, and a gather moves the same bytes \
        over links that are slower than memory. Weights should be sharded as the step uses them.",
    bad_example: "hardware tpu-v5e
mesh X=16, Y=16
dim B=32, D=4096, F=16384
input In[B, D]
param Win[D_X, F_Y]
Tmp = In *D Win
output Tmp[B, F_Y]
",
    good_example: "hardware tpu-v5e
mesh X=16, Y=16
dim B=32, D=4096, F=16384
input In[B, D]
param Win[D, F_XY]
Tmp = In *D Win
output Tmp[B, F_XY]
",
    parameters: &[],
    check,
};

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    if !is_decode(context.program) {
        return Vec::new();
    }
    let gathers =
        context.textbook.moves().filter(|(_, _, _, kind)| **kind == CollectiveKind::AllGather);
    let params = gathers.filter(|(_, step, ..)| is_param(context.program, step.result.value));
    params
        .filter_map(|(_, step, cost, _)| {
            finding(context, step.result.value, &step.operands[0].sharding, cost.seconds)
        })
        .collect()
}

fn finding(
    context: &LintContext<'_>,
    param: ValueId,
    at: &Sharding,
    gather_s: f64,
) -> Option<Finding> {
    let (of, edit, saving) = best_place(context, param, at)?;
    let name = context.name(param);
    let message = format!(
        "a decode step cannot use `{name}` as it is sharded: {} per step are lost",
        units::seconds(saving.seconds)
    );
    let span = context.program.values[param].span;
    let finding = Finding::new(
        &LINT,
        message,
        span,
        format!("the book's rules gather it in every step: {}", units::seconds(gather_s)),
    );
    let text = print::materialization(context.program, &of);
    let finding = finding.help(format!("declare `{text}`")).costs(saving.seconds, saving.bytes);
    Some(finding.fix(Fix::suggestion(format!("move `{name}`"), vec![edit])))
}

/// The sharding with the cheapest plan that fits into memory, if it is worth reporting, and the
/// edit that declares it.
fn best_place(
    context: &LintContext<'_>,
    param: ValueId,
    at: &Sharding,
) -> Option<(Materialization, Edit, Saving)> {
    let tried = places(context, param, at).into_iter().filter_map(|sharding| {
        let of = Materialization { value: param, sharding };
        let edit = context.redeclared(&of)?;
        let saving = context.saving_in_text(std::slice::from_ref(&edit))?;
        let fits = context
            .capacity()
            .is_none_or(|capacity| saving.after.report.memory.peak_bytes <= capacity);
        (fits && is_worth_reporting(saving.seconds, context.best().report.serial_s))
            .then_some((of, edit, saving))
    });
    // Of equals the first: moving the axes does not change the memory of a device, dropping them
    // does.
    tried.reduce(
        |best, other| if other.2.seconds > best.2.seconds * (1.0 + 1e-9) { other } else { best },
    )
}

/// Without the last axis of the first split dimension: on another dimension, or dropped.
fn places(context: &LintContext<'_>, param: ValueId, at: &Sharding) -> Vec<Sharding> {
    let program = context.program;
    let mut places = Vec::new();
    for from in 0..at.dims.len() {
        let Some(&axis) = at.dims[from].last() else { continue };
        let mut dropped = at.clone();
        dropped.dims[from].pop();
        for to in (0..at.dims.len()).filter(|&to| to != from) {
            for first in [false, true] {
                let mut moved = dropped.clone();
                moved.dims[to] = with(&moved.dims[to], axis, first);
                if local_shape::divides(
                    program,
                    program.values[param].repeat,
                    program.values[param].dims[to],
                    &moved.dims[to],
                ) {
                    places.push(moved);
                }
            }
        }
        places.push(dropped);
    }
    places
}

fn with(axes: &AxisList, axis: AxisRef, first: bool) -> AxisList {
    let mut axes = axes.clone();
    axes.insert(if first { 0 } else { axes.len() }, axis);
    axes
}
