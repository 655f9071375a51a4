//! Values that no kernel writes since a convolution is one kernel: windows that only products read,
//! which take them from the operand, and products of which only an `overlap` reads, which they add
//! up on the way.

use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::ids::ValueId;
use shardwise_ir::program::{Op, OpKind};
use shardwise_ir::rearrange::Rearrange;

use super::kernels::readers;

/// The values.
pub(super) type Implicit = IndexSet<ValueId, FxBuildHasher>;

/// The implicit values of a program.
pub(super) fn implicit(program: &Analyzed) -> Implicit {
    let mut found = Implicit::default();
    for op in program.ops.iter().rev().filter(|op| takes_windows(op)) {
        let reads = |reader: &Op| {
            reader.is_product() || takes_windows(reader) && found.contains(&reader.result)
        };
        let mut all = readers(program, op.result).peekable();
        let is_read = all.peek().is_some() && !leaves(program, op.result);
        if is_read && all.all(|reader| reads(&program.ops[reader])) {
            found.insert(op.result);
        }
    }
    for op in program.ops.iter().filter(|op| adds_windows(op)) {
        let value = op.operands[0].value;
        let maker = program.dataflow().definition(value).map(|of| &program.ops[of]);
        let alone = readers(program, value).count() == 1 && !leaves(program, value);
        if alone && maker.is_some_and(|of| adds_up(of) && of.phase == op.phase) {
            found.insert(value);
        }
    }
    found
}

/// Whether windows that are added up are its result, or the sums of some.
pub(super) fn adds_up(op: &Op) -> bool {
    op.is_product() || adds_windows(op)
}

/// Whether an operation takes windows.
fn takes_windows(op: &Op) -> bool {
    matches!(op.kind, OpKind::Rearrange(Rearrange::Windows(_)))
}

fn adds_windows(op: &Op) -> bool {
    matches!(op.kind, OpKind::Rearrange(Rearrange::Overlap(_)))
}

fn leaves(program: &Analyzed, value: ValueId) -> bool {
    program.dataflow().outputs_of(value).next().is_some()
}
