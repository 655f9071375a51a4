//! Values as reading a printed program numbers them: declarations, then results, each in order of appearance.
//!
//! A declaration between statements, and statements that a pass puts between others, then change no table.

use index_vec::IndexVec;
use indexmap::IndexSet;

use crate::ids::ValueId;
use crate::program::{Budget, OpKind, Program};

/// Renumbers the values of `program`; what nothing declares or gives yet comes last.
pub fn by_appearance(program: &mut Program) {
    let declared = program.values.iter_enumerated().filter(|(_, value)| value.role.is_some()).map(|(id, _)| id);
    let order: IndexSet<ValueId> = declared.chain(program.ops.iter().map(|op| op.result)).chain(program.values.indices()).collect();
    let mut new_id: IndexVec<ValueId, ValueId> = program.values.indices().collect();
    for (place, &old) in order.iter().enumerate() {
        new_id[old] = ValueId::new(place);
    }
    program.values = order.iter().map(|&old| program.values[old].clone()).collect();
    rename(program, &|id| *id = new_id[*id]);
}

/// Notes for every value the operation that gives it, where operations have changed places.
pub fn find_producers(program: &mut Program) {
    for (id, op) in program.ops.iter_enumerated().rev() {
        let moves = matches!(op.kind, OpKind::Collective(_)) && op.operands[0].value == op.result;
        if !moves {
            program.values[op.result].producer = Some(id);
        }
    }
}

/// Applies `rename` to every mention of a value.
fn rename(program: &mut Program, rename: &dyn Fn(&mut ValueId)) {
    for op in &mut program.ops {
        rename(&mut op.result);
        op.operands.iter_mut().for_each(|operand| rename(&mut operand.value));
    }
    program.outputs.iter_mut().for_each(|output| rename(&mut output.value));
    for assert in &mut program.asserts {
        if let Budget::StaysSharded(value) = &mut assert.budget {
            rename(value);
        }
    }
    if let Some(backward) = &mut program.backward {
        rename(&mut backward.from);
        backward.given.iter_mut().for_each(&rename);
        backward.named.iter_mut().for_each(|(of, gradient)| {
            rename(of);
            rename(gradient);
        });
    }
}
