//! Products of operands in fewer than 16 bits, such as those of fp8 with wider accumulation, going
//! back.
//!
//! Forward, and what is derived:
//!
//! ```text
//! a: fp8[B, D] = x
//! w8: fp8[D, F] = w
//! h: f32[B, F] = a *D w8
//!
//! dh.1: fp8 = dh
//! dx: bf16 = dh.1 *F w8
//! dw: bf16 = a *B dh.1
//! ```
//!
//! The gradient of the result is cast to the dtype of the operands, once for both products, and
//! both run at the rate of the forward one and accumulate in more bits, as Transformer Engine and
//! `torchao` do (there in e5m2, whose exponents have the range of gradients; this language has one
//! dtype of eight bits). The gradient of an operand never has its dtype: it is that of the value
//! that was cast, else bf16 (`gradients=` of a parameter comes first). So the gradient passes
//! through a cast unchanged, and the operand and what was cast share one.
//!
//! Alternatives:
//! * The transpose of the arithmetic as written, a product of fp8 and the f32 gradient: it is exact
//!   where gradients are small, but runs at the rate of f32, four times the time of the forward
//!   product, which nobody trains with.
//! * Casting operands up to bf16 instead of the gradient down: half the rate of fp8, and a copy of
//!   each operand in twice its bytes.
//! * The dtype of the operand for its gradient, as for wider ones: sums of microbatches and devices
//!   in fp8 lose what small gradients add.

use shardwise_ir::dtype::DType;
use shardwise_ir::functions::Function;
use shardwise_ir::ids::ValueId;
use shardwise_ir::program::{Backward, MapFn, MapForm, Op, OpKind, Program};

use super::emit::Emitter;
use super::rules::GradientTerm;

/// The dtype of the gradient of a value.
pub(super) fn gradient_dtype(program: &Program, directive: &Backward, of: ValueId) -> DType {
    let value = &program.values[of];
    if !value.dtype.is_narrow_float() {
        return directive.dtype_of(value);
    }
    let cast = program.ops.iter().find(|op| op.result == of && is_cast(op));
    match cast {
        Some(op) => gradient_dtype(program, directive, op.operands[0].value),
        None => directive.dtype_of(value),
    }
}

/// Whether an operation only changes the dtype.
fn is_cast(op: &Op) -> bool {
    matches!(
        &op.kind,
        OpKind::Map(MapFn {
            form: MapForm::Cast(_) | MapForm::Call { function: Function::Copy, .. },
            ..
        })
    )
}

/// The gradient of the result of `op` as its products going back read it; `known` are formulas that
/// have a value already.
pub(super) fn cotangent(
    emitter: &mut Emitter,
    op: &Op,
    given: ValueId,
    known: &mut Vec<(GradientTerm, ValueId)>,
) -> ValueId {
    let values = &emitter.program.values;
    let operands = op.operands.iter().map(|operand| values[operand.value].dtype);
    let widest = operands.reduce(DType::promote).filter(|dtype| dtype.is_narrow_float());
    let Some(dtype) = widest.filter(|_| op.is_product()) else { return given };
    if values[given].dtype <= dtype {
        return given;
    }
    if let Some((_, value)) = known.iter().find(|(term, _)| *term == GradientTerm::Given) {
        return *value;
    }
    let value = emitter.cast(given, dtype, op.result);
    known.push((GradientTerm::Given, value));
    value
}
