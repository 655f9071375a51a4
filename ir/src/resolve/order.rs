//! Declared values before results, as programs print them: a declaration between statements changes no table.

use index_vec::IndexVec;

use crate::ids::ValueId;
use crate::program::{Budget, Program, Value};

/// Renumbers the values: declared ones first, each kind in order of appearance.
pub(super) fn declared_first(program: &mut Program) {
    let (declared, results): (Vec<ValueId>, Vec<ValueId>) = program.values.indices().partition(|&id| program.values[id].producer.is_none());
    let order = [declared, results].concat();
    let mut new_id: IndexVec<ValueId, ValueId> = program.values.indices().collect();
    for (place, &old) in order.iter().enumerate() {
        new_id[old] = ValueId::new(place);
    }
    let mut values: Vec<(ValueId, Value)> = new_id.iter().copied().zip(std::mem::take(&mut program.values)).collect();
    values.sort_by_key(|&(id, _)| id);
    program.values = values.into_iter().map(|(_, value)| value).collect();
    for op in &mut program.ops {
        op.result = new_id[op.result];
        op.operands.iter_mut().for_each(|operand| operand.value = new_id[operand.value]);
    }
    program.outputs.iter_mut().for_each(|output| output.value = new_id[output.value]);
    for assert in &mut program.asserts {
        if let Budget::StaysSharded(value) = &mut assert.budget {
            *value = new_id[*value];
        }
    }
}
