//! What kernels read of a value beside the block that the first of their operations names.
//!
//! A kernel reads a value once, for all of its operations, so that the first one that names it is
//! charged for its block. Where a later one names a larger block, as after a collective inside of
//! the kernel, that one is charged for what its block has more. The search knows it as terms of its
//! model (`crate::problem`). Alternatives: to charge every operation for its own block would charge
//! kernels without collectives for what they read once; to charge only finished plans leaves the
//! search with a price that is too low, and nothing that it proves would hold.

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use shardwise_ir::ids::ValueId;
use shardwise_ir::plan::{Plan, Step, StepKind};
use shardwise_ir::sharding::Sharding;

use crate::cost::local;

/// What kernels have read so far, over the steps of a plan.
#[derive(Default)]
pub(crate) struct KernelReads {
    /// The bytes of the largest block, by kernel, whether products read it, and value.
    largest: IndexMap<(u32, bool, ValueId), f64, FxBuildHasher>,
}

impl KernelReads {
    /// The bytes that the kernel of a step reads beyond what it has read before, and their seconds.
    pub(crate) fn beyond(&mut self, plan: &Plan, step: &Step) -> (f64, f64) {
        let StepKind::Local(number) = step.kind else { return (0.0, 0.0) };
        let op = &plan.program.ops[number];
        let Some(kernel) = op.kernel.number.filter(|_| local::reads_all(op)) else {
            return (0.0, 0.0);
        };
        let shardings: Vec<&Sharding> = step.operands.iter().map(|of| &of.sharding).collect();
        let mut beyond = 0.0;
        for (position, operand) in step.operands.iter().enumerate() {
            let bytes = local::read_bytes(&plan.program, op, position, &shardings);
            let read = self.largest.entry((kernel, op.is_product(), operand.value));
            let read = read.or_insert(bytes);
            if op.kernel.has_read_before(position) {
                beyond += (bytes - *read).max(0.0);
            }
            *read = read.max(bytes);
        }
        (beyond, local::read_s(&plan.program, op, beyond))
    }
}
