//! `checkpoint`: rematerialises the values that a block does not keep for its gradients.
//!
//! ```text
//! repeat L=40 {                 repeat L reversed {
//!   carry x.in = x                carry dx.1 = dx.end
//!   h = gelu(x.in *D W)           h.again.1 = x.in *D W
//!   x.1 = x.in + h *F V           h.again = gelu(h.again.1)
//!   next x.in = x.1               dV = h.again *B dx.1
//!   checkpoint                    …
//! }                             }
//! ```
//!
//! The named values, the loop-carried values of each layer and what blocks inside it export are
//! kept (or, with `only`, all but the named ones). The statements from these to the operands of the
//! gradients are copied to the front of the reversed block, in their order, so that plans lay them
//! out, price them and count their FLOPs like any other. So are the chunks that a scan reads,
//! whether or not it has a `checkpoint`: to keep them all would be to keep a copy of the value.
//! Operations whose results are named say so (`is_kept`), so that cheap ones are not computed again
//! either.

use std::cmp::Reverse;

use indexmap::{IndexMap, IndexSet};
use shardwise_ir::Span;
use shardwise_ir::dataflow::Dataflow;
use shardwise_ir::ids::{OpId, RepeatId, ValueId};
use shardwise_ir::program::{Blocks, MapForm, Op, OpKind, Phase, Program, Repeat, Value};
use shardwise_ir::rearrange::Rearrange;
use shardwise_ir::unroll::is_loop_exit;

use super::offload::{self, Offloaded};

/// The derived statements, after those that rematerialise the values that are not kept. Inner
/// blocks go first: what they compute again may read what an outer layer has to compute again, too.
pub(super) fn recompute(
    program: &mut Program,
    mut derived: Vec<Op>,
    taken: &mut IndexSet<String>,
    span: Span,
    dataflow: &Dataflow<OpId>,
) -> Vec<Op> {
    let mut names = Names { taken, span };
    let mut stores = Vec::new();
    let reversed = program.repeats.iter_enumerated().filter_map(|(back, repeat)| {
        let Repeat { checkpoint, offload, scan, .. } = &program.repeats[repeat.reversed?];
        (checkpoint.is_some() || offload.is_some() || scan.is_some())
            .then_some((back, repeat.reversed?))
    });
    let mut reversed: Vec<(RepeatId, RepeatId)> = reversed.collect();
    reversed.sort_by_key(|(back, _)| Reverse(program.repeats.outwards(Some(*back)).count()));
    for (back, forward) in reversed {
        let is_inside = |op: &Op| program.repeats.is_inside(op.repeat, back);
        let start = derived.iter().position(is_inside).unwrap_or(derived.len());
        let end = derived.iter().rposition(is_inside).map_or(start, |last| last + 1);
        let run = derived[start..end].to_vec();
        let needed = needed(program, dataflow, &run, forward);
        let reads = |value: ValueId| {
            let again = program.ops.iter().filter(|op| needed.contains(&op.result));
            run.iter().chain(again).any(|op| op.operands.iter().any(|it| it.value == value))
        };
        let reads: IndexSet<ValueId> =
            program.offloaded(forward).into_iter().filter(|&value| reads(value)).collect();
        let offloaded = offload::offload(program, (forward, back), &reads, &mut names);
        stores.extend(offloaded.stores.iter().cloned());
        let run = with_copies(program, &run, (forward, back), &needed, offloaded, &mut names);
        derived.splice(start..end, run);
    }
    offload::insert(program, stores);
    program.mark_kept();
    derived
}

