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
//! So a collective inside a kernel is priced as if the kernel went on after it: what it moves is
//! priced as moved, and not as written and read once more. That is exact for chains without
//! collectives, and one pass over the value too cheap for others.
//!
//! A plan names the kernels of its statements (`in k1`), since a composite that it writes out would
//! be fused otherwise than the composite was.
//!
//! Operations are taken in program order, and each joins the kernel of an operand, the one that is
//! produced last first: whatever else it reads is there by then.

mod attention;
mod kernels;
mod parts;
mod recompute;

use index_vec::IndexVec;
use shardwise_ir::Role;
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::ids::OpId;
use shardwise_ir::program::{Fusion, Mode, Phase, Program};
use shardwise_ir::rates::Rates;

use kernels::Kernels;
pub(crate) use kernels::is_element_wise;

/// The program with each operation's place in its kernel, and with rates that its chip sustains.
pub fn with_kernels(mut program: Program) -> Program {
    program.hardware.is_training = program.hardware.rates == Rates::Measured
        && program.ops.iter().any(|op| op.phase == Phase::Backward);
    program.hardware.is_serving = program.hardware.rates == Rates::Measured
        && !program.hardware.is_training
        && program.values.iter().any(|value| value.role == Some(Role::Param));
    if program.fusion == Fusion::None {
        return program;
    }
    let program = Analyzed::from(program);
    let given: IndexVec<OpId, Option<u32>> =
        program.ops.iter().map(|op| op.kernel.number).collect();
    let is_given = program.mode == Mode::Explicit && given.iter().any(Option::is_some);
    let numbers = if is_given { given } else { chosen(&program) };
    let parts = parts::parts(&program, &numbers);
    let mut program = program.into_program();
    for (op, part) in program.ops.iter_mut().zip(parts) {
        op.kernel = part;
    }
    program
}

/// The number of each operation's kernel, where the program does not name it.
fn chosen(program: &Analyzed) -> IndexVec<OpId, Option<u32>> {
    let mut kernels = Kernels::new(program);
    if program.fusion == Fusion::Attention {
        attention::join(&mut kernels);
    }
    for op in program.ops.indices() {
        kernels.join_operands(op);
    }
    kernels.numbers()
}
