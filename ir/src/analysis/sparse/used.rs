//! The elements of each value that are read.

use index_vec::IndexVec;

use super::mask::{Mask, Pattern};
use super::patterns::is_move;
use crate::functions::{Arithmetic, Function};
use crate::ids::ValueId;
use crate::program::{Linearity, MapForm, Op, OpKind, Program};

/// The elements of a value that are read.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Used {
    /// None so far.
    Nothing,
    /// Those that a mask leaves.
    Left(Mask),
    /// All.
    All,
}

impl Used {
    pub(super) fn mask(self) -> Option<Mask> {
        match self {
            Self::Left(mask) => Some(mask),
            Self::Nothing | Self::All => None,
        }
    }

    /// What two readers use: where they differ, as much as the one that reads more.
    fn and(self, other: Self, program: &Program) -> Self {
        match (self, other) {
            (Self::Nothing, used) | (used, Self::Nothing) => used,
            (Self::Left(a), Self::Left(b)) => {
                let (of_a, of_b) = (a.share(program).of_all, b.share(program).of_all);
                Self::Left(if of_b > of_a { b } else { a })
            }
            _ => Self::All,
        }
    }
}

/// The elements of each value that are used: all, unless every use masks it, multiplies it by
/// zeros, or passes it to what is used in part.
pub(super) fn used(
    program: &Program,
    patterns: &IndexVec<ValueId, Option<Pattern>>,
) -> IndexVec<ValueId, Used> {
    let mut used: IndexVec<ValueId, Used> =
        IndexVec::from(vec![Used::Nothing; program.values.len()]);
    program.outputs.iter().for_each(|output| used[output.value] = Used::All);
    for op in program.ops.iter().rev().filter(|op| !is_move(op)) {
        for (k, operand) in op.operands.iter().enumerate() {
            let dims = &program.values[operand.value].dims;
            let masks = left_of_operand(program, patterns, op, k, used[op.result]);
            let Some(masks) = masks else { continue };
            let mask = masks
                .into_iter()
                .filter(|mask| mask.is_along(dims))
                .min_by(|a, b| a.share(program).of_all.total_cmp(&b.share(program).of_all));
            let read = mask.map_or(Used::All, Used::Left);
            used[operand.value] = used[operand.value].and(read, program);
        }
    }
    used
}

/// The masks that leave what an operation reads of its operand `k`, where so much of its result is
/// used; `None` where it reads only the shape.
fn left_of_operand(
    program: &Program,
    patterns: &IndexVec<ValueId, Option<Pattern>>,
    op: &Op,
    k: usize,
    of_result: Used,
) -> Option<Vec<Mask>> {
    let mut masks: Vec<Mask> = of_result.mask().into_iter().collect();
    match &op.kind {
        OpKind::Map(function) => match &function.form {
            MapForm::Position(_) | MapForm::Call { function: Function::Ones, .. } => return None,
            MapForm::LoopCarried | MapForm::Last | MapForm::Total | MapForm::Host(_) => {
                return Some(Vec::new());
            }
            // What masks its operand has the pattern itself.
            MapForm::Causal { .. } | MapForm::Call { function: Function::Select, .. } => {
                masks.extend(patterns[op.result].map(|pattern| pattern.mask));
            }
            // What is added to masked elements is not read.
            MapForm::Infix(Arithmetic::Add) => {
                let masked = patterns[op.result].filter(|pattern| !pattern.is_zero());
                masks.extend(masked.map(|pattern| pattern.mask));
            }
            // `dtanh(x, dy)`: of `x`, what `dy` leaves.
            MapForm::Call { function, .. } if function.row().linearity == Linearity::Last => {
                let (last, others) = op.operands.split_last()?;
                let zero = patterns[last.value].filter(Pattern::is_zero);
                masks.extend(zero.filter(|_| k < others.len()).map(|pattern| pattern.mask));
            }
            _ => {}
        },
        OpKind::Einsum { .. } => {
            let others = op.operands.iter().enumerate().filter(|(other, _)| *other != k);
            let zeros = others.filter_map(|(_, other)| patterns[other.value]);
            let zeros: Vec<Mask> = zeros.filter(Pattern::is_zero).map(|it| it.mask).collect();
            masks.extend(zeros.iter().filter_map(|mask| mask.without_tokens(program)));
            masks.extend(zeros);
        }
        OpKind::Collective(_) => {}
        _ => return Some(Vec::new()),
    }
    Some(masks)
}
