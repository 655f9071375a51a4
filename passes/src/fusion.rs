//! Which operations run as one kernel, as XLA, Inductor and flash attention make them.
//!
//! A kernel reads its inputs and writes its results once; what its operations yield to each other
//! stays on the chip. It has at most one product, norm or lookup, or reductions of one block,
//! around which element-wise operations are computed: those whose result it reads, and those that
//! read its result. Attention is one kernel: its scores are neither written nor kept, and going
//! back they are computed again from its operands. What is element-wise is computed again going
//! back (`recompute.rs`).
//!
//! Kernels are chosen before shardings, from the program alone. Alternatives:
//! * to choose them after, on the plan: the search would not know what a layout costs, and a
//!   collective inside a chain would make a plan costlier than its bound;
//! * to choose them together with shardings: the price of an operation would depend on the layouts
//!   of its neighbours, and every table of the search would grow by that product.
//!
//! A cast that widens what is in memory, as quantised weights and caches are, belongs to each
//! product and attention kernel that reads it (`conversions.rs`).
//!
//! So a collective inside a kernel is priced as if the kernel went on after it: what it moves is
//! priced as moved, and not as written and read once more. That is exact for chains without
//! collectives, and one pass over the value too cheap for others.
//!
//! A plan names the kernels of its statements (`in k1`), since a composite that it writes out would
//! be fused otherwise than the composite was.
//!
//! Operations are taken in program order, and each joins the kernel of an operand, the one that is
//! produced last first: whatever else it reads is there by then. Then some move to the kernel that
//! reads their result (`kernels/moves.rs`).

mod attention;
mod conversions;
mod implicit;
mod kernels;
mod parts;
mod recompute;
mod serving;

use index_vec::IndexVec;
use indexmap::IndexMap;
use shardwise_ir::Role;
use shardwise_ir::Span;
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::hardware::Workload;
use shardwise_ir::ids::OpId;
use shardwise_ir::program::{Fusion, KernelPart, Mode, Phase, Program};

use conversions::Conversions;
pub(crate) use conversions::after_reshards;
use kernels::Kernels;
pub(crate) use kernels::is_element_wise;
use recompute::keeps_operands;

/// Two statements that a plan puts into one kernel, and that cannot run as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelFault {
    /// The number of the kernel.
    pub number: u32,
    /// Its first statement.
    pub first: Span,
    /// The first one that cannot be part of it.
    pub other: Span,
}

/// The program with each operation's place in its kernel, and with rates that its chip sustains.
pub fn with_kernels(mut program: Program) -> Result<Program, KernelFault> {
    program.hardware.workload = workload(&program);
    serving::mark_experts(&mut program);
    if program.fusion == Fusion::None {
        return Ok(program);
    }
    let program = Analyzed::from(program);
    let given: IndexVec<OpId, Option<u32>> =
        program.ops.iter().map(|op| op.kernel.number).collect();
    let is_given = program.mode == Mode::Explicit && given.iter().any(Option::is_some);
    if let Some(fault) = Some(&given).filter(|_| is_given).and_then(|given| fault(&program, given))
    {
        return Err(fault);
    }
    let numbers = if is_given { given } else { chosen(&program) };
    let converted = conversions::written_conversions(&program);
    let mut assigned = Program::clone(&program);
    assign(&program, &mut assigned, &numbers, converted);
    Ok(assigned)
}

/// Notes in a program, with whose dataflow `program` comes, the place of each operation in its
/// kernel, and the values that kernels convert.
fn assign(
    program: &Analyzed,
    into: &mut Program,
    numbers: &IndexVec<OpId, Option<u32>>,
    converted: Conversions,
) {
    let parts = parts::parts(program, numbers, &converted);
    for (op, part) in into.ops.iter_mut().zip(parts) {
        op.kernel = KernelPart { is_of_experts: op.kernel.is_of_experts, ..part };
    }
    for (id, value) in into.values.iter_mut_enumerated() {
        value.stored_as = converted.get(&id).copied();
    }
}

/// What the program does; a step of training saves memory if it was asked to.
fn workload(program: &Program) -> Workload {
    let has_weights = program.values.iter().any(|value| value.role == Some(Role::Param));
    if program.ops.iter().any(|op| op.phase == Phase::Backward) {
        let saves_memory = program.hardware.saves_memory();
        Workload::Training { saves_memory, has_weights }
    } else if has_weights {
        Workload::Serving { reads_prompts: serving::reads_prompts(program) }
    } else {
        Workload::Other
    }
}

/// The same program with what products read going back computed again and without copies of logits,
/// where frameworks keep both.
pub fn saving_memory(program: &Program) -> Option<Program> {
    let again = |program: &Program| {
        let mut again = program.clone();
        if let Workload::Training { saves_memory, .. } = &mut again.hardware.workload {
            *saves_memory = true;
        }
        with_kernels(again).ok()
    };
    keeps_operands(program).then(|| again(program))?
}

/// The first kernel of a plan that fusion would not make, whether it fuses attention or not.
fn fault(program: &Analyzed, given: &IndexVec<OpId, Option<u32>>) -> Option<KernelFault> {
    let is_one = |one: OpId, other: OpId| given[one].is_some() && given[one] == given[other];
    let joined = |fusion: Fusion| {
        let mut kernels = Kernels::new(program);
        if fusion == Fusion::Attention {
            attention::join(&mut kernels);
        }
        program.ops.indices().for_each(|op| kernels.join_operands(op, is_one));
        kernels.move_as_given(is_one);
        kernels
    };
    let allowed = [Fusion::ElementWise, Fusion::Attention].map(joined);
    let mut groups: IndexMap<u32, Vec<OpId>> = IndexMap::new();
    for (op, &number) in given.iter_enumerated() {
        if let Some(number) = number {
            groups.entry(number).or_default().push(op);
        }
    }
    groups.iter().find_map(|(&number, ops)| {
        let first = ops[0];
        let apart = |kernels: &Kernels<'_>| {
            ops.iter().copied().find(|&other| !kernels.are_one(first, other))
        };
        let other = allowed.iter().map(apart).reduce(Option::and).flatten()?;
        let span = |op: OpId| program.ops[op].span;
        let fault = KernelFault { number, first: span(first), other: span(other) };
        (!attention::is_attention(program, ops)).then_some(fault)
    })
}

/// The number of each operation's kernel, where the program does not name it.
fn chosen(program: &Analyzed) -> IndexVec<OpId, Option<u32>> {
    let mut kernels = Kernels::new(program);
    if program.fusion == Fusion::Attention {
        attention::join(&mut kernels);
    }
    let converted = conversions::conversions(program);
    let is_apart = |op: OpId| !converted.contains_key(&program.ops[op].result);
    for op in program.ops.indices() {
        kernels.join_operands(op, |one, other| is_apart(one) && is_apart(other));
    }
    kernels.move_to_readers();
    kernels.numbers()
}
