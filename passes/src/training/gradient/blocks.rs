//! Gradients through blocks: a reversed block for each block that gradients pass through.
//!
//! ```text
//! repeat L=40 {                      repeat L reversed {
//!   carry x.in = x                     carry dx.1 = dx.end
//!   param W[D]                         dW = x.in *B dx.1
//!   x.1 = x.in * W                     dx.in = dx.1 * W
//!   next x.in = x.1                    next dx.1 = dx.in
//! }                                  }
//! x.end = last(x.1)                  dx = last(dx.in)
//! ```
//!
//! The gradient of a value that the body yields comes from the next layer, and in the last layer
//! from the end of the block; so that gradient is loop-carried. The gradient of a value that enters
//! the body is yielded to the previous layer, and in the first layer to the origin of the value. A
//! value from outside the block that every layer reads gets one contribution from each layer: they
//! are accumulated from layer to layer. A block inside a block is reversed inside the reversed one,
//! and what it reads from outer layers is accumulated over its own layers first. The statements of
//! the reversed block may read what the same layer computed in the forward pass; liveness accounts
//! for that without annotations.
//!
//! In a scan, a value from outside of which each step reads a chunk gets the chunks of its
//! gradient, stacked after the reversed block; and the gradient of a stack enters the reversed
//! block chunk by chunk:
//!
//! ```text
//! scan T in C {                      scan T reversed {
//!   q.chunk = chunk(q)                 do = chunk(dO)
//!   o = q.chunk *K S                   dq.chunk = do *V S
//! }                                  }
//! O = stack(o)                       dq = stack(dq.chunk)
//! ```

use indexmap::IndexMap;
use shardwise_ir::ids::{OpId, RepeatId, ValueId};
use shardwise_ir::program::{Blocks, MapForm, Op, Program, Repeat};

use super::emit::{Emitter, Into};
use super::{Gradients, yielded};

/// Moves the loop-carried values of each block after everything else of it: in reverse, that is the
/// end of the block.
pub(super) fn entries_last(program: &Program, uses: &mut [(OpId, Op, usize)]) {
    entries_last_inside(program, uses, 0);
}

/// The same for statements that are in the same `depth` blocks.
fn entries_last_inside(program: &Program, uses: &mut [(OpId, Op, usize)], depth: usize) {
    let block = |op: &Op| program.repeats.path(op.repeat).get(depth).copied();
    for run in uses.chunk_by_mut(|a, b| block(&a.1) == block(&b.1)) {
        let Some(block) = block(&run[0].1) else { continue };
        run.sort_by_key(|(_, op, _)| op.repeat == Some(block) && op.is(&MapForm::LoopCarried));
        entries_last_inside(program, run, depth + 1);
    }
}

/// Gradients of an open block while they are summed.
#[derive(Default)]
pub(super) struct OpenBlock {
    /// Values whose gradients are carried from layer to layer, and the loop-carried gradients.
    entered: Vec<(ValueId, ValueId)>,
    /// The current layer's contributions to gradients of values from outside the block.
    of_layers: IndexMap<ValueId, ValueId>,
    /// Values of which each step reads a chunk, and the gradients of the chunks.
    of_chunks: Vec<(ValueId, ValueId)>,
}

/// A new block over the layers of `block` in reverse.
fn reversed(program: &mut Program, block: RepeatId, within: Option<RepeatId>) -> RepeatId {
    let Repeat { name, count, kind, scan, pipeline, span, .. } = program.repeats[block].clone();
    program.repeats.push(Repeat {
        name,
        count,
        reversed: Some(block),
        checkpoint: None,
        offload: None,
        kept_gathered: Vec::new(),
        within,
        kind,
        microbatches_of: None,
        scan,
        pipeline,
        span,
    })
}

