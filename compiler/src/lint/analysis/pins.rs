//! Prices replicated dimensions in brackets: each such pin is opened, the edited program is
//! planned, and the difference is the price.
//!
//! A gather in the plan alone would not prove that the brackets cause it, and opening them may
//! change other steps.

use std::collections::BTreeSet;

use shardwise_ir::ids::{OpId, ValueId};
use shardwise_ir::plan::StepKind;
use shardwise_ir::print;
use shardwise_ir::program::{CollectiveKind, OpKind, Program};
use shardwise_ir::sharding::{DimPin, Pin};

use super::late_reductions::late_values;
use super::program::{is_reduced_over, is_worth_reporting};
use super::tree;
use crate::display::{and_list, units};
use crate::lint::definition::{Finding, Fix, Lint, LintContext, Pinned, PinnedBy, Priced, Saving};

/// The place of brackets.
#[derive(Clone, Copy)]
enum Site {
    Left(OpId),
    Operand(OpId, usize),
}

impl Site {
    fn value(self, program: &Program) -> ValueId {
        match self {
            Self::Left(op) => program.ops[op].result,
            Self::Operand(op, number) => program.ops[op].operands[number].value,
        }
    }

    fn pin(self, program: &Program) -> Option<&Pin> {
        match self {
            Self::Left(op) => program.ops[op].result_pin.as_ref(),
            Self::Operand(op, number) => program.ops[op].operands[number].pin.as_ref(),
        }
    }
}

fn is_whole(pin: &DimPin) -> bool {
    pin.exact().is_some_and(|axes| axes.is_empty())
}

/// All brackets whose replicated dimensions have a cost.
pub(crate) fn costly<'s>(context: &'s LintContext<'_>) -> &'s [Pinned] {
    context.pins.get_or_init(|| find(context))
}

fn find(context: &LintContext<'_>) -> Vec<Pinned> {
    let program = context.program;
    // The textbook's plan is known already: where it inserts no collective, the brackets cost
    // nothing.
    let steps = context.textbook.plan.steps.iter();
    let moved: BTreeSet<ValueId> = steps
        .filter(|step| matches!(step.kind, StepKind::Collective(_, None)))
        .map(|step| step.result.value)
        .collect();
    // These have a lint of their own, whose edit is the better one.
    let late = late_values(context);
    let computing =
        program.ops.iter_enumerated().filter(|(_, op)| !matches!(op.kind, OpKind::Collective(_)));
    let sites = computing.flat_map(|(id, op)| {
        let operands = (0..op.operands.len()).map(move |number| Site::Operand(id, number));
        operands.chain([Site::Left(id)])
    });
    let pays = |site: &Site| {
        let value = site.value(program);
        moved.contains(&value)
            && !late.contains(&value)
            && site.pin(program).is_some_and(|pin| pin.dims.iter().any(is_whole))
    };
    sites.filter(pays).filter_map(|site| judge(context, site)).collect()
}

fn judge(context: &LintContext<'_>, site: Site) -> Option<Pinned> {
    let program = context.program;
    let value = site.value(program);
    let (span, layout) = match site {
        Site::Left(op) if leaves_as(program, op) => return None,
        Site::Left(_) => {
            (program.values[value].span, context.definition(value)?.0.target.layout.as_ref()?)
        }
        Site::Operand(op, number) => {
            let span = program.ops[op].operands[number].span;
            (span, tree::brackets_at(context.file, span)?)
        }
    };
    let moves = moves(context.best(), value);
    if moves.is_empty() {
        return None;
    }
    let edits = tree::opened(layout);
    let saving = context.saving_in_text(&edits)?;
    if !is_worth_reporting(saving.seconds, context.best().report.serial_s) {
        return None;
    }
    let by = pinned_by(context, value, site.pin(program)?, &saving);
    Some(Pinned { value, span, moves, by, saving, edits })
}

/// Whether the result of an operation leaves the program in the brackets of its left side.
fn leaves_as(program: &Program, op: OpId) -> bool {
    let op = &program.ops[op];
    let mut outputs = program.outputs.iter().filter(|output| output.value == op.result);
    outputs.any(|output| op.result_pin.as_ref() == Some(&output.pin))
}

fn moves(priced: &Priced, value: ValueId) -> Vec<String> {
    let of_value = priced.moves().filter(|(_, step, ..)| step.result.value == value);
    of_value.map(|(_, step, ..)| print::step(&priced.plan.program, step)).collect()
}

/// Whether the plan has such a collective of the value of a name.
fn has(priced: &Priced, name: &str, kind: &CollectiveKind) -> bool {
    let values = &priced.plan.program.values;
    priced
        .moves()
        .any(|(_, step, _, other)| values[step.result.value].name == name && other == kind)
}

fn pinned_by(context: &LintContext<'_>, value: ValueId, pin: &Pin, saving: &Saving) -> PinnedBy {
    let (before, name) = (context.best(), context.name(value));
    if has(before, name, &CollectiveKind::AllReduce)
        && !has(&saving.after, name, &CollectiveKind::AllReduce)
    {
        return PinnedBy::AllReduce;
    }
    let whole =
        context.program.values[value].dims.iter().zip(&pin.dims).filter(|(_, pin)| is_whole(pin));
    let reduced =
        whole.map(|(&dim, _)| dim).find(|&dim| is_reduced_over(context.program, value, dim));
    reduced
        .filter(|_| has(before, name, &CollectiveKind::AllGather))
        .map_or(PinnedBy::Gather, PinnedBy::GatherForReduction)
}

/// The finding for a pin with a cost; `what` describes it.
pub(crate) fn finding(
    lint: &Lint,
    context: &LintContext<'_>,
    pinned: &Pinned,
    what: &str,
) -> Finding {
    let Pinned { value, moves, saving, .. } = pinned;
    let name = context.name(*value);
    let after = saving.after.report.serial_s;
    let message = format!(
        "`{name}` {what}, which costs {} of {}",
        units::seconds(saving.seconds),
        units::seconds(after + saving.seconds)
    );
    let moves: Vec<String> = moves.iter().map(|step| format!("`{step}`")).collect();
    let finding = Finding::new(
        lint,
        message,
        pinned.span,
        format!("for this the plan has {}", and_list(&moves)),
    );
    let finding = finding.help(format!(
        "write `_?` for dimensions that may be sharded, or omit the brackets: {} then",
        units::seconds(after)
    ));
    finding
        .costs(saving.seconds, saving.bytes)
        .fix(Fix::safe(format!("leave `{name}` open"), pinned.edits.clone()))
}
