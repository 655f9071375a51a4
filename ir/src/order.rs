//! Values as reading a printed program numbers them: declarations, then results, each in order of appearance; and so with blocks.
//!
//! A declaration between statements, and statements that a pass puts between others, then change no table.

use index_vec::IndexVec;
use indexmap::IndexSet;

use crate::ids::{RepeatId, ValueId};
use crate::program::{Blocks, Budget, OpKind, Program};

/// Renumbers the values and blocks of `program`; what nothing declares or gives yet comes last.
pub fn by_appearance(program: &mut Program) {
    blocks_by_appearance(program);
    let declared = program.values.iter_enumerated().filter(|(_, value)| value.role.is_some()).map(|(id, _)| id);
    let order: IndexSet<ValueId> = declared.chain(program.ops.iter().map(|op| op.result)).chain(program.values.indices()).collect();
    let mut new_id: IndexVec<ValueId, ValueId> = program.values.indices().collect();
    for (place, &old) in order.iter().enumerate() {
        new_id[old] = ValueId::new(place);
    }
    program.values = order.iter().map(|&old| program.values[old].clone()).collect();
    rename(program, &|id| *id = new_id[*id]);
    // What is handed on is said where its block ends, before what leaves.
    let Program { outputs, values, .. } = program;
    outputs.sort_by_key(|output| (output.hands_to.is_none(), output.hands_to.and_then(|enters| values[enters].repeat)));
}

fn blocks_by_appearance(program: &mut Program) {
    let around = program.ops.iter().flat_map(|op| program.repeats.path(op.repeat));
    let order: IndexSet<RepeatId> = around.chain(program.repeats.indices()).collect();
    let new_id = |old: RepeatId| RepeatId::new(order.get_index_of(&old).unwrap_or_default());
    program.repeats = order.iter().map(|&old| program.repeats[old].clone()).collect();
    program.repeats.iter_mut().for_each(|repeat| {
        repeat.reversed = repeat.reversed.map(new_id);
        repeat.within = repeat.within.map(new_id);
    });
    program.ops.iter_mut().for_each(|op| op.repeat = op.repeat.map(new_id));
    program.values.iter_mut().for_each(|value| value.repeat = value.repeat.map(new_id));
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
    for output in &mut program.outputs {
        rename(&mut output.value);
        output.hands_to.iter_mut().for_each(&rename);
    }
    for assert in &mut program.asserts {
        if let Budget::StaysSharded(value) = &mut assert.budget {
            rename(value);
        }
    }
    program.repeats.iter_mut().filter_map(|repeat| repeat.kept.as_mut()).flatten().for_each(&rename);
    if let Some(backward) = &mut program.backward {
        rename(&mut backward.from);
        backward.given.iter_mut().for_each(&rename);
        backward.named.iter_mut().for_each(|(of, gradient)| {
            rename(of);
            rename(gradient);
        });
    }
}
