//! Element-wise results that the backward part computes again rather than keeping them.
//!
//! A result of the forward part that the backward part reads has to be kept from one to the other,
//! for every layer, unless it is cheap to compute again: element-wise or a norm, from values that
//! are kept anyway. A gated MLP keeps what its two products yield, and neither the activation nor
//! what goes into the third. Compilers and hand-written kernels do the same.
//!
//! What a `checkpoint` names is kept, since its author says so.
//!
//! Scores of attention, whatever element-wise functions stand between product and softmax, are not
//! of these: the kernels going back that read them compute them again, from its first products on,
//! and nothing of their size is there for others. What is computed from them, as maxima and sums
//! are, is kept.
//!
//! Where rates are measured, what products read going back is kept as well: a kernel of its own
//! would have to write it again before the product reads it, so that frameworks keep it.
//! (`PyTorch`'s partitioner does not compute again what "is materialized backwards"; autograd keeps
//! operands of products, and so does Megatron.) A Llama layer then keeps 16.2 values for each token
//! and model dimension. Where that does not fit into memory, it is computed again
//! (`Workload::Training`), as under a memory budget of `PyTorch` or XLA.
//!
//! Alternatives: to choose what is kept by a minimum cut, as Inductor does, may keep fewer bytes
//! where values of several sizes lie on one path; it would decide by whole sizes, before it is
//! known how values are sharded. To leave the choice to `checkpoint` alone keeps 20.8 values for
//! each token and model dimension of a Llama layer, where frameworks keep 11.5.

use index_vec::IndexVec;
use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::ids::{OpId, ValueId};
use shardwise_ir::program::{Op, OpKind, Phase, Program};
use shardwise_ir::rates::Rates;

use super::implicit::{Implicit, adds_up};
use super::kernels::is_element_wise;

/// For each operation, whether the backward part computes its result again.
pub(super) fn recomputed(
    program: &Analyzed,
    implicit: &Implicit,
    scores: &IndexSet<ValueId, FxBuildHasher>,
) -> IndexVec<OpId, bool> {
    // The values that the backward part has, kept or computed again.
    let mut is_there: IndexVec<ValueId, bool> =
        program.values.iter().map(shardwise_ir::program::Value::is_declared).collect();
    let mut again: IndexVec<OpId, bool> = program.ops.iter().map(|_| false).collect();
    let keeps_operands = keeps_operands(program);
    let given = |(_, op): &(OpId, &Op)| {
        op.phase == Phase::Forward && !op.is_reshard() && !scores.contains(&op.result)
    };
    for (id, op) in program.ops.iter_enumerated().filter(given) {
        let from_there =
            !op.loads_operands() || op.operands.iter().all(|operand| is_there[operand.value]);
        let is_kept = leaves(program, op.result)
            || is_named(program, op)
            || keeps_operands
                && !is_implicit(op, implicit)
                && is_multiplied_going_back(program, op.result);
        let is_cheap = is_cheap(program, op)
            || is_implicit(op, implicit) && is_read_going_back(program, op.result, implicit);
        again[id] = from_there && is_cheap && !is_kept;
        is_there[op.result] = again[id] || is_read_going_back(program, op.result, implicit);
    }
    again
}

/// Whether what products read going back is kept: as frameworks do, where memory allows.
pub(crate) fn keeps_operands(program: &Program) -> bool {
    let hardware = &program.hardware;
    hardware.rates == Rates::Measured && hardware.is_training() && !hardware.saves_memory()
}

/// Whether a product of the backward part reads a value, under this name or another one. Sums of
/// element-wise products, such as gradients of scales, are no kernels of their own.
fn is_multiplied_going_back(program: &Analyzed, value: ValueId) -> bool {
    program.dataflow().uses_of(value).any(|(reader, _)| {
        let op = &program.ops[reader];
        op.phase == Phase::Backward && program.is_matrix_product(op)
            || op.is_view() && is_multiplied_going_back(program, op.result)
    })
}

/// Whether an operation is computed again at no cost: element by element, or as a reduction or
/// norm, whose sums are small.
fn is_cheap(program: &Analyzed, op: &Op) -> bool {
    is_element_wise(program, op)
        || matches!(op.kind, OpKind::Reduce { .. } | OpKind::Composite { .. })
}

/// Whether a `checkpoint` names the result: then it is kept.
pub(super) fn is_named(program: &Analyzed, op: &Op) -> bool {
    let checkpoint = op.repeat.and_then(|block| program.repeats[block].checkpoint.as_ref());
    let named = checkpoint.filter(|checkpoint| !checkpoint.recomputes_named);
    op.is_kept || named.is_some_and(|checkpoint| checkpoint.named.values.contains(&op.result))
}

pub(super) fn leaves(program: &Analyzed, value: ValueId) -> bool {
    program.dataflow().outputs_of(value).next().is_some()
}

/// Whether an operation takes windows or converts values, neither of which are written: going back,
/// too, they are read from what they are of.
fn is_implicit(op: &Op, implicit: &Implicit) -> bool {
    !adds_up(op) && !op.is_reshard() && implicit.contains(&op.result)
}

fn is_read_going_back(program: &Analyzed, value: ValueId, implicit: &Implicit) -> bool {
    let reads = |op: &Op| {
        op.phase == Phase::Backward && op.loads_operands()
            || is_implicit(op, implicit) && is_read_going_back(program, op.result, implicit)
    };
    program.dataflow().uses_of(value).any(|(reader, _)| reads(&program.ops[reader]))
}
