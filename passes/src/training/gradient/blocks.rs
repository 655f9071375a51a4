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
//! are accumulated from layer to layer. The statements of the reversed block may read what the same
//! layer computed in the forward pass; liveness accounts for that without annotations.

use shardwise_ir::ids::{OpId, RepeatId, ValueId};
use shardwise_ir::program::{MapForm, Op, Program, Repeat};

use super::emit::{Emitter, Into};
use super::{Gradients, yielded};

/// Moves the loop-carried values of a block after everything else of it: in reverse, that is the
/// end of the block.
pub(super) fn entries_last(uses: &mut [(OpId, Op, usize)]) {
    for block in uses.chunk_by_mut(|a, b| a.1.repeat == b.1.repeat) {
        block.sort_by_key(|(_, op, _)| op.is(&MapForm::LoopCarried));
    }
}

/// The reversed block over the layers of `block`, created if there is none.
fn reversed(program: &mut Program, block: RepeatId) -> RepeatId {
    let Repeat { name, count, pipeline, span, .. } = program.repeats[block].clone();
    program.repeats.push(Repeat {
        name,
        count,
        reversed: Some(block),
        checkpoint: None,
        kept_gathered: Vec::new(),
        within: None,
        microbatches_of: None,
        pipeline,
        span,
    })
}

impl Gradients<'_> {
    /// Enters the block of the gradients of `op`: its reversed block, or none.
    pub(super) fn go_to(&mut self, emitter: &mut Emitter, op: &Op) {
        let block = op.repeat.filter(|_| !op.is(&MapForm::LoopCarried));
        let here = emitter.block().and_then(|here| emitter.program.repeats[here].reversed);
        if block != here {
            self.leave(emitter);
            if let Some(block) = block {
                self.begin(emitter, block);
            }
        }
    }

    /// Opens the reverse of a block: the gradients of yielded values enter.
    fn begin(&mut self, emitter: &mut Emitter, block: RepeatId) {
        let back = reversed(&mut emitter.program, block);
        emitter.enter(Some(back));
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
            self.entered.push((given, entered));
        }
    }

    /// Closes the current block: gradients are yielded to the previous layer, and contributions of
    /// its layers to outside values are summed.
    pub(super) fn leave(&mut self, emitter: &mut Emitter) {
        let yielded: Vec<(ValueId, ValueId)> = yielded(&emitter.program).collect();
        for (of, entered) in std::mem::take(&mut self.entered) {
            let enters = yielded
                .iter()
                .find(|(given, _)| *given == of)
                .and_then(|(_, enters)| self.so_far[self.classes.owner(*enters).index()]);
            // A loop-carried value that the body ignores has no gradient.
            let next = enters.unwrap_or_else(|| emitter.zeros(entered, of));
            emitter.yield_value(next, entered);
        }
        emitter.enter(None);
        for (of, contribution) in std::mem::take(&mut self.of_layers) {
            let into = self.becomes(emitter, of);
            let before = self.so_far[of.index()];
            let total = emitter.total(contribution, self.alone(of, into));
            self.so_far[of.index()] =
                Some(before.map_or(total, |before| emitter.sum(before, total, into)));
        }
    }

    /// Whether a contribution to the gradient of `operand` is that of one layer, while the operand
    /// is outside.
    fn is_of_layers(emitter: &Emitter, operand: ValueId) -> bool {
        emitter.block().is_some() && emitter.program.values[operand].repeat.is_none()
    }

    /// The contribution to the gradient of `operand` so far, in a block that of the current layer.
    pub(super) fn sum_so_far(&self, emitter: &Emitter, operand: ValueId) -> Option<ValueId> {
        if Self::is_of_layers(emitter, operand) {
            self.of_layers.get(&operand).copied()
        } else {
            self.so_far[operand.index()]
        }
    }

    pub(super) fn set_sum(&mut self, emitter: &Emitter, operand: ValueId, sum: ValueId) {
        if Self::is_of_layers(emitter, operand) {
            self.of_layers.insert(operand, sum);
        } else {
            self.so_far[operand.index()] = Some(sum);
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
        let part = if op.is(&MapForm::Last) {
            given
        } else {
            emitter.last(given, self.alone(operand, into))
        };
        self.so_far[operand.index()] = Some(match self.so_far[operand.index()] {
            None => part,
            Some(before) => emitter.sum(before, part, into),
        });
    }

    /// The initial value of the loop-carried value `enters`.
    fn came_from(&self, program: &Program, enters: ValueId) -> ValueId {
        let entry = self.dataflow.definition(enters);
        entry.map_or(enters, |op| program.ops[op].operands[0].value)
    }

    /// `into` if this is the first contribution, else a part.
    fn alone(&self, operand: ValueId, into: Into) -> Into {
        if self.so_far[operand.index()].is_none() { into } else { Into::Part(into.of()) }
    }
}
