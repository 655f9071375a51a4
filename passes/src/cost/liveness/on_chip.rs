//! What kernels leave on the chip, and until when they read for it.
//!
//! A kernel runs as a whole: tile by tile it reads its operands, passes results from one of its
//! statements to the next, and writes the last. So what a product, norm or lookup reads is read
//! until the step that writes what follows from it: `x` of `gelu(x *D v)` is live beside the result
//! of `gelu`. What is read element by element alone is not: XLA and Inductor write the result of
//! such a kernel in the place of an operand, unless that is smaller, such as a bias. Of attention,
//! whose kernels going back compute the scores again, each kernel counts alone.
//!
//! Alternatives: to read every operand of a kernel from its first step to its last counts operands
//! of a residual sum beside each other, and logits beside their gradients.

use shardwise_ir::dataflow::Dataflow;
use shardwise_ir::plan::{Plan, Step, StepKind};
use shardwise_ir::program::KernelPart;

/// What is on the chip in a plan.
pub(super) struct OnChip {
    /// For each step, whether its result is.
    has_result: Vec<bool>,
    /// For each step, the one that writes what follows from its result on the chip.
    ends: Vec<usize>,
    /// The place of each step in a kernel.
    kernels: Vec<KernelPart>,
}

impl OnChip {
    /// `goes_back` says which steps belong to the backward part.
    pub(super) fn new(plan: &Plan, dataflow: &Dataflow<usize>, goes_back: &[bool]) -> Self {
        let is_collective = |step: usize| matches!(plan.steps[step].kind, StepKind::Collective(..));
        let stays = |step: usize| match plan.steps[step].kind {
            // A collective reads it from memory.
            StepKind::Local(op) if plan.program.ops[op].kernel.result_on_chip => {
                !dataflow.readers(step).any(|(reader, _)| is_collective(reader))
            }
            _ => false,
        };
        let steps = 0..plan.steps.len();
        let has_result: Vec<bool> = steps.clone().map(stays).collect();
        let mut ends: Vec<usize> = steps.clone().collect();
        for step in steps.clone().rev().filter(|&step| has_result[step]) {
            let readers = dataflow.readers(step).map(|(reader, _)| reader);
            let own = readers.filter(|&reader| goes_back[reader] == goes_back[step]);
            ends[step] = own.map(|reader| ends[reader]).fold(step, usize::max);
        }
        let kernel = |step: &Step| match step.kind {
            StepKind::Local(op) => plan.program.ops[op].kernel,
            StepKind::Collective(..) => KernelPart::default(),
        };
        Self { has_result, ends, kernels: plan.steps.iter().map(kernel).collect() }
    }

    /// Whether a step leaves its result there.
    pub(super) fn has_result_of(&self, step: usize) -> bool {
        self.has_result[step]
    }

    /// The last step for which a step reads an operand.
    pub(super) fn reads_until(&self, step: usize, operand: usize) -> usize {
        if self.kernels[step].reads_to_end(operand) { self.ends[step] } else { step }
    }
}
