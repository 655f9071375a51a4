//! Data that meet the numbers with which a program compares and limits values.
//!
//! Data that meet none of them take the same side of every comparison, and a plan that compares
//! with another number would be right.
//!
//! * Integers are mostly compared: with a number of the program, as `tokens != 0` is in a padding
//!   mask, with each other, or with positions. So half of them are numbers of the program, and
//!   others are beside these or small. Large ones are left out where more than comparisons read the
//!   value: the exponential of a thousand is infinite. Weights of products are not compared, and
//!   stay fractions, whose scale is free.
//! * Fractions are larger than the numbers that limit them, as in `minimum(x, 6.0)`, where these
//!   are small: after some layers, exponentials of large ones are infinite, too.

use shardwise_ir::dtype::DType;
use shardwise_ir::functions::{Function, ResultType};
use shardwise_ir::ids::ValueId;
use shardwise_ir::program::{MapForm, Op, OpKind, Program};

use super::evaluate::{self, LARGEST};

/// The largest number of a program that other operations than comparisons read.
const MOST: f64 = 64.0;

/// The largest number that fractions exceed.
const MOST_EXCEEDED: f64 = 8.0;

/// What fractions and products are scaled by, a power of two: one, unless the program limits values
/// to more than that.
pub(super) fn magnitude(program: &Program) -> f64 {
    let limits = program.ops.iter().filter(|op| is_limit(op)).flat_map(numbers_of);
    let exceeded = limits.map(f64::abs).filter(|&limit| limit <= MOST_EXCEEDED);
    let largest = exceeded.fold(0.25, f64::max);
    (4.0 * largest).log2().floor().exp2()
}

/// The numbers of which the elements of a declared value are, if these are whole: as many elements
/// are of one list as of the other.
pub(super) fn numbers(program: &Program, value: ValueId) -> Option<[Vec<f64>; 2]> {
    let dtype = program.values[value].dtype;
    if dtype == DType::Bool {
        return Some([vec![0.0], vec![1.0]]);
    }
    if dtype.is_float() || is_weight(program, value) {
        return None;
    }
    let is_compared = program.ops.iter().filter(|op| is_read(op, value)).all(is_comparison);
    let wants_positive = program.ops.iter().any(|op| evaluate::wants_positive(&op.kind));
    let most = if is_compared { largest(dtype) } else { MOST };
    let least = if wants_positive && !is_compared { 1.0 } else { -most };
    let is_possible = |number: &f64| (least..=most).contains(number);
    let mut written: Vec<f64> = program.ops.iter().flat_map(whole_numbers).collect();
    let beside = written.iter().flat_map(|number| [number - 1.0, number + 1.0]);
    let small = -LARGEST as i64..=LARGEST as i64;
    let others: Vec<f64> =
        beside.chain(small.map(|number| number as f64)).filter(is_possible).collect();
    written.retain(is_possible);
    let first = if written.is_empty() { others.clone() } else { written };
    Some([first, others])
}

/// Whether a product sums over a value, as it is or in another type or layout.
fn is_weight(program: &Program, value: ValueId) -> bool {
    let mut readers = program.ops.iter().filter(|op| is_read(op, value));
    readers.any(|op| match &op.kind {
        OpKind::Einsum { contracted } => !contracted.is_empty(),
        OpKind::Rearrange(_) => is_weight(program, op.result),
        OpKind::Map(function) => {
            matches!(function.form, MapForm::Cast(_) | MapForm::ScaleBy(_))
                && is_weight(program, op.result)
        }
        _ => false,
    })
}

fn is_read(op: &Op, value: ValueId) -> bool {
    op.operands.iter().any(|operand| operand.value == value)
}

/// Whether an operation says of each element what is true of it.
fn is_comparison(op: &Op) -> bool {
    match &op.kind {
        OpKind::Map(function) => match &function.form {
            MapForm::Call { function, .. } => function.row().result == ResultType::Bool,
            _ => false,
        },
        _ => false,
    }
}

/// Whether an operation compares or limits elements.
fn is_limit(op: &Op) -> bool {
    let OpKind::Map(function) = &op.kind else { return false };
    let is_limiting =
        |function: Function| matches!(function, Function::Maximum | Function::Minimum);
    is_comparison(op)
        || matches!(function.form, MapForm::Call { function, .. } if is_limiting(function))
}

/// The whole numbers with which an operation compares, or which it adds and subtracts before.
fn whole_numbers(op: &Op) -> impl Iterator<Item = f64> {
    let is_call = matches!(&op.kind, OpKind::Map(of) if matches!(of.form, MapForm::Call { .. }));
    let numbers = if is_call && !is_comparison(op) { Vec::new() } else { numbers_of(op) };
    numbers.into_iter().filter(|number| number.fract().abs() <= 0.0)
}

/// The numbers that an operation has as arguments.
fn numbers_of(op: &Op) -> Vec<f64> {
    let OpKind::Map(function) = &op.kind else { return Vec::new() };
    let written = match &function.form {
        MapForm::Call { numbers, .. } => numbers.as_slice(),
        MapForm::InfixScalar(_, number)
        | MapForm::ScalarInfix(number, _)
        | MapForm::Constant { number, .. } => std::slice::from_ref(number),
        _ => &[],
    };
    written.iter().filter_map(|number| number.parse().ok()).collect()
}

/// The largest number of a type of integers.
fn largest(dtype: DType) -> f64 {
    f64::from(dtype.bits() - 1).exp2() - 1.0
}
