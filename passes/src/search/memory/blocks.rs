//! The largest blocks between which a value can be resharded within a limit of memory.
//!
//! While a collective runs, its operand and its result are in memory beside the resident values,
//! and so is at least the smallest block of every other value that is live then. Steps that take
//! more are left out of the tables, so that the cheapest reshards lead through smaller blocks. What
//! is live beside a value is the least of all moments at which it may be resharded: before the
//! operations that use it, or right after the one that produces it.

use index_vec::IndexVec;
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::ids::{OpId, ValueId};
use shardwise_ir::program::{Op, OpKind, Program};
use shardwise_ir::sharding::Sharding;

use crate::cost::held::is_resident;
use crate::layouts::local_shape;
use crate::reshard::sharding_space::BlockLimit;
use crate::reshard::tables::Tables;
use crate::search::memory::demand::{fixed_bytes, is_recomputed, smallest_bytes};

/// For each value, what its reshards may take within `capacity` bytes.
pub(crate) fn limits(tables: &Tables<'_>, capacity: f64) -> IndexVec<ValueId, BlockLimit> {
    let program = tables.program;
    let demand = ReshardDemand::new(tables);
    let limit = |value: ValueId| {
        let most = capacity - demand.beside[value.index()];
        // An update takes the place of what is resident; so may the block before.
        let result = if program.is_update(value) { f64::INFINITY } else { most };
        let both = if demand.takes_both[value.index()] { most } else { f64::INFINITY };
        BlockLimit { result, both }
    };
    program.values.indices().map(limit).collect()
}

/// What reshards take at least.
pub(crate) struct ReshardDemand {
    /// For each value, what is in memory beside it.
    beside: Vec<f64>,
    /// Whether its operand takes memory beside its result.
    takes_both: Vec<bool>,
}

impl ReshardDemand {
    pub(crate) fn new(tables: &Tables<'_>) -> Self {
        let program = tables.program;
        let fixed = fixed_bytes(program);
        let beside = least_beside(tables).into_iter().map(|bytes| bytes + fixed).collect();
        let takes_both =
            program.values.indices().map(|value| takes_bytes(program, value)).collect();
        Self { beside, takes_both }
    }

    /// What a step takes that reshards a value, which no statement updates.
    pub(crate) fn bytes(
        &self,
        program: &Program,
        value: ValueId,
        (from, to): (&Sharding, &Sharding),
    ) -> f64 {
        let bytes = |sharding| local_shape::local_bytes(program, value, sharding);
        let operand = if self.takes_both[value.index()] { bytes(from) } else { 0.0 };
        self.beside[value.index()] + operand + bytes(to)
    }
}

/// For each value, the least bytes of all others while it may be resharded. In blocks, whose values
/// are resharded before them, within them or for several layers at once, nothing is counted.
fn least_beside(tables: &Tables<'_>) -> Vec<f64> {
    let program = tables.program;
    let values = program.values.len();
    if !program.repeats.is_empty() {
        return vec![0.0; values];
    }
    let lives: Vec<Option<(usize, usize)>> =
        program.values.indices().map(|value| life(program, value)).collect();
    let bytes: Vec<f64> = program
        .values
        .indices()
        .map(|value| if takes_bytes(program, value) { smallest_bytes(tables, value) } else { 0.0 })
        .collect();
    // The bytes that are live before each operation, and at the end.
    let mut live = vec![0.0; program.ops.len() + 1];
    for (life, bytes) in lives.iter().zip(&bytes) {
        if let &Some((from, to)) = life {
            live[from..=to].iter_mut().for_each(|sum| *sum += bytes);
        }
    }
    let beside = |(life, own): (&Option<(usize, usize)>, &f64)| {
        let &Some((from, to)) = life else { return 0.0 };
        live[from..=to].iter().map(|sum| sum - own).fold(f64::INFINITY, f64::min)
    };
    lives.iter().zip(&bytes).map(beside).collect()
}

/// The bytes that every plan takes at its end, whatever the form of its program: those of params,
/// states and outputs whose sharding is written. In blocks nothing is counted.
pub fn least_at_the_end(program: &Analyzed) -> f64 {
    if !program.repeats.is_empty() {
        return 0.0;
    }
    let bytes = |value: ValueId| {
        let outputs = program.dataflow().outputs_of(value);
        let written = outputs.filter_map(|output| program.outputs[output].pin.exact());
        let bytes = written.map(|sharding| local_shape::local_bytes(program, value, &sharding));
        bytes.fold(0.0, f64::max)
    };
    let outputs = program.values.indices().filter(|&value| takes_bytes(program, value));
    outputs.map(bytes).sum::<f64>() + fixed_bytes(program)
}

/// The first and the last operation before which a value is live.
fn life(program: &Analyzed, value: ValueId) -> Option<(usize, usize)> {
    let from = program.dataflow().definition(value).map_or(0, |op| op.index() + 1);
    let is_read = |&(op, position): &(OpId, usize)| {
        position < program.ops[op].sharded_operands().len().max(1)
    };
    let readers = program.dataflow().uses_of(value).filter(is_read);
    let last = readers.map(|(op, _)| op.index()).max();
    let leaves = program.dataflow().outputs_of(value).next().is_some();
    let to = if leaves { Some(program.ops.len()) } else { last };
    to.filter(|&to| from <= to).map(|to| (from, to))
}

/// Whether every block of a value takes memory of its own: it is not resident or updated in place,
/// no view of another value, not on the chip, and not computed again.
fn takes_bytes(program: &Analyzed, value: ValueId) -> bool {
    let is_apart = |op: &Op| {
        let is_view = matches!(op.kind, OpKind::Rearrange(_) | OpKind::Update { .. });
        !is_view && !op.kernel.result_on_chip
    };
    let producer = program.dataflow().definition(value).map(|op| &program.ops[op]);
    producer.is_none_or(is_apart)
        && !is_resident(program, value)
        && !program.is_update(value)
        && !is_recomputed(program, value)
}
