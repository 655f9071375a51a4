//! What serving engines run otherwise than other programs, as far as a program says it: prompts,
//! whose kernels no graph has captured, and the products of experts, one for all of them.

use index_vec::IndexVec;
use rustc_hash::FxHashSet;
use shardwise_ir::Role;
use shardwise_ir::ids::{DimId, ValueId};
use shardwise_ir::program::{Op, OpKind, Operand, Program};

/// The most tokens that are drafted for one sequence in a step of decode.
const MOST_DRAFTED: u64 = 16;

/// Whether many tokens of one sequence look at others, of this step or of a cache: the prompts of
/// prefill, whole or in chunks. A step of decode has one for each sequence, or a few that are
/// drafted.
pub(super) fn reads_prompts(program: &Program) -> bool {
    let params = program.values.iter().filter(|value| value.role == Some(Role::Param));
    let of_params: FxHashSet<DimId> = params.flat_map(|value| value.dims.iter().copied()).collect();
    let has_tokens = has_tokens(program);
    let dims = |operand: &Operand| &program.values[operand.value].dims;
    let has_rows = |of: &Operand, other: &Operand| {
        let own = dims(of).iter().filter(|dim| !dims(other).contains(dim));
        let mut rows = own.filter(|dim| !of_params.contains(dim));
        rows.any(|&dim| program.dims[dim].size > MOST_DRAFTED)
    };
    let mut products = program.ops.iter().filter_map(pair);
    products.any(|(one, other)| {
        let are_tokens = has_tokens[one.value] && has_tokens[other.value];
        are_tokens && has_rows(one, other) && has_rows(other, one)
    })
}

/// Marks products with a weight for each of several experts: tokens and weights have a dimension in
/// common that no product with a weight sums over, as those of heads do.
pub(super) fn mark_experts(program: &mut Program) {
    let has_tokens = has_tokens(program);
    let with_weights = |op: &Op| {
        pair(op).is_some_and(|(one, other)| has_tokens[one.value] != has_tokens[other.value])
    };
    let summed: FxHashSet<DimId> = program
        .ops
        .iter()
        .filter(|op| with_weights(op))
        .filter_map(|op| {
            if let OpKind::Einsum { contracted } = &op.kind { Some(contracted) } else { None }
        })
        .flatten()
        .copied()
        .collect();
    let dims = |value: ValueId| &program.values[value].dims;
    let is_of_experts = |op: &Op| {
        let (one, other) = pair(op)?;
        let mut both = dims(one.value).iter().filter(|dim| dims(other.value).contains(dim));
        let is_one = both.any(|dim| dims(op.result).contains(dim) && !summed.contains(dim));
        Some(is_one && with_weights(op))
    };
    let marks: Vec<bool> =
        program.ops.iter().map(|op| is_of_experts(op).unwrap_or(false)).collect();
    for (op, mark) in program.ops.iter_mut().zip(marks) {
        op.kernel.is_of_experts = mark;
    }
}

/// The operands of a product of two.
fn pair(op: &Op) -> Option<(&Operand, &Operand)> {
    match &op.operands[..] {
        [one, other] if op.is_product() => Some((one, other)),
        _ => None,
    }
}

/// Whether values depend on anything but parameters.
fn has_tokens(program: &Program) -> IndexVec<ValueId, bool> {
    let is_given = |role: Role| role != Role::Param;
    let mut has_tokens: IndexVec<ValueId, bool> =
        program.values.iter().map(|value| value.role.is_some_and(is_given)).collect();
    for op in &program.ops {
        has_tokens[op.result] |= op.operands.iter().any(|operand| has_tokens[operand.value]);
    }
    has_tokens
}
