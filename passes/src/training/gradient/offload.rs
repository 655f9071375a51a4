//! `checkpoint offload`: values wait for the gradients of their layer in the memory of the host.
//!
//! ```text
//! repeat L=40 {                 repeat L reversed {
//!   carry x.in = x                carry dx.1 = dx.end
//!   x.in.host = offload(x.in)     x.in.back = reload(x.in.host)
//!   h = x.in *D W                 dW = x.in.back *B dh
//!   …                             …
//!   checkpoint offload x        }
//! }
//! ```
//!
//! Only values that the reversed block reads are sent, or those that what it computes again reads.
//! They are statements like any others, so that plans lay them out and price them, and schedules
//! overlap them; the alternative, a mark on the value, would have every pass know that a value is
//! in two places.

use indexmap::{IndexMap, IndexSet};
use shardwise_ir::functions::{HostTransfer, MapFn, MapForm};
use shardwise_ir::ids::{RepeatId, ValueId};
use shardwise_ir::program::{KernelPart, Op, OpKind, Operand, Phase, Program, Share};

use super::again::Names;

/// What the gradients of a block read in place of its values, and the statements that send these.
pub(super) struct Offloaded {
    /// `x.in`, and `x.in.back`.
    pub(super) back: IndexMap<ValueId, ValueId>,
    /// The statements that bring them back.
    pub(super) loads: Vec<Op>,
    /// The statements that send them.
    pub(super) stores: Vec<Op>,
}

/// Sends values of a block to the host, and brings them back to its reverse.
pub(super) fn offload(
    program: &mut Program,
    (forward, back): (RepeatId, RepeatId),
    values: &IndexSet<ValueId>,
    names: &mut Names<'_>,
) -> Offloaded {
    let mut offloaded = Offloaded { back: IndexMap::new(), loads: Vec::new(), stores: Vec::new() };
    for &value in values {
        let host = names.derived(program, value, "host", forward);
        let there = names.derived(program, value, "back", back);
        let span = names.span;
        let transfer = |how, (from, result), phase, repeat| Op {
            kind: OpKind::Map(MapFn::new(MapForm::Host(how))),
            operands: vec![Operand { value: from, pin: None, span }],
            result,
            result_pin: None,
            phase,
            repeat: Some(repeat),
            share: Share::WHOLE,
            is_kept: false,
            kernel: KernelPart::default(),
            span,
        };
        let phase = Phase::Forward;
        offloaded.stores.push(transfer(HostTransfer::To, (value, host), phase, forward));
        let phase = Phase::Backward;
        offloaded.loads.push(transfer(HostTransfer::From, (host, there), phase, back));
        offloaded.back.insert(value, there);
    }
    offloaded
}

/// Inserts statements that send values to the host, each after the one that gives its value, or
/// after what enters the block.
pub(super) fn insert(program: &mut Program, stores: Vec<Op>) {
    let mut ops: Vec<Op> = std::mem::take(&mut program.ops).into_iter().collect();
    for store in stores.into_iter().rev() {
        let of = store.operands[0].value;
        let given = ops.iter().position(|op| op.result == of).map_or(0, |place| place + 1);
        let enters = |op: &Op| op.is(&MapForm::LoopCarried) && op.repeat == store.repeat;
        let entered = ops[given..].iter().take_while(|op| enters(op)).count();
        ops.insert(given + entered, store);
    }
    program.ops = ops.into_iter().collect();
}
