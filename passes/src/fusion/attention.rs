//! Attention: a product, element-wise operations (scale, mask, soft cap), a softmax, the product
//! that sums over what was looked at; and the gradients of all of these.
//!
//! The scores are the values between the two products, and those of the same dimensions going
//! back. They never leave the chip: forward, since each block of them is summed up with a running
//! maximum and sum; backward, since they are computed again from what the first product reads.
//! Where anything else reads a score (it leaves the program, or is looked up), the scores have to
//! be written, and there is no such kernel.

use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;
use shardwise_ir::functions::Composite;
use shardwise_ir::ids::{DimId, OpId, ValueId};
use shardwise_ir::program::{Op, OpKind, Phase, Program};
use shardwise_ir::rearrange::Rearrange;

use super::kernels::{Kernels, is_element_wise, same_dims};

/// Joins every attention of the program.
pub(super) fn join(kernels: &mut Kernels<'_>) {
    let softmax =
        |op: &Op| matches!(op.kind, OpKind::Composite { function: Composite::Softmax, .. });
    let softmaxes: Vec<OpId> = kernels
        .program
        .ops
        .iter_enumerated()
        .filter(|(_, op)| softmax(op))
        .map(|(id, _)| id)
        .collect();
    for softmax in softmaxes {
        if let Some(found) = Attention::around(kernels, softmax) {
            kernels.join_attention(&found.forward, &found.scores());
            for kernel in found.backward(kernels) {
                kernels.join_attention(&kernel, &[]);
            }
            let recomputation = found.recomputation(kernels);
            if let Some((product, times)) = recomputation.filter(|_| !found.is_only_recomputed) {
                kernels.recompute(product, times);
            }
        }
    }
}

/// An attention, forward and backward.
struct Attention {
    /// The product that gives the scores.
    scored_by: OpId,
    /// The operations from one product to the other.
    forward: Vec<OpId>,
    /// The scores, in both directions.
    scores: IndexSet<ValueId, FxBuildHasher>,
    /// All operations that read or give scores.
    ops: IndexSet<OpId, FxBuildHasher>,
    /// Whether a program computes the scores again for their gradients alone: the kernel going back
    /// is then not charged for it a second time.
    is_only_recomputed: bool,
}

impl Attention {
    /// The attention whose softmax this is; `None` where its scores have to be written.
    fn around(kernels: &Kernels<'_>, softmax: OpId) -> Option<Self> {
        let program = kernels.program;
        let dims = &program.values[program.ops[softmax].result].dims;
        let chain = scored(kernels, softmax, dims)?;
        let scored_by = *chain.last()?;
        let mut found = Self {
            scored_by,
            forward: chain,
            scores: IndexSet::default(),
            ops: IndexSet::default(),
            is_only_recomputed: false,
        };
        found.forward.push(softmax);
        found.ops.extend(found.forward.iter().copied());
        found.scores.extend(found.forward.iter().map(|&op| program.ops[op].result));
        found.close(kernels, dims)?;
        let before = found.forward.len();
        found.add_weighted_sum(kernels, softmax);
        let is_summed = found.forward[before..].iter().any(|&op| is_product(&program.ops[op]));
        found.is_only_recomputed = program.ops[softmax].phase == Phase::Backward && !is_summed;
        let leaves = |&value: &ValueId| program.dataflow().outputs_of(value).next().is_some();
        (!found.scores.iter().any(leaves)).then_some(found)
    }

    /// Adds everything that reads scores, and the scores that these give or read. `None` where
    /// something does that no attention kernel can.
    fn close(&mut self, kernels: &Kernels<'_>, dims: &[DimId]) -> Option<()> {
        let program = kernels.program;
        let mut next = 0;
        while next < self.scores.len() {
            let value = self.scores[next];
            next += 1;
            for (reader, _) in kernels.program.dataflow().uses_of(value) {
                let op = &program.ops[reader];
                self.ops.insert(reader);
                if keeps_scores(kernels.program, op) && has_dims(kernels, op.result, dims) {
                    self.scores.insert(op.result);
                    self.add_operands(kernels, op, dims);
                } else if !ends(program, op) && op.result != value {
                    return None;
                }
            }
        }
        Some(())
    }

    /// Adds what an element-wise operation on scores reads besides: the gradient of the scores, and
    /// what is spread over them.
    fn add_operands(&mut self, kernels: &Kernels<'_>, op: &Op, dims: &[DimId]) {
        for operand in &op.operands {
            let Some(producer) = kernels.program.dataflow().definition(operand.value) else {
                continue;
            };
            let other = &kernels.program.ops[producer];
            let is_scored = matches!(&other.kind, OpKind::Einsum { .. })
                || keeps_scores(kernels.program, other);
            let is_near = (other.repeat, other.phase) == (op.repeat, op.phase);
            if is_scored
                && is_near
                && has_dims(kernels, operand.value, dims)
                && self.scores.insert(operand.value)
            {
                self.ops.insert(producer);
                if keeps_scores(kernels.program, other) {
                    self.add_operands(kernels, other, dims);
                }
            }
        }
    }

