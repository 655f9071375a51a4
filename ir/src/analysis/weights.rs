//! Weights, which are parameters and what is computed from parameters only, and their products.

use index_vec::IndexVec;

use crate::Role;
use crate::ids::ValueId;
use crate::program::{MapForm, Op, OpKind, Program};

/// For each value, whether it is a parameter or computed from parameters only.
pub fn weights(program: &Program) -> IndexVec<ValueId, bool> {
    let mut weights: IndexVec<ValueId, bool> =
        program.values.iter().map(|value| value.role == Some(Role::Param)).collect();
    for op in program.ops.iter().filter(|op| !op.operands.is_empty()) {
        if !program.values[op.result].is_declared() {
            weights[op.result] = op.operands.iter().all(|operand| weights[operand.value]);
        }
    }
    weights
}

/// For each value, the one that it is in another dtype: itself, or what it was cast from.
pub fn uncast(program: &Program) -> IndexVec<ValueId, ValueId> {
    let is_cast = |op: &Op| match &op.kind {
        OpKind::Map(function) => matches!(function.form, MapForm::Cast(_)),
        _ => false,
    };
    let mut of: IndexVec<ValueId, ValueId> = program.values.indices().collect();
    for op in program.ops.iter().filter(|op| is_cast(op)) {
        of[op.result] = of[op.operands[0].value];
    }
    of
}

impl Program {
    /// Whether an operation is a product of which each operand has a dimension that the other one
    /// has not.
    pub fn is_matrix_product(&self, op: &Op) -> bool {
        let dims = |operand: usize| &self.values[op.operands[operand].value].dims;
        let has_own =
            |one: usize, other: usize| dims(one).iter().any(|dim| !dims(other).contains(dim));
        op.is_product() && has_own(0, 1) && has_own(1, 0)
    }
}
