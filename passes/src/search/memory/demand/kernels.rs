//! What kernels read from memory while their later statements run.
//!
//! What a product reads whose result stays on the chip is live until that has been read, and so on
//! ([`crate::cost::liveness`]). Where a reshard reads one of these results, it is in memory
//! instead, and what comes before it may go: then at least its smallest block is live, unless a
//! statement has read it whose result may take its place. So nothing is counted after such a
//! statement.

use indexmap::IndexSet;
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::ids::{OpId, ValueId};
use shardwise_ir::program::Op;

use super::lives::Life;
use super::{is_computed_again, smallest_block, takes_no_bytes};
use crate::problem::Problem;
use crate::training::frameworks::Frameworks;

/// For each operation, the bytes that kernels which began before read beside what is live anyway,
/// or keep of a result that is resharded.
pub(super) fn read_by_kernels(
    problem: &Problem<'_>,
    frameworks: &Frameworks,
    lives: &[Life],
) -> Vec<f64> {
    let program = problem.program;
    let until = reads_until(program);
    let mut bytes = vec![0.0; program.ops.len()];
    for (id, bytes) in program.ops.indices().zip(&mut bytes) {
        let is_begun = |op: &OpId| *op < id && until[op.index()] >= id.index();
        let begun: Vec<OpId> = program.ops.indices().take(id.index()).filter(is_begun).collect();
        if begun.is_empty() || !begun.iter().all(|&op| reads_all_to_end(&program.ops[op])) {
            continue;
        }
        let read: IndexSet<ValueId> =
            begun.iter().flat_map(|&op| read_from_memory(program, op)).collect();
        let is_counted = |life: &&Life| {
            read.contains(&life.value)
                && !life.during.contains(&id.index())
                && !life.is_read_by(id.index())
        };
        let share = |life: &Life| frameworks.share(life.value) * life.smallest;
        let read: f64 = lives.iter().filter(is_counted).map(share).sum();
        let results = begun.iter().map(|&op| program.ops[op].result);
        let results = results.map(|value| smallest_block(problem.tables, value));
        *bytes = results.fold(read, f64::min);
    }
    bytes
}

fn reads_all_to_end(op: &Op) -> bool {
    (0..op.operands.len()).all(|operand| op.kernel.reads_to_end(operand))
}

/// The last operation for which each reads its operands, where its result stays on the chip.
fn reads_until(program: &Analyzed) -> Vec<usize> {
    let mut until: Vec<usize> = (0..program.ops.len()).collect();
    for (id, op) in program.ops.iter_enumerated().rev().filter(|(_, op)| op.kernel.result_on_chip) {
        let readers = program.dataflow().uses_of(op.result).map(|(reader, _)| reader);
        let own = readers.filter(|&reader| program.ops[reader].phase == op.phase);
        until[id.index()] = own.map(|reader| until[reader.index()]).fold(id.index(), usize::max);
    }
    until
}

/// The operands that an operation reads from memory.
fn read_from_memory(program: &Analyzed, op: OpId) -> impl Iterator<Item = ValueId> {
    let operands = program.ops[op].operands.iter().map(|operand| operand.value);
    operands
        .filter(move |&value| !takes_no_bytes(program, value) && !program.is_update(value))
        .filter(move |&value| !is_computed_again(program, value, op))
}