impl Gradients<'_> {
    /// Enters the block of the gradients of `op`: its reversed block, or none. What enters a block
    /// has its gradient around it.
    pub(super) fn go_to(&mut self, emitter: &mut Emitter, op: &Op) {
        let repeats = &emitter.program.repeats;
        let is_entry = op.is(&MapForm::LoopCarried);
        let place = if is_entry { op.repeat.and_then(|it| repeats[it].within) } else { op.repeat };
        let path = repeats.path(place);
        while let Some(here) = emitter.block() {
            if path.contains(&emitter.program.repeats.forward_block(here)) {
                break;
            }
            self.leave(emitter);
        }
        for &block in &path[self.open.len()..] {
            self.begin(emitter, block);
        }
    }

    /// Leaves all blocks.
    pub(super) fn leave_all(&mut self, emitter: &mut Emitter) {
        while emitter.block().is_some() {
            self.leave(emitter);
        }
    }

    /// Opens the reverse of a block: the gradients of yielded values enter.
    fn begin(&mut self, emitter: &mut Emitter, block: RepeatId) {
        let within = emitter.block();
        let back = reversed(&mut emitter.program, block, within);
        emitter.enter(back);
        self.open.push(OpenBlock::default());
        let yielded: Vec<(ValueId, ValueId)> = yielded(&emitter.program)
            .filter(|(given, _)| emitter.program.values[*given].repeat == Some(block))
            .collect();
        for (given, enters) in yielded.into_iter().filter(|(given, _)| self.flow.is_live(*given)) {
            let from = self.so_far[given.index()].unwrap_or_else(|| {
                let init = self.came_from(&emitter.program, enters);
                emitter.zeros_before(init)
            });
            let into = self.next_into(emitter, given);
            let entered = emitter.carry(from, into);
            self.so_far[given.index()] = Some(entered);
            if let Some(open) = self.open.last_mut() {
                open.entered.push((given, entered));
            }
        }
        let here = |of: &ValueId| emitter.program.values[*of].repeat == Some(block);
        let (stacked, others): (Vec<_>, Vec<_>) =
            self.of_stacks.drain(..).partition(|(of, _)| here(of));
        self.of_stacks = others;
        for (of, whole) in stacked {
            let into = self.next_into(emitter, of);
            let before = self.sum_so_far(emitter, of);
            let part = emitter.chunk(whole, block, alone(before, into));
            let sum = before.map_or(part, |before| emitter.sum(before, part, into));
            self.set_sum(emitter, of, sum);
        }
    }

    /// Closes the current block: gradients are yielded to the previous layer, and contributions of
    /// its layers to outside values are summed.
    fn leave(&mut self, emitter: &mut Emitter) {
        let OpenBlock { entered, of_layers, of_chunks } = self.open.pop().unwrap_or_default();
        let left = emitter.block();
        let yielded: Vec<(ValueId, ValueId)> = yielded(&emitter.program).collect();
        for (of, entered) in entered {
            let enters = yielded
                .iter()
                .find(|(given, _)| *given == of)
                .and_then(|(_, enters)| self.so_far[self.classes.owner(*enters).index()]);
            // A loop-carried value that the body ignores has no gradient.
            let next = enters.unwrap_or_else(|| emitter.zeros(entered, of));
            emitter.yield_value(next, entered);
        }
        emitter.leave();
        for (of, contribution) in of_layers {
            let into = self.becomes(emitter, of);
            let before = self.sum_so_far(emitter, of);
            let total = emitter.total(contribution, alone(before, into));
            let sum = before.map_or(total, |before| emitter.sum(before, total, into));
            self.set_sum(emitter, of, sum);
        }
        for (of, chunks) in of_chunks {
            let into = self.next_into(emitter, of);
            let before = self.sum_so_far(emitter, of);
            let part = emitter.stack(chunks, left, alone(before, into));
            let sum = before.map_or(part, |before| emitter.sum(before, part, into));
            self.set_sum(emitter, of, sum);
        }
    }

    /// Keeps the gradient of a chunk until its block is left.
    pub(super) fn stack_later(&mut self, of: ValueId, chunk: ValueId) {
        if let Some(open) = self.open.last_mut() {
            open.of_chunks.push((of, chunk));
        }
    }

    /// Keeps the gradient of a stack until the block of what is stacked is entered.
    pub(super) fn chunk_later(&mut self, of: ValueId, stacked: ValueId) {
        self.of_stacks.push((of, stacked));
    }

    /// Whether a contribution to the gradient of `operand` is that of one layer, while the operand
    /// is outside.
    fn is_of_layers(emitter: &Emitter, operand: ValueId) -> bool {
        let (repeats, of) = (&emitter.program.repeats, emitter.program.values[operand].repeat);
        emitter.block().is_some_and(|block| !repeats.iterates_over(of, block))
    }

    /// The contribution to the gradient of `operand` so far, in a block that of the current layer.
    pub(super) fn sum_so_far(&self, emitter: &Emitter, operand: ValueId) -> Option<ValueId> {
        if Self::is_of_layers(emitter, operand) {
            self.open.last()?.of_layers.get(&operand).copied()
        } else {
            self.so_far[operand.index()]
        }
    }

    pub(super) fn set_sum(&mut self, emitter: &Emitter, operand: ValueId, sum: ValueId) {
        match self.open.last_mut().filter(|_| Self::is_of_layers(emitter, operand)) {
            Some(open) => {
                open.of_layers.insert(operand, sum);
            }
            None => self.so_far[operand.index()] = Some(sum),
        }
    }

    /// Whether the next contribution to the gradient of `operand` completes it in the current
    /// block.
    pub(super) fn completes(&self, emitter: &Emitter, operand: ValueId) -> bool {
        !Self::is_of_layers(emitter, operand)
            && self.contributions[operand.index()] == self.classes.uses[operand.index()]
    }

    /// The gradient across the boundary of a block: into its end, for the gradient of a yielded
    /// value, or out of its beginning.
    pub(super) fn carry(&mut self, emitter: &mut Emitter, op: &Op, given: ValueId) {
        let operand = op.operands[0].value;
        let into = self.next_into(emitter, operand);
        let before = self.sum_so_far(emitter, operand);
        let part =
            if op.is(&MapForm::Last) { given } else { emitter.last(given, alone(before, into)) };
        let sum = before.map_or(part, |before| emitter.sum(before, part, into));
        self.set_sum(emitter, operand, sum);
    }

    /// The initial value of the loop-carried value `enters`.
    fn came_from(&self, program: &Program, enters: ValueId) -> ValueId {
        let entry = self.dataflow.definition(enters);
        entry.map_or(enters, |op| program.ops[op].operands[0].value)
    }
}

/// `into` if this is the first contribution, else a part.
fn alone(before: Option<ValueId>, into: Into) -> Into {
    if before.is_none() { into } else { Into::Part(into.of()) }
}
