//! Finds reductions inside microbatches that could run once, after the accumulation.
//!
//! The cost of brackets is measured by an edit that asks for the unreduced value, not by opening
//! them: open brackets could also change the layout of the product, and the saving would not be
//! that of the later reduction.

use std::collections::BTreeSet;

use shardwise_ir::Span;
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::ids::ValueId;
use shardwise_ir::plan::{Materialization, Step};
use shardwise_ir::program::{Blocks, CollectiveKind, MapForm};
use shardwise_ir::sharding::Pin;
use shardwise_passes::local_shape;
use shardwise_passes::report::StepCost;

use super::program::is_worth_reporting;
use super::tree;
use crate::lint::definition::{Edit, LintContext};

/// The values whose reduction can run after the microbatches.
pub(crate) fn late_values(context: &LintContext<'_>) -> BTreeSet<ValueId> {
    late_reductions(context).iter().map(|late| late.from.result.value).collect()
}

/// A reduction that can run later.
pub(crate) struct Late<'p> {
    pub(crate) from: &'p Step,
    pub(crate) cost: &'p StepCost,
    pub(crate) microbatches: u64,
    pub(crate) cause: Cause,
}

/// Why a reduction is inside the microbatches.
pub(crate) enum Cause {
    /// The author wrote the reduction.
    Written(Span),
    /// Brackets ask for it: their place, and their replacement.
    Brackets(Span, Vec<Edit>),
}

/// Every reduction that can run later and is worth reporting.
pub(crate) fn late_reductions<'s>(context: &'s LintContext<'_>) -> Vec<Late<'s>> {
    let program = context.program;
    if program.repeats.iter().all(|block| block.microbatches_of.is_none()) {
        return Vec::new();
    }
    let plan = context.best();
    let mut seen = BTreeSet::new();
    let reduces = |kind: &CollectiveKind| {
        matches!(kind, CollectiveKind::AllReduce | CollectiveKind::ReduceScatter)
    };
    let reductions =
        plan.moves().filter(|(_, step, _, kind)| reduces(kind) && seen.insert(step.result.value));
    let found = reductions.filter_map(|(_, step, cost, _)| {
        let block = program.repeats.microbatches(program.values[step.result.value].repeat)?;
        let microbatches = program.repeats[block].count;
        let cause =
            is_only_added_up(program, step.result.value).then(|| cause(context, step))??;
        Some(Late { from: step, cost, microbatches, cause })
    });
    found
        .filter(|late| {
            late.seconds() > 0.0 && is_worth_reporting(late.seconds(), plan.report.serial_s)
        })
        .collect()
}

/// Whether a value is read by `total` alone, ignoring reductions that the author wrote.
fn is_only_added_up(program: &Analyzed, value: ValueId) -> bool {
    let readers = program.dataflow().uses_of(value).map(|(reader, _)| &program.ops[reader]);
    let mut readers = readers.filter(|op| op.result != value).peekable();
    readers.peek().is_some() && readers.all(|op| op.is(&MapForm::Total))
}

/// Why the reduction is there, if it is unnecessary.
fn cause(context: &LintContext<'_>, step: &Step) -> Option<Cause> {
    match context.written(step) {
        Some(op) => fits_unreduced(context, step).then_some(Cause::Written(op.span)),
        None => brackets(context, &step.operands[0]),
    }
}

/// Whether the unreduced sums of all layers fit beside the rest.
fn fits_unreduced(context: &LintContext<'_>, step: &Step) -> bool {
    let program = context.program;
    let held = |of: &Materialization| local_shape::local_bytes(program, of.value, &of.sharding);
    let more = (held(&step.operands[0]) - held(&step.result))
        * program.layer_count(program.values[step.result.value].repeat) as f64;
    context
        .capacity()
        .is_none_or(|capacity| context.best().report.memory.peak_bytes + more <= capacity)
}

/// The brackets of a value that refuse it as it is before its reduction, if the program without
/// them is cheaper and fits.
fn brackets(context: &LintContext<'_>, partial: &Materialization) -> Option<Cause> {
    let edits = refusing(context, partial);
    let place = edits.first()?.span;
    let saving = context.saving_in_text(&edits)?;
    let fits =
        context.capacity().is_none_or(|capacity| saving.after.report.memory.peak_bytes <= capacity);
    let is_worth = is_worth_reporting(saving.seconds, context.best().report.serial_s);
    (fits && is_worth).then_some(Cause::Brackets(place, edits))
}

/// For all brackets of the value that do not accept `partial`, their replacement.
fn refusing(context: &LintContext<'_>, partial: &Materialization) -> Vec<Edit> {
    let program = context.program;
    let refuses =
        |pin: &Option<Pin>| pin.as_ref().is_some_and(|pin| !pin.accepts(&partial.sharding));
    let defined =
        program.ops.iter().filter(|op| op.result == partial.value && refuses(&op.result_pin));
    let left = defined.filter_map(|_| context.definition(partial.value)?.0.target.layout.as_ref());
    let operands = program
        .ops
        .iter()
        .flat_map(|op| &op.operands)
        .filter(|o| o.value == partial.value && refuses(&o.pin));
    let right = operands.filter_map(|operand| tree::brackets_at(context.file, operand.span));
    let text = context.brackets(partial);
    left.chain(right).map(|layout| Edit { span: layout.span, text: text.clone() }).collect()
}

impl Late<'_> {
    /// The share of the reduction's cost that is saved: all microbatches but one.
    pub(crate) fn spared(&self, of: f64) -> f64 {
        of * (1.0 - 1.0 / self.microbatches as f64)
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.spared(self.cost.total_s())
    }
}
