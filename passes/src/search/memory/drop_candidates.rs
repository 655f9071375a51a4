//! Values that may be dropped and gathered again.

use indexmap::IndexSet;
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::ids::{OpId, ValueId};
use shardwise_ir::program::{Op, Phase};
use shardwise_ir::sharding::Sharding;
use shardwise_ir::unroll::is_loop_exit;

use crate::layouts::local_shape;
use crate::training::frameworks::{kept_gathered, regathered};

/// Values that more than one part of the program uses, or more than one microbatch, the largest
/// first; without those of which the program says what happens.
pub(crate) fn drop_candidates(program: &Analyzed) -> Vec<ValueId> {
    let (regathered, kept) = (regathered(program), kept_gathered(program));
    let readers = program.ops.iter().filter(|op| !is_loop_exit(op));
    let used: IndexSet<ValueId> =
        readers.flat_map(Op::sharded_operands).map(|operand| operand.value).collect();
    let comes_again = |value: ValueId| {
        program.is_shared(value) && program.is_microbatched(program.values[value].repeat)
    };
    let mut values: Vec<ValueId> = used
        .into_iter()
        .filter(|&value| is_used_in_another_part(program, value) || comes_again(value))
        .filter(|value| !regathered.contains(value) && !kept.contains(value))
        .collect();
    let bytes = |value: ValueId| {
        local_shape::local_bytes(
            program,
            value,
            &Sharding::replicated(program.values[value].dims.len()),
        )
    };
    values.sort_by(|&a, &b| bytes(b).total_cmp(&bytes(a)));
    values
}

/// Whether a part of the program uses a value of another part: parts are blocks, and forward and
/// backward.
fn is_used_in_another_part(program: &Analyzed, value: ValueId) -> bool {
    let part = |op: OpId| (program.ops[op].repeat, program.ops[op].phase == Phase::Backward);
    let definition = program.dataflow().definition(value);
    let given = definition.map_or((program.values[value].repeat, false), part);
    program.dataflow().uses_of(value).any(|(id, position)| {
        let op = &program.ops[id];
        !is_loop_exit(op) && position < op.sharded_operands().len() && part(id) != given
    })
}
