//! Renumbers values in the order in which parsing the printed program would number them:
//! declarations, then results, each in order of appearance; and likewise blocks.
//!
//! So a declaration between statements, or statements inserted by a pass, lead to the same tables
//! as the printed program. [`without`] takes values out of the tables, too.

use index_vec::IndexVec;
use indexmap::IndexSet;

use crate::blocks::Repeat;
use crate::ids::{RepeatId, ValueId};
use crate::program::{Blocks, Budget, Program};

/// Renumbers the values and blocks of `program`; values that are neither declared nor produced yet
/// come last.
pub fn by_appearance(program: &mut Program) {
    blocks_by_appearance(program);
    // Declarations in a block are printed there, after those outside.
    let mut declared: Vec<ValueId> =
        program.values.indices().filter(|&id| program.values[id].role.is_some()).collect();
    declared.sort_by_key(|&id| program.values[id].repeat);
    let order: IndexSet<ValueId> = declared
        .into_iter()
        .chain(program.ops.iter().map(|op| op.result))
        .chain(program.values.indices())
        .collect();
    reorder(program, &order);
    // Yielded values are printed at the end of their block, before the outputs; those yielded
    // outside all blocks are printed last.
    let Program { outputs, values, .. } = program;
    outputs.sort_by_key(|output| match (output.yields_to, values[output.value].repeat) {
        (Some(_), Some(block)) => (0, Some(block)),
        (None, _) => (1, None),
        (Some(_), None) => (2, None),
    });
}

/// Removes values that nothing names any more, and renumbers the others.
pub fn without(program: &mut Program, gone: &[ValueId]) {
    let order = program.values.indices().filter(|value| !gone.contains(value)).collect();
    reorder(program, &order);
    by_appearance(program);
}

/// Puts the values in an order; those that are missing in it are removed.
fn reorder(program: &mut Program, order: &IndexSet<ValueId>) {
    let mut new_id: IndexVec<ValueId, ValueId> = program.values.indices().collect();
    for (place, &old) in order.iter().enumerate() {
        new_id[old] = ValueId::new(place);
    }
    program.values = order.iter().map(|&old| program.values[old].clone()).collect();
    rename(program, &|id| *id = new_id[*id]);
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

/// Applies `rename` to every mention of a value.
fn rename(program: &mut Program, rename: &dyn Fn(&mut ValueId)) {
    for op in &mut program.ops {
        rename(&mut op.result);
        op.operands.iter_mut().for_each(|operand| rename(&mut operand.value));
    }
    for output in &mut program.outputs {
        rename(&mut output.value);
        output.yields_to.iter_mut().for_each(&rename);
    }
    for assert in &mut program.asserts {
        if let Budget::StaysSharded(value) = &mut assert.budget {
            rename(value);
        }
    }
    program
        .repeats
        .iter_mut()
        .flat_map(Repeat::named_values_mut)
        .flat_map(|named| &mut named.values)
        .for_each(&rename);
    program
        .repeats
        .iter_mut()
        .flat_map(|repeat| &mut repeat.kept_gathered)
        .for_each(|held| rename(&mut held.value));
    if let Some(backward) = &mut program.backward {
        rename(&mut backward.from);
        backward.given.iter_mut().for_each(&rename);
        backward.named.iter_mut().for_each(|(of, gradient)| {
            rename(of);
            rename(gradient);
        });
    }
}