fn with_copies(
    program: &mut Program,
    run: &[Op],
    (forward, back): (RepeatId, RepeatId),
    needed: &IndexSet<ValueId>,
    offloaded: Offloaded,
    names: &mut Names<'_>,
) -> Vec<Op> {
    let Offloaded { back: mut again, loads: mut copies, .. } = offloaded;
    let is_entry = |op: &&Op| op.is(&MapForm::LoopCarried) && op.repeat == Some(back);
    let entries = run.iter().take_while(is_entry).count();
    let body: Vec<Op> = program
        .ops
        .iter()
        .filter(|op| op.repeat == Some(forward) && needed.contains(&op.result))
        .cloned()
        .collect();
    for op in body {
        let result = names.derived(program, op.result, "again", back);
        let mut copy =
            Op { repeat: Some(back), phase: Phase::Backward, is_kept: false, result, ..op.clone() };
        rename(&mut copy, &again);
        again.insert(op.result, result);
        copies.push(copy);
    }
    let mut all: Vec<Op> = run.to_vec();
    for op in &mut all {
        rename(op, &again);
    }
    all.splice(entries..entries, copies);
    all
}

/// Values of the forward block to rematerialise, found from the operands of its reverse back to
/// values that are kept.
fn needed(
    program: &Program,
    dataflow: &Dataflow<OpId>,
    run: &[Op],
    forward: RepeatId,
) -> IndexSet<ValueId> {
    let keeps_all = program.repeats[forward].checkpoint.is_none();
    let is_kept = program.is_kept_for_gradients(forward);
    let offloaded = program.offloaded(forward);
    // `None` for values that are available: kept, carried into the layer, of no layer, or the
    // result of a block inside, which is not run for a second time.
    let again = |value: ValueId| {
        let is_here = program.values[value].repeat == Some(forward);
        let op = &program.ops[is_here.then(|| dataflow.definition(value))??];
        let is_lost = is_view_of_chunk(program, dataflow, op) || !(keeps_all || is_kept(value));
        let is_lost = is_lost && !offloaded.contains(&value);
        (is_lost && !op.is(&MapForm::LoopCarried) && !is_loop_exit(op)).then_some(op)
    };
    let lost = |op: &Op| {
        let operands = op.operands.iter().map(|operand| operand.value);
        operands.filter(|&value| again(value).is_some()).collect::<Vec<ValueId>>()
    };
    let mut needed: IndexSet<ValueId> = run.iter().flat_map(lost).collect();
    let mut at = 0;
    while let Some(op) = needed.get_index(at).and_then(|&value| again(value)) {
        needed.extend(lost(op));
        at += 1;
    }
    needed
}

/// Whether a result has the elements of a chunk that a scan reads, perhaps in another shape.
fn is_view_of_chunk(program: &Program, dataflow: &Dataflow<OpId>, op: &Op) -> bool {
    match op.kind {
        OpKind::Rearrange(Rearrange::Chunk { .. }) => true,
        OpKind::Rearrange(Rearrange::Rename(_) | Rearrange::Reshape(_)) => dataflow
            .definition(op.operands[0].value)
            .is_some_and(|of| is_view_of_chunk(program, dataflow, &program.ops[of])),
        _ => false,
    }
}

fn rename(op: &mut Op, again: &IndexMap<ValueId, ValueId>) {
    for operand in &mut op.operands {
        operand.value = again.get(&operand.value).copied().unwrap_or(operand.value);
    }
}

/// The names of values that are derived from others.
pub(super) struct Names<'t> {
    taken: &'t mut IndexSet<String>,
    /// The statement that they are derived for.
    pub(super) span: Span,
}

impl Names<'_> {
    /// A value of a block like another one, under the name of that and a word.
    pub(super) fn derived(
        &mut self,
        program: &mut Program,
        of: ValueId,
        word: &str,
        block: RepeatId,
    ) -> ValueId {
        let name = self.fresh(&format!("{}.{word}", program.values[of].name));
        let like = program.values[of].clone();
        program.values.push(Value { name, repeat: Some(block), span: self.span, ..like })
    }

    /// `h.again`, or with a number after it if that is taken.
    fn fresh(&mut self, plain: &str) -> String {
        let numbered = || {
            (2..=self.taken.len() + 2)
                .map(|number| format!("{plain}{number}"))
                .find(|name| !self.taken.contains(name))
                .unwrap_or_default()
        };
        let fresh = if self.taken.contains(plain) { numbered() } else { plain.to_owned() };
        self.taken.insert(fresh.clone());
        fresh
    }
}