    /// Adds the second product, and what is between the softmax and it, to the forward kernel.
    fn add_weighted_sum(&mut self, kernels: &Kernels<'_>, softmax: OpId) {
        let program = kernels.program;
        let OpKind::Composite { dims: over, .. } = &program.ops[softmax].kind else { return };
        let phase = program.ops[softmax].phase;
        let mut open = vec![program.ops[softmax].result];
        while let Some(value) = open.pop() {
            for (reader, _) in kernels.program.dataflow().uses_of(value) {
                let op = &program.ops[reader];
                let sums = matches!(&op.kind, OpKind::Einsum { contracted }
                    if over.iter().all(|dim| contracted.contains(dim)));
                let follows = keeps_scores(kernels.program, op) && op.operands.len() == 1;
                if op.phase == phase && (sums || follows) && !self.forward.contains(&reader) {
                    self.forward.push(reader);
                    open.extend(follows.then_some(op.result));
                }
            }
        }
    }

    fn scores(&self) -> Vec<ValueId> {
        self.scores.iter().copied().collect()
    }

    /// The operations going back, those of each block together.
    fn backward(&self, kernels: &Kernels<'_>) -> Vec<Vec<OpId>> {
        let mut blocks: Vec<Vec<OpId>> = Vec::new();
        let mut others: Vec<OpId> =
            self.ops.iter().copied().filter(|op| !self.forward.contains(op)).collect();
        others.sort_unstable();
        let ops = &kernels.program.ops;
        for op in others {
            let is_its = |block: &&mut Vec<OpId>| ops[block[0]].repeat == ops[op].repeat;
            match blocks.iter_mut().find(is_its) {
                Some(block) => block.push(op),
                None => blocks.push(vec![op]),
            }
        }
        blocks
    }

    /// The product going back with which the scores are computed again, and how many times its
    /// FLOPs that takes.
    fn recomputation(&self, kernels: &Kernels<'_>) -> Option<(OpId, f64)> {
        let size = |op: OpId| match &kernels.program.ops[op].kind {
            OpKind::Einsum { contracted } => {
                let sizes = contracted.iter().map(|&dim| kernels.program.dims[dim].size as f64);
                Some(sizes.product::<f64>())
            }
            _ => None,
        };
        let going_back = self.ops.iter().copied().find(|op| {
            let Op { kind, result, .. } = &kernels.program.ops[*op];
            let is_product =
                matches!(kind, OpKind::Einsum { contracted } if !contracted.is_empty());
            is_product && self.scores.contains(result) && !self.forward.contains(op)
        })?;
        Some((going_back, size(self.scored_by)? / size(going_back)?))
    }
}

/// The operations before a softmax that give its operand, down to a product; `None` where no
/// product produces it.
fn scored(kernels: &Kernels<'_>, softmax: OpId, dims: &[DimId]) -> Option<Vec<OpId>> {
    let program = kernels.program;
    let (repeat, phase) = (program.ops[softmax].repeat, program.ops[softmax].phase);
    let mut chain = Vec::new();
    let mut value = program.ops[softmax].operands[0].value;
    loop {
        let producer = kernels.program.dataflow().definition(value)?;
        let op = &program.ops[producer];
        if (op.repeat, op.phase) != (repeat, phase) {
            return None;
        }
        chain.push(producer);
        if is_product(op) {
            return Some(chain);
        }
        let scores = op.operands.iter().find(|operand| has_dims(kernels, operand.value, dims));
        value = scores.filter(|_| keeps_scores(kernels.program, op))?.value;
    }
}

fn is_product(op: &Op) -> bool {
    matches!(&op.kind, OpKind::Einsum { contracted } if !contracted.is_empty())
}

/// Whether an operation is computed score by score. A reshape is not: its blocks are others.
fn keeps_scores(program: &Program, op: &Op) -> bool {
    let is_reshape = matches!(op.kind, OpKind::Rearrange(Rearrange::Reshape(_)));
    is_element_wise(program, op) && !is_reshape
}

/// Whether an attention kernel can end with an operation on scores.
fn ends(program: &Program, op: &Op) -> bool {
    matches!(op.kind, OpKind::Einsum { .. } | OpKind::Reduce { .. } | OpKind::Composite { .. })
        || keeps_scores(program, op)
}

fn has_dims(kernels: &Kernels<'_>, value: ValueId, dims: &[DimId]) -> bool {
    same_dims(&kernels.program.values[value].dims, dims)
}
