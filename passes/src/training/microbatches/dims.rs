//! Replaces the dimensions of the batch with those of a microbatch.

use indexmap::IndexSet;
use shardwise_ir::ids::{DimId, OpId, ValueId};
use shardwise_ir::program::{MapForm, OpKind, Program};
use shardwise_ir::rearrange::{Rearrange, Regroup};
use shardwise_ir::sharding::Pin;

use super::forms::{MicrobatchForm, MicrobatchForms};
use super::{MicrobatchFault, Parts};
use crate::layouts::local_shape;

/// The dimension of a microbatch in place of a dimension of the batch.
pub(super) fn part(parts: &Parts, dim: DimId) -> DimId {
    parts.get(&dim).copied().unwrap_or(dim)
}

fn all(parts: &Parts, dims: &mut [DimId]) {
    for dim in dims {
        *dim = part(parts, *dim);
    }
}

/// Replaces the dimensions of an operation by those of a microbatch.
pub(super) fn cut(parts: &Parts, kind: &mut OpKind) {
    match kind {
        OpKind::Einsum { contracted: dims }
        | OpKind::Reduce { dims, .. }
        | OpKind::Composite { dims, .. } => all(parts, dims),
        OpKind::Map(function) => {
            if let MapForm::Broadcast(dims) | MapForm::Constant { dims, .. } = &mut function.form {
                all(parts, dims);
            }
        }
        OpKind::Rearrange(Rearrange::Reshape(groups)) => {
            for Regroup { from, to } in groups {
                all(parts, from);
                all(parts, to);
            }
        }
        // These do not depend on the batch, or cannot be split.
        OpKind::Gather { .. }
        | OpKind::ScatterAdd { .. }
        | OpKind::Update { .. }
        | OpKind::Rearrange(_)
        | OpKind::Route(_)
        | OpKind::Along(_)
        | OpKind::Opaque(_)
        | OpKind::Collective(_) => {}
    }
}

/// Values whose brackets split the batch more finely than the rows of a microbatch can be split.
pub(super) fn uneven(
    program: &Program,
    parts: &Parts,
    forms: &MicrobatchForms,
) -> Vec<MicrobatchFault> {
    let fits = |dims: &[DimId], pin: &Pin| {
        let split = dims
            .iter()
            .zip(&pin.dims)
            .filter_map(|(dim, pin)| Some((parts.get(dim)?, pin.named())));
        split.into_iter().all(|(&part, axes)| local_shape::divides(program, None, part, axes))
    };
    let of_ops = program.ops.iter().take(forms.end.index()).flat_map(|op| {
        let operands = op.operands.iter().map(|operand| (operand.value, operand.pin.as_ref()));
        operands.chain([(op.result, op.result_pin.as_ref())])
    });
    let declared_shardings =
        program.values.iter_enumerated().map(|(id, value)| (id, value.declared_sharding.as_ref()));
    let pins = declared_shardings.chain(of_ops).filter_map(|(value, pin)| Some((value, pin?)));
    let uneven = pins
        .filter(|(id, pin)| {
            forms.of(*id) == MicrobatchForm::Rows && !fits(&program.values[*id].dims, pin)
        })
        .map(|(id, _)| id);
    let fault = |id: ValueId| {
        let value = &program.values[id];
        let rows = value
            .dims
            .iter()
            .find_map(|dim| parts.get(dim))
            .map_or(0, |&part| program.dims[part].size);
        MicrobatchFault::Uneven { value: value.name.clone(), span: value.span, rows }
    };
    uneven.collect::<IndexSet<ValueId>>().into_iter().map(fault).collect()
}

/// Products with the batch in declarations or outputs: which of their rows belong to a microbatch
/// depends on the other factors.
pub(super) fn without_batch(
    program: &Program,
    batch: DimId,
    parts: &Parts,
    end: OpId,
) -> Option<MicrobatchFault> {
    let read = program
        .ops
        .iter()
        .take(end.index())
        .flat_map(|op| &op.operands)
        .map(|operand| operand.value);
    let declared = read.filter(|&value| program.is_declared(value));
    let later = program
        .ops
        .iter()
        .skip(end.index())
        .flat_map(|op| &op.operands)
        .map(|operand| operand.value);
    let leaving = later.chain(
        program
            .outputs
            .iter()
            .filter(|output| program.carried_into(output).is_none())
            .map(|output| output.value),
    );
    let mut product = declared.chain(leaving).flat_map(|value| &program.values[value].dims);
    product
        .find(|&&dim| dim != batch && parts.contains_key(&dim))
        .map(|&dim| MicrobatchFault::NotPlain(dim))
}
