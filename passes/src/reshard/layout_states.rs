//! The layouts of an operation as states of its values, with what its own price depends on: they
//! are found once, since a search asks for them under many cost models.

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use shardwise_ir::ids::{AxisId, OpId};
use shardwise_ir::program::{MapForm, Op, OpKind};
use shardwise_ir::sharding::Sharding;
use smallvec::SmallVec;

use crate::cost::local;
use crate::cost::send_recv::{self, Sent};
use crate::layouts::composite;
use crate::layouts::op_layouts::Layout;
use crate::reshard::sharding_space::State;
use crate::reshard::tables::Tables;

/// The states of an operation's values in a layout.
#[derive(Debug)]
pub(crate) struct LayoutStates {
    /// The state in which each operand is read.
    pub(crate) operands: Vec<State>,
    /// The state of the result.
    pub(crate) result: State,
    /// What the operation takes in each layout with these states: the least counts.
    pub(crate) takes: SmallVec<[OwnTime; 1]>,
}

/// What an operation takes in a layout, before anything is weighted.
#[derive(Debug)]
pub(crate) enum OwnTime {
    /// Seconds of compute.
    Compute(f64),
    /// Seconds in which its result is sent along axes.
    Sent(f64, Vec<AxisId>),
    /// Those of the statements and reductions to which a composite expands that reads its first
    /// operand so.
    Expanded(Sharding),
}

/// The states of all layouts of `op` that its pins allow; none for a collective, whose shardings
/// its author wrote.
pub(super) fn of_operation(tables: &Tables<'_>, op: OpId) -> Vec<LayoutStates> {
    let best_so_far = tables.part.best_layout(op.index());
    let op = &tables.program.ops[op];
    if matches!(op.kind, OpKind::Collective(_)) {
        return Vec::new();
    }
    let mut found: IndexMap<(Vec<State>, State), SmallVec<[OwnTime; 1]>, FxBuildHasher> =
        IndexMap::default();
    for layout in tables.layouts_of_part(op).into_iter().chain(best_so_far.cloned()) {
        if let Some(states) = states(tables, op, &layout) {
            found.entry(states).or_default().push(own_time(tables, op, &layout));
        }
    }
    let found = found.into_iter();
    found.map(|((operands, result), takes)| LayoutStates { operands, result, takes }).collect()
}

/// The states of the operands and the result in a layout, if pins and tables have them.
fn states(tables: &Tables<'_>, op: &Op, layout: &Layout) -> Option<(Vec<State>, State)> {
    let part = &tables.part;
    let mut operands = Vec::with_capacity(op.operands.len());
    for (operand, need) in op.operands.iter().zip(&layout.operands) {
        if operand.pin.as_ref().is_some_and(|pin| !part.accepts(pin, need)) {
            return None;
        }
        operands.push(tables.of(operand.value).space.find(need)?);
    }
    let result = tables.of(op.result).space.find(&layout.result)?;
    let enters = !op.is(&MapForm::LoopCarried)
        || op.result_pin.as_ref().is_none_or(|pin| part.accepts(pin, &layout.result));
    enters.then_some((operands, result))
}

fn own_time(tables: &Tables<'_>, op: &Op, layout: &Layout) -> OwnTime {
    let program = tables.program;
    if composite::is_split(program, op, layout.operands.first()) {
        return OwnTime::Expanded(layout.operands[0].clone());
    }
    if let Some(Sent { seconds, axes, .. }) = send_recv::sent(program, op, &layout.result) {
        return OwnTime::Sent(seconds, axes);
    }
    let sharded: Vec<&Sharding> = layout.operands.iter().collect();
    OwnTime::Compute(local::work(program, op, &sharded, &layout.result).seconds)
}
