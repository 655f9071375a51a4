//! Operations that send data themselves: `roll` along a sharded dimension, the sends between
//! neighbouring stages of a pipeline, and transfers between the memories of device and host.
//!
//! The result of either is another value than its operand (the next block, the previous layer's
//! output), so it cannot be a collective, which moves a value between its shardings; and a sharded
//! roll could only be expressed by collectives as a full gather, which a shift of blocks (ring
//! attention, neighbours of a convolution) avoids. So they are operations with the price of a
//! shift: each device sends to its neighbour the part that leaves its block, or all of it. A layout
//! of a roll may shard its dimension as long as no element moves further than to the next block.
//!
//! The search, the report and the schedule all use these functions.

use shardwise_ir::ids::{AxisId, DimId};
use shardwise_ir::plan::{Plan, Step, StepKind};
use shardwise_ir::program::{Op, OpKind, Program};
use shardwise_ir::rearrange::{Rearrange, Roll, Windows};
use shardwise_ir::sharding::{AxisList, Sharding};
use smallvec::SmallVec;

use crate::cost::{collective, local};
use crate::layouts::local_shape;

/// The data that an operation sends, and the axes it uses.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sent {
    /// Bytes that a device sends to its neighbour per execution.
    pub bytes: f64,
    /// The axes whose links it uses.
    pub axes: Vec<AxisId>,
    /// Whether it uses the link to the host instead.
    pub uses_host: bool,
    /// Seconds per execution.
    pub seconds: f64,
}

/// The data that `op` sends if its result, and with it its operand, has this sharding; `None` for a
/// local operation.
pub(crate) fn sent(program: &Program, op: &Op, sharding: &Sharding) -> Option<Sent> {
    match &op.kind {
        OpKind::Rearrange(Rearrange::Roll(roll)) => rolled(program, op, roll, sharding),
        OpKind::Rearrange(Rearrange::Windows(windows) | Rearrange::Overlap(windows)) => {
            halo(program, op, windows, sharding)
        }
        _ if program.is_stage_send(op) => stage_send(program, op, sharding),
        _ if op.host_transfer().is_some() => host_transfer(program, op, sharding),
        _ => None,
    }
}

/// Whether `op` sends data under some shardings.
pub(crate) fn may_send(program: &Program, op: &Op) -> bool {
    let is_shift = matches!(
        op.kind,
        OpKind::Rearrange(Rearrange::Roll(_) | Rearrange::Windows(_) | Rearrange::Overlap(_))
    );
    is_shift || program.is_stage_send(op) || op.host_transfer().is_some()
}

fn rolled(program: &Program, op: &Op, roll: &Roll, sharding: &Sharding) -> Option<Sent> {
    let position = program.values[op.result].dims.iter().position(|&dim| dim == roll.dim)?;
    let split =
        sharding.dims.get(position).filter(|axes| local_shape::parts(&program.mesh, axes) > 1)?;
    let axes: Vec<AxisId> = split
        .iter()
        .map(|axis| axis.axis())
        .filter(|&axis| program.mesh.axes[axis].size > 1)
        .collect();
    let bytes = local_shape::roll_share(program, roll, split)?
        * local_shape::local_bytes(program, op.result, sharding);
    let seconds = collective::shift_seconds(program, &axes, bytes);
    Some(Sent { seconds, bytes, axes, uses_host: false })
}

/// Each device sends the elements at either end of its block that windows of the blocks next to it
/// have; for the transpose, what its own windows add to these. The first and the last block
/// exchange nothing, so that the axis that splits outermost need not go round.
fn halo(program: &Program, op: &Op, windows: &Windows, sharding: &Sharding) -> Option<Sent> {
    let takes = matches!(op.kind, OpKind::Rearrange(Rearrange::Windows(_)));
    let along = if takes { windows.places } else { windows.whole };
    let position = program.values[op.result].dims.iter().position(|&dim| dim == along)?;
    let split = sharding.dims.get(position)?;
    let parts = local_shape::parts(&program.mesh, split);
    let halo = local_shape::halo(program, windows, split).filter(|_| parts > 1)?;
    let size = |dim: DimId| program.dims[dim].size as f64;
    // Elements of the operand for each of the result: windows repeat them.
    let once = if takes { windows.stride as f64 / size(windows.kernel) } else { 1.0 };
    let share = (halo.before + halo.after) as f64 * parts as f64 / size(windows.whole);
    let bytes = once * share * local_shape::local_bytes(program, op.result, sharding);
    let axes: Vec<AxisId> = split
        .iter()
        .map(|axis| axis.axis())
        .filter(|&axis| program.mesh.axes[axis].size > 1)
        .collect();
    let (&outer, inner) = axes.split_first()?;
    let sent_s = collective::hop_seconds(program, outer, bytes)
        .max(collective::shift_seconds(program, inner, bytes));
    let operand = Sharding {
        dims: local_dims(program, op, sharding, (along, split)),
        unreduced: sharding.unreduced.clone(),
    };
    // The pass over the block waits for its ends.
    let seconds = sent_s + local::work(program, op, &[&operand], sharding).seconds;
    Some(Sent { bytes, axes, uses_host: false, seconds }).filter(|sent| sent.bytes > 0.0)
}

/// The axes of the operand's dimensions where those of the result are known, and `along` of it is
/// another dimension of the operand.
fn local_dims(
    program: &Program,
    op: &Op,
    result: &Sharding,
    (along, split): (DimId, &AxisList),
) -> SmallVec<[AxisList; 4]> {
    let (from, to) = (&program.values[op.operands[0].value].dims, &program.values[op.result].dims);
    let axes = |dim: &DimId| {
        let OpKind::Rearrange(how) = &op.kind else { return AxisList::new() };
        if how.windows_along(*dim).is_some() {
            return split.clone();
        }
        let place = to.iter().position(|other| other == dim && *other != along);
        place.map(|place| result.dims[place].clone()).unwrap_or_default()
    };
    from.iter().map(axes).collect()
}

/// A stage sends its complete microbatch to the next stage. The last stage sends to the first only
/// if that has another chunk of the layers, and chunks do not turn around there.
fn stage_send(program: &Program, op: &Op, sharding: &Sharding) -> Option<Sent> {
    let pipeline = program.pipeline(op.repeat)?;
    let bytes = local_shape::local_bytes(program, op.result, sharding);
    let goes_round = pipeline.chunks > 1 && !pipeline.schedule.is_v();
    let seconds = if goes_round {
        collective::shift_seconds(program, &[pipeline.axis], bytes)
    } else {
        collective::hop_seconds(program, pipeline.axis, bytes)
    };
    Some(Sent { bytes, axes: vec![pipeline.axis], uses_host: false, seconds })
}

/// Each device sends its block to the memory of its host, or brings it back.
fn host_transfer(program: &Program, op: &Op, sharding: &Sharding) -> Option<Sent> {
    let bytes = local_shape::local_bytes(program, op.result, sharding);
    let seconds = bytes / program.hardware.host_bandwidth?;
    Some(Sent { bytes, axes: Vec::new(), uses_host: true, seconds })
}

/// The data that a step of a plan sends, if it is such an operation.
pub(crate) fn sent_by(plan: &Plan, step: &Step) -> Option<Sent> {
    let StepKind::Local(op) = step.kind else { return None };
    sent(&plan.program, &plan.program.ops[op], &step.result.sharding)
}
