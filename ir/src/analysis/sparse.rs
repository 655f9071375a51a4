//! Finds products that count only a share of their terms: those of causal attention, half of whose
//! terms are masked, or more by a window, and those with a routing mask, which selects few slots
//! per token. Finds values, too, that hold only a share of their elements: slots of experts where
//! nothing is dropped, and gradients of tables that are updated row by row.
//!
//! No annotations are needed. A product with an operand that is zero in a known pattern skips
//! the terms of these zeros; so does a product whose result is only read where such a pattern is
//! nonzero (scores before `causal`, also when they are scaled or capped before it; gradients of
//! combine weights). The patterns are inferred from the statements, so they are found in a plan
//! too, where a softmax may be expanded. Only products with a contraction are counted this way:
//! element-wise operations are small in comparison, and on most hardware touch every element
//! anyway.

mod mask;
mod patterns;
mod places;
mod used;

use std::collections::BTreeSet;

use index_vec::IndexVec;

use crate::filled::Filled;
use crate::functions::{Arithmetic, Function};
use crate::ids::ValueId;
use crate::program::{MapForm, Op, OpKind, Program, Share};
use mask::{Mask, Pattern};
use patterns::patterns;
use used::{Used, used};

/// Sets the share of its terms that every operation computes, and that of its elements that every
/// value holds.
pub fn mark(program: &mut Program) {
    let patterns = patterns(program);
    if patterns.iter().all(Option::is_none) {
        return;
    }
    let used = used(program, &patterns);
    let updates = updates_of_rows(program);
    let share_of = |op: &Op| {
        if updates.contains(&op.result) {
            share_of_rows(program, op, &patterns)
        } else {
            share_of(program, op, &patterns, used[op.result])
        }
    };
    let shares: Vec<Share> = program.ops.iter().map(share_of).collect();
    let filled: Vec<Filled> = patterns
        .iter()
        .zip(&used)
        .map(|(pattern, used)| {
            let zero = pattern.filter(Pattern::is_zero).map(|pattern| pattern.mask);
            let masks = zero.into_iter().chain(used.mask());
            let masks: Vec<Mask> = masks.filter(|mask| mask.is_never_held(program)).collect();
            let shares = masks.iter().map(|mask| mask.share(program));
            let Share { of_all, uneven, .. } = shares.fold(Share::WHOLE, Share::smaller);
            Filled { share: of_all, uneven, route: masks.iter().find_map(|mask| mask.route()) }
        })
        .collect();
    program.ops.iter_mut().zip(shares).for_each(|(op, share)| op.share = share);
    program.values.iter_mut().zip(filled).for_each(|(value, filled)| value.filled = filled);
}

/// The share of its terms that a product computes.
fn share_of(
    program: &Program,
    op: &Op,
    patterns: &IndexVec<ValueId, Option<Pattern>>,
    used: Used,
) -> Share {
    if !op.is_product() {
        return Share::WHOLE;
    }
    let zeros = op.operands.iter().filter_map(|operand| patterns[operand.value]);
    let zeros = zeros.filter(Pattern::is_zero).map(|pattern| pattern.mask);
    zeros.chain(used.mask()).map(|mask| mask.share(program)).fold(Share::WHOLE, Share::smaller)
}

/// The share of a table, or of its state, that an update reads and writes.
fn share_of_rows(
    program: &Program,
    op: &Op,
    patterns: &IndexVec<ValueId, Option<Pattern>>,
) -> Share {
    let masks = op.operands.iter().filter_map(|operand| Some(patterns[operand.value]?.mask));
    let mut rows = masks.filter(|mask| matches!(mask, Mask::Rows { .. }));
    rows.next().map_or(Share::WHOLE, |mask| mask.share(program))
}

/// The results of operations that change their first operand, in place, only where the second is
/// not zero.
fn updates_of_rows(program: &Program) -> BTreeSet<ValueId> {
    let next = program.outputs.iter().filter_map(|output| Some((output.value, output.yields_to?)));
    let next: BTreeSet<(ValueId, ValueId)> = next.collect();
    let changes = |op: &&Op| match &op.kind {
        OpKind::Map(function) => match &function.form {
            MapForm::Infix(Arithmetic::Add) => true,
            MapForm::Call { function, .. } => *function == Function::RowStep,
            _ => false,
        },
        _ => false,
    };
    let ops = program.ops.iter().filter(changes);
    let in_place = ops.filter(|op| next.contains(&(op.result, op.operands[0].value)));
    in_place.map(|op| op.result).collect()
}
