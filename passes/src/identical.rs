//! Statements with equal right sides, computed once.
//!
//! ```text
//! Gate = In *D W                    Gate = In *D W
//! Value = In *D W              to   Out = sigmoid(Gate) * Gate
//! Out = sigmoid(Gate) * Value
//! ```
//!
//! An author may write the same product under two names, and a gradient may be computed from what
//! the forward part has already. The second statement is left out, and what reads its result reads
//! the first one's; an output keeps its name, as a copy. The plan says so.
//!
//! It comes after gradients and updates, which are statements like the others. Each value gets the
//! number of the first one that is equal to it. Element-wise operations are numbered, so that what
//! is computed from equal ones is found, but left as they are: a kernel that computes them again
//! reads less than one that reads their result from memory. So are statements with brackets, which
//! may be there to have a value in two shardings, and what a `checkpoint` computes again, which is
//! in a block of its own. Parts of expressions are the same value from the start
//! (`resolve::links`).

use rustc_hash::{FxHashMap, FxHashSet};
use shardwise_ir::functions::Function;
use shardwise_ir::ids::{OpId, RepeatId, ValueId};
use shardwise_ir::program::{MapFn, MapForm, Op, OpKind, Operand, Program};
use shardwise_ir::{renumber, sparse};

/// A value that is not computed, since another is equal to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Once {
    /// Its name.
    pub name: String,
    /// The name of the other.
    pub equal_to: String,
}

/// The program without the statements that compute again what another one has computed, and their
/// results.
pub(crate) fn merge(mut program: Program) -> (Program, Vec<Once>) {
    let equal = equal_values(&program);
    let named = program.named_elsewhere();
    let name = |value: ValueId| program.values[value].name.clone();
    let found: Vec<(OpId, ValueId)> = program
        .ops
        .iter_enumerated()
        .filter(|(_, op)| is_costly(op))
        .filter_map(|(id, op)| Some((id, *equal.get(&op.result)?)))
        .collect();
    let once: Vec<Once> = found
        .iter()
        .map(|&(id, first)| Once { name: name(program.ops[id].result), equal_to: name(first) })
        .collect();
    if once.is_empty() {
        return (program, once);
    }
    let mut instead: FxHashMap<ValueId, ValueId> = FxHashMap::default();
    for (id, first) in found {
        let op = &mut program.ops[id];
        if named.contains(&op.result) {
            copy(op, first);
        } else {
            instead.insert(op.result, first);
        }
    }
    for operand in program.ops.iter_mut().flat_map(|op| &mut op.operands) {
        operand.value = instead.get(&operand.value).copied().unwrap_or(operand.value);
    }
    leave_out(&mut program, |value| equal.contains_key(&value) && !named.contains(&value));
    (program, once)
}

/// What an operation reads, and its block.
type Place = (Vec<ValueId>, Option<RepeatId>);

/// For each value that is equal to an earlier one, the first of these.
fn equal_values(program: &Program) -> FxHashMap<ValueId, ValueId> {
    let mut equal: FxHashMap<ValueId, ValueId> = FxHashMap::default();
    let mut seen: FxHashMap<Place, Vec<OpId>> = FxHashMap::default();
    for (id, op) in program.ops.iter_enumerated().filter(|(_, op)| is_function(op)) {
        let number = |of: &Operand| equal.get(&of.value).copied().unwrap_or(of.value);
        let place = (op.operands.iter().map(number).collect(), op.repeat);
        let before = seen.entry(place).or_default();
        match before.iter().find(|&&other| are_equal(program, &program.ops[other], op)) {
            Some(&first) => {
                equal.insert(op.result, program.ops[first].result);
            }
            None => before.push(id),
        }
    }
    equal
}

/// Whether the result follows from the operands alone, and nothing else is asked of it.
fn is_function(op: &Op) -> bool {
    let is_pure = match &op.kind {
        OpKind::Map(function) => !matches!(
            function.form,
            MapForm::LoopCarried | MapForm::Last | MapForm::Total | MapForm::Host(_)
        ),
        OpKind::Rearrange(how) => !how.collects(),
        OpKind::Collective(_) | OpKind::Opaque(_) => false,
        _ => true,
    };
    is_pure && !op.is_kept && op.result_pin.is_none()
}

/// Whether an operation costs more than its result costs to read.
fn is_costly(op: &Op) -> bool {
    match &op.kind {
        OpKind::Einsum { contracted } => !contracted.is_empty(),
        OpKind::Reduce { .. }
        | OpKind::Gather { .. }
        | OpKind::Composite { .. }
        | OpKind::Along(_)
        | OpKind::Route(_) => true,
        _ => false,
    }
}

/// Whether two operations on equal operands compute the same.
fn are_equal(program: &Program, one: &Op, other: &Op) -> bool {
    let [a, b] = [one, other].map(|op| &program.values[op.result]);
    let mut operands = one.operands.iter().zip(&other.operands);
    one.kind == other.kind
        && operands.all(|(a, b)| a.pin == b.pin)
        && a.dims == b.dims
        && a.dtype == b.dtype
        && b.declared_sharding.is_none()
}

/// Makes an operation a copy of a value.
fn copy(op: &mut Op, of: ValueId) {
    op.kind = OpKind::Map(MapFn::new(MapForm::call(Function::Copy)));
    op.operands = vec![Operand { value: of, pin: None, span: op.span }];
}

/// Removes the operations whose results may go, if nothing reads them any more.
fn leave_out(program: &mut Program, may_go: impl Fn(ValueId) -> bool) {
    let mut gone: Vec<ValueId> = Vec::new();
    let mut read: FxHashSet<ValueId> = FxHashSet::default();
    for op in program.ops.iter().rev() {
        if may_go(op.result) && !read.contains(&op.result) {
            gone.push(op.result);
        } else {
            read.extend(op.operands.iter().map(|operand| operand.value));
        }
    }
    program.ops.retain(|op| !gone.contains(&op.result));
    renumber::without(program, &gone);
    sparse::mark(program);
}
