//! Casts that no kernel writes: a value that is in memory in a narrow dtype, as quantised weights
//! and caches are, is read so by the products and attention kernels that compute in a wider one,
//! and converted on the chip. Scales that are multiplied in on the way are, too.
//!
//! Each kernel that reads such a value converts it by itself, so that the conversion belongs to no
//! kernel by number: XLA and Inductor duplicate casts that widen, and kernels for quantised weights
//! convert tile by tile. A cast to fewer bits is a kernel of its own: read once for each product,
//! the wide bytes would cost more than one narrow copy, which is what frameworks keep of master
//! weights.
//!
//! A collective between a cast and a product reads the wide value, which then is in memory, and its
//! cast a pass. Which values plans reshard is known only after shardings are: kernels are chosen as
//! if no cast were, and a plan that reshards one is priced with it as it is ([`after_reshards`]).
//! Before the cast fewer bytes are communicated, so that a search seldom ends there.
//!
//! Alternatives: to join the cast to one of the kernels leaves the others without it, and prices
//! what that kernel reads beside its arithmetic, and not overlapped with it. To copy the cast for
//! each product would price every reshard exactly, for statements that nobody wrote.

use indexmap::{IndexMap, IndexSet};
use rustc_hash::FxBuildHasher;
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::dtype::DType;
use shardwise_ir::ids::ValueId;
use shardwise_ir::plan::{Plan, StepKind};
use shardwise_ir::program::{Fusion, MapForm, Op, OpKind, Phase};
use shardwise_ir::sharding::Pin;

use super::kernels::{is_alone, is_element_wise, same_dims, uses};
use super::recompute::{is_named, leaves};

/// Values that their readers convert, each with the dtype in which it is in memory.
pub(super) type Conversions = IndexMap<ValueId, DType, FxBuildHasher>;

type Values = IndexSet<ValueId, FxBuildHasher>;

/// The values that readers convert as long as nothing reshards them.
pub(super) fn conversions(program: &Analyzed) -> Conversions {
    unless_resharded(program, &Values::default())
}

/// Those of a program in which what it writes reshards some.
pub(super) fn written_conversions(program: &Analyzed) -> Conversions {
    unless_resharded(program, &written_reshards(program).collect())
}

/// The program of a plan that reshards what its kernels were to convert, with the kernels that it
/// has then.
pub(crate) fn after_reshards(program: &Analyzed, plan: &mut Plan) {
    let is_converted = |value: &ValueId| program.values[*value].stored_as.is_some();
    let moves = plan.steps.iter().filter(|step| matches!(step.kind, StepKind::Collective(..)));
    let mut resharded: Values = moves.map(|step| step.result.value).filter(is_converted).collect();
    if !resharded.is_empty() {
        resharded.extend(written_reshards(program));
        let numbers = program.ops.iter().map(|op| op.kernel.number).collect();
        let converted = unless_resharded(program, &resharded);
        super::assign(program, &mut plan.program, &numbers, converted);
    }
}

/// The values that statements reshard, or whose brackets say that they are resharded.
fn written_reshards(program: &Analyzed) -> impl Iterator<Item = ValueId> {
    let is_resharded = |op: &&Op| op.is_reshard() || is_read_otherwise(program, op);
    program.ops.iter().filter(is_resharded).map(|op| op.result)
}

/// Whether a result and its uses have brackets that differ.
fn is_read_otherwise(program: &Analyzed, op: &Op) -> bool {
    let written = program.values[op.result].declared_sharding.as_ref();
    let read = uses(program, op.result);
    let read = read.filter_map(|(reader, place)| program.ops[reader].operands[place].pin.as_ref());
    let mut exact = written.into_iter().chain(read).filter_map(Pin::exact);
    exact.next().is_some_and(|first| exact.any(|other| other != first))
}

fn unless_resharded(program: &Analyzed, resharded: &Values) -> Conversions {
    if program.fusion == Fusion::None {
        return Conversions::default();
    }
    let found = widened(program, |_| true);
    let mut kept = Values::default();
    for op in program.ops.iter().rev().filter(|op| found.contains_key(&op.result)) {
        if !resharded.contains(&op.result) && is_read_by_products(program, op, &found, &kept) {
            kept.insert(op.result);
        }
    }
    widened(program, |value| kept.contains(&value))
}

/// The results that widen what is in memory, of those that may.
fn widened(program: &Analyzed, may: impl Fn(ValueId) -> bool) -> Conversions {
    let mut found = Conversions::default();
    for op in program.ops.iter().filter(|op| !op.is_reshard() && may(op.result)) {
        let carried = || {
            let place = carried(program, op, &found)?;
            found.get(&op.operands[place].value).copied()
        };
        if let Some(dtype) = stored(program, op).or_else(carried) {
            found.insert(op.result, dtype);
        }
    }
    found
}

/// The dtype from which an operation widens what is in memory.
fn stored(program: &Analyzed, op: &Op) -> Option<DType> {
    let OpKind::Map(function) = &op.kind else { return None };
    let MapForm::Cast(to) = function.form else { return None };
    let from = program.values[op.operands[0].value].dtype;
    let widens = from.bits() < to.bits() && is_in_memory(program, op.operands[0].value);
    widens.then_some(from)
}

/// Whether a value is declared, or of an operation with which nothing runs as one kernel.
fn is_in_memory(program: &Analyzed, value: ValueId) -> bool {
    let producer = program.dataflow().definition(value).map(|op| &program.ops[op]);
    producer.is_none_or(|op| {
        if op.is_view() {
            is_in_memory(program, op.operands[0].value)
        } else {
            is_alone(program, op)
        }
    })
}

/// The operand whose elements an operation carries on: one that was widened, under other names or
/// with a scale or zero point.
fn carried(program: &Analyzed, op: &Op, found: &Conversions) -> Option<usize> {
    let is_scaled = match &op.kind {
        OpKind::Einsum { .. } => is_element_wise(program, op),
        OpKind::Map(function) => matches!(
            function.form,
            MapForm::Cast(_)
                | MapForm::Negate
                | MapForm::ScaleBy(_)
                | MapForm::Infix(_)
                | MapForm::InfixScalar(..)
                | MapForm::ScalarInfix(..)
        ),
        _ => op.is_view(),
    };
    let dims = |value: ValueId| &program.values[value].dims;
    let is_large = |place: &usize| {
        let value = op.operands[*place].value;
        op.is_view() || same_dims(dims(value), dims(op.result)) || found.contains_key(&value)
    };
    let mut large = (0..op.operands.len()).filter(is_large);
    let place = large.next().filter(|_| is_scaled && large.next().is_none())?;
    let is_all = op.is_view() || same_dims(dims(op.operands[place].value), dims(op.result));
    is_all.then_some(place)
}

/// Whether nothing reads a result but products and what is carried on to these; in the same block,
/// or going back.
fn is_read_by_products(program: &Analyzed, op: &Op, found: &Conversions, kept: &Values) -> bool {
    let mut uses = uses(program, op.result).peekable();
    let is_read = uses.peek().is_some();
    let converts = |reader: &Op, place: usize| {
        reader.is_product()
            || kept.contains(&reader.result) && carried(program, reader, found) == Some(place)
    };
    let is_near = |reader: &Op| {
        (reader.repeat, reader.phase) == (op.repeat, op.phase)
            || (op.phase, reader.phase) == (Phase::Forward, Phase::Backward)
    };
    is_read
        && !leaves(program, op.result)
        && !is_named(program, op)
        && uses.all(|(reader, place)| {
            let reader = &program.ops[reader];
            is_near(reader) && converts(reader, place)
        })
}
