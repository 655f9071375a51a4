//! When values are live, as far as their program says: whatever shardings are chosen.

use std::ops::Range;

use indexmap::IndexMap;
use shardwise_ir::ids::{OpId, RepeatId, ValueId};
use shardwise_ir::program::{Blocks, Op, Program};
use shardwise_ir::sharding::Pin;

use super::{is_computed_again, smallest_bytes};
use crate::cost::held::is_resident;
use crate::cost::pipeline_stages;
use crate::layouts::local_shape;
use crate::problem::Problem;
use crate::training::frameworks::Frameworks;

/// A value that is not resident, and the operations across which it is live.
pub(super) struct Life {
    pub(super) value: ValueId,
    /// From the operation after its own to before its last use.
    pub(super) during: Range<usize>,
    /// The operations that read it.
    pub(super) uses: Vec<usize>,
    /// How many of it are live together.
    pub(super) copies: f64,
    /// Until then it is one: gradients that are kept become more while layers run.
    pub(super) grown: usize,
    /// Whether another block reads it, so that it is kept for every layer.
    pub(super) is_saved: bool,
    /// Its bytes until its first use, where it stays as declared, and at least after that.
    pub(super) initial: f64,
    pub(super) smallest: f64,
}

impl Life {
    pub(super) fn is_read_by(&self, op: usize) -> bool {
        self.uses.binary_search(&op).is_ok()
    }

    /// Its bytes while an operation runs, beside what that operation reads of it.
    fn bytes(&self, op: usize) -> f64 {
        // After its last use, that of the layer is not live.
        let is_over = self.is_saved && self.uses.last().is_some_and(|&last| last < op);
        if is_over || self.is_read_by(op) {
            return if self.is_saved { others(self.copies) * self.smallest } else { 0.0 };
        }
        let copies = if op <= self.grown { 1.0 } else { self.copies };
        let is_unused = self.uses.first().is_none_or(|&first| op < first);
        copies * if is_unused { self.initial } else { self.smallest }
    }
}

/// How many of a value's copies are live beside the one that an operation reads.
pub(super) fn others(copies: f64) -> f64 {
    (copies - 1.0).max(0.0)
}

/// For each operation, the bytes of values that are live across it: in their declared sharding
/// until their first use, after that in their smallest. A value of a block that another block reads
/// is kept for every layer; a value from before a block that the block reads is live until its end.
pub(super) fn live_through(program: &Program, lives: &[Life]) -> Vec<f64> {
    let mut bytes = vec![0.0; program.ops.len()];
    for life in lives {
        for op in life.during.clone() {
            bytes[op] += life.bytes(op);
        }
    }
    bytes
}

/// When each value is live.
pub(super) fn lives(problem: &Problem<'_>, frameworks: &Frameworks) -> Vec<Life> {
    let program = problem.program;
    let blocks_of = |(id, op): (OpId, &Op)| {
        program.repeats.path(op.repeat).into_iter().map(move |block| (block, id.index()))
    };
    let last_of: IndexMap<RepeatId, usize> =
        program.ops.iter_enumerated().flat_map(blocks_of).collect();
    let values = program.values.indices().filter(|&value| !is_resident(program, value));
    values.map(|value| life(problem, frameworks, &last_of, value)).collect()
}

/// When a value is live, given the last operation of every block.
fn life(
    problem: &Problem<'_>,
    frameworks: &Frameworks,
    last_of: &IndexMap<RepeatId, usize>,
    id: ValueId,
) -> Life {
    let program = problem.program;
    let value = &program.values[id];
    // A value that leaves microbatches is added to their accumulated result, and not kept.
    let stays = |op: &OpId| {
        let place = program.ops[*op].repeat;
        program.repeats.exited_microbatches(place, value.repeat).is_none()
    };
    let keeps = |op: &OpId| !is_computed_again(program, id, *op);
    let readers = program.dataflow().uses_of(id).map(|(op, _)| op);
    let uses: Vec<usize> = readers.filter(stays).filter(keeps).map(OpId::index).collect();
    let mut outputs = program.dataflow().outputs_of(id);
    let leaves =
        outputs.any(|place| program.outputs[place].yields_to.is_none()) || frameworks.keep(id);
    let definition = program.dataflow().definition(id);
    let stage = definition.and_then(|op| program.sum_of_stage(&program.ops[op]));
    let after_stage = stage.map_or(0, |block| last_of[&block] + 1);
    let from = definition.map_or(0, |op| op.index() + 1).max(after_stage);
    let elsewhere = |&op: &usize| program.repeats.outermost(program.ops[op].repeat, value.repeat);
    let ends = uses.iter().filter_map(elsewhere).map(|block| last_of[&block]);
    let last = uses.last().copied().into_iter().chain(ends).max().unwrap_or(0);
    let to = if leaves { program.ops.len() } else { last };
    let is_apart = |&op: &usize| program.repeats.are_apart(program.ops[op].repeat, value.repeat);
    let saved = value.repeat.is_some() && (leaves || uses.iter().any(is_apart));
    let copies = frameworks.copies(program, id)
        * match (saved, leaves) {
            (true, true) => copies(program, id),
            (true, false) => pipeline_stages::in_flight_copies(program, id),
            (false, _) => 1.0,
        };
    let smallest = smallest_bytes(problem.tables, id);
    // Without blocks, a plan may reshard it before its first use.
    let is_as_declared = value.role.is_some() && !program.repeats.is_empty();
    let declared = value.declared_sharding.as_ref().and_then(Pin::exact).filter(|_| is_as_declared);
    let initial =
        declared.map_or(smallest, |declared| local_shape::local_bytes(program, id, &declared));
    let layers = program.repeats.outwards(value.repeat).last().filter(|_| frameworks.keep(id));
    Life {
        value: id,
        during: from..to.max(from),
        uses,
        copies,
        grown: layers.map_or(0, |block| last_of[&block]),
        is_saved: saved && !leaves,
        initial,
        smallest,
    }
}

/// The number of copies of a value that are live together: one for each layer of its block, in a
/// pipeline one for each microbatch.
pub(super) fn copies(program: &Program, value: ValueId) -> f64 {
    pipeline_stages::all_copies(program, value)
}
