//! `roll` along a split dimension: the one operation of a program that moves data itself.
//!
//! What is rolled is another value behind it, so it cannot be a collective, which moves a value between its shardings; and its split form cannot be
//! written with collectives but by gathering all, which is what passing blocks around (ring attention, neighbours of a convolution) avoids. So it
//! is an operation whose layouts may split the dimension as long as nothing leaves a block for further than the next one, and whose price there
//! is a shift's: each device sends the part of its block that leaves it to its neighbour.

use shardwise_ir::ids::AxisId;
use shardwise_ir::plan::{Plan, Step, StepKind};
use shardwise_ir::program::{Op, OpKind, Program};
use shardwise_ir::rearrange::{Rearrange, Roll};
use shardwise_ir::sharding::{AxisRef, Sharding};

use crate::cost;
use crate::local;

/// What a rotation sends, and over which axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Sent {
    /// Bytes a device sends to its neighbour.
    pub bytes: f64,
    /// The axes whose links it takes.
    pub axes: Vec<AxisId>,
    /// How long that takes, seconds.
    pub seconds: f64,
}

/// Which share of a block leaves it for the next one, where `axes` split the dimension; `None` where some would have to go further.
pub(crate) fn share(program: &Program, roll: &Roll, axes: &[AxisRef]) -> Option<f64> {
    let size = program.dims[roll.dim].size;
    let block = size / local::parts(&program.mesh, axes);
    let leaves = roll.by.min(size - roll.by.min(size));
    let blocks_are_equal = size == block * local::parts(&program.mesh, axes);
    (blocks_are_equal && leaves <= block).then(|| leaves as f64 / block as f64)
}

/// What `op` sends where its operand is so sharded; `None` for what is done locally.
pub fn sent(program: &Program, op: &Op, operand: &Sharding) -> Option<Sent> {
    let OpKind::Rearrange(Rearrange::Roll(roll)) = &op.kind else { return None };
    let value = op.operands[0].value;
    let position = program.values[value].dims.iter().position(|&dim| dim == roll.dim)?;
    let split = operand.dims.get(position).filter(|axes| local::parts(&program.mesh, axes) > 1)?;
    let axes: Vec<AxisId> = split.iter().map(|axis| axis.axis()).filter(|&axis| program.mesh.axes[axis].size > 1).collect();
    let bytes = share(program, roll, split)? * local::local_bytes(program, value, operand);
    Some(Sent { seconds: cost::shift_seconds(&program.mesh, &axes, bytes), bytes, axes })
}

/// What a step of a plan sends, if it is such an operation.
pub(crate) fn sent_by(plan: &Plan, step: &Step) -> Option<Sent> {
    let StepKind::Local(op) = step.kind else { return None };
    sent(&plan.program, &plan.program.ops[op], &step.operands[0].sharding)
}
