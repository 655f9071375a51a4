//! Operations that have the same layouts at the same times, as those of layers that are written out
//! one by one: their layouts are found and held once.
//!
//! Two are alike if all is equal that layouts, their states and their times depend on. Kinds whose
//! time depends on more than their own values (updates in place, what enters or leaves a block,
//! what is sent) are like no other. The alternative, to look for equal layers first, finds fewer:
//! layers differ in what is on the chip at their ends, and the operations in them do not.

use index_vec::IndexVec;
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::ids::{DimId, OpId, RepeatId, ValueId};
use shardwise_ir::program::{KernelPart, MapForm, Op, OpKind, Operand};
use shardwise_ir::sharding::Reduction;

use crate::reshard::part::Part;

/// What is compared first, by its hash.
#[derive(PartialEq, Eq, Hash)]
struct Key<'p> {
    tables: Vec<usize>,
    dims: Vec<&'p [DimId]>,
    repeat: Option<RepeatId>,
}

/// For each operation, the first one that it is like.
pub(super) fn first_alike(
    program: &Analyzed,
    part: &Part,
    (table_of, partial): (&[usize], &[Option<Reduction>]),
) -> IndexVec<OpId, OpId> {
    let mut firsts: IndexMap<Key<'_>, Vec<OpId>, FxBuildHasher> = IndexMap::default();
    let of_op = |(id, op): (OpId, &Op)| {
        if !depends_on_its_values(&op.kind) {
            return id;
        }
        let values = || values(op);
        let key = Key {
            tables: values().map(|value| table_of[value.index()]).collect(),
            dims: values().map(|value| program.values[value].dims.as_slice()).collect(),
            repeat: op.repeat,
        };
        let others = firsts.entry(key).or_default();
        let is_alike = |&other: &OpId| are_alike(program, part, partial, (id, other));
        let first = others.iter().copied().find(is_alike);
        first.unwrap_or_else(|| {
            others.push(id);
            id
        })
    };
    program.ops.iter_enumerated().map(of_op).collect()
}

fn depends_on_its_values(kind: &OpKind) -> bool {
    match kind {
        OpKind::Einsum { .. } | OpKind::Reduce { .. } => true,
        OpKind::Map(function) => matches!(
            function.form,
            MapForm::Call { .. }
                | MapForm::Cast(_)
                | MapForm::Infix(_)
                | MapForm::ScaleBy(_)
                | MapForm::InfixScalar(..)
                | MapForm::ScalarInfix(..)
                | MapForm::Negate
        ),
        _ => false,
    }
}

fn values(op: &Op) -> impl Iterator<Item = ValueId> {
    op.operands.iter().map(|operand| operand.value).chain([op.result])
}

/// The same of operations whose values have the same tables and dimensions.
fn are_alike(
    program: &Analyzed,
    part: &Part,
    partial: &[Option<Reduction>],
    (one, other): (OpId, OpId),
) -> bool {
    let (a, b) = (&program.ops[one], &program.ops[other]);
    let same_value = |(a, b): (ValueId, ValueId)| {
        let (in_a, in_b) = (&program.values[a], &program.values[b]);
        partial[a.index()] == partial[b.index()]
            && in_a.dtype == in_b.dtype
            && in_a.stored_as == in_b.stored_as
            && in_a.filled == in_b.filled
            && in_a.repeat == in_b.repeat
    };
    let same_pin = |(a, b): (&Operand, &Operand)| a.pin == b.pin;
    let kernel = |op: &Op| KernelPart { number: None, ..op.kernel };
    a.kind == b.kind
        && a.share == b.share
        && a.phase == b.phase
        && a.result_pin == b.result_pin
        && kernel(a) == kernel(b)
        && a.operands.iter().zip(&b.operands).all(same_pin)
        && values(a).zip(values(b)).all(same_value)
        && part.best_layout(one.index()) == part.best_layout(other.index())
        && part.groups_of(program, a) == part.groups_of(program, b)
}
