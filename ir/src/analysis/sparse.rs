//! Finds products that count only a share of their terms: those of causal attention, half of whose
//! terms are masked, and those with a routing mask, which selects few slots per token.
//!
//! No annotations are needed. A product with an operand that is zero in a known pattern skips
//! the terms of these zeros; so does a product whose result is only read where such a pattern is
//! nonzero (scores before `causal`, gradients of combine weights). The patterns are inferred from
//! the statements, so they are found in a plan too, where a softmax may be expanded. Only products
//! with a contraction are counted this way: element-wise operations are small in comparison, and on
//! most hardware touch every element anyway.

use index_vec::IndexVec;

use crate::functions::{Arithmetic, Masked};
use crate::ids::{DimId, ValueId};
use crate::program::{Fill, MapForm, Op, OpKind, Program};

/// A pattern along some dimensions, and the value of masked elements. A value without one of the
/// dimensions does not have the pattern.
#[derive(Clone, Copy, PartialEq)]
struct Pattern {
    dims: [DimId; 3],
    /// The share of elements that are not masked.
    share: f64,
    fill: Fill,
}

/// Sets the share of its terms that every operation computes.
pub fn mark(program: &mut Program) {
    let patterns = patterns(program);
    if patterns.iter().all(Option::is_none) {
        return;
    }
    let looked_at = looked_at(program, &patterns);
    for op in &mut program.ops {
        if op.is_product() {
            let zeros = op
                .operands
                .iter()
                .filter_map(|operand| patterns[operand.value].filter(Pattern::is_zero));
            op.share = zeros.map(|pattern| pattern.share).fold(looked_at[op.result], f64::min);
        }
    }
}

impl Pattern {
    fn is_zero(&self) -> bool {
        self.fill == Fill::Zero
    }

    fn zero(self) -> Self {
        Self { fill: Fill::Zero, ..self }
    }

    fn is_along(&self, dims: &[DimId]) -> bool {
        self.dims.iter().all(|dim| dims.contains(dim))
    }
}

/// Half of all pairs of a query and a key, or those slots of experts that a token is sent to.
fn own(program: &Program, op: &Op) -> Option<Pattern> {
    match &op.kind {
        OpKind::Map(function) => match function.form {
            MapForm::Causal { query, key, fill } => {
                Some(Pattern { dims: [query, key, key], share: 0.5, fill })
            }
            _ => None,
        },
        OpKind::Route(route) => {
            let slots =
                program.dims[route.experts].size as f64 * program.dims[route.capacity].size as f64;
            let share = (route.choices as f64 / slots).min(1.0);
            Some(Pattern {
                dims: [route.tokens, route.experts, route.capacity],
                share,
                fill: Fill::Zero,
            })
        }
        _ => None,
    }
}

fn patterns(program: &Program) -> IndexVec<ValueId, Option<Pattern>> {
    let mut patterns: IndexVec<ValueId, Option<Pattern>> =
        program.values.iter().map(|_| None).collect();
    for op in program.ops.iter().filter(|op| !is_move(op)) {
        let operands: Vec<Option<Pattern>> =
            op.operands.iter().map(|operand| patterns[operand.value]).collect();
        let dims = &program.values[op.result].dims;
        patterns[op.result] = own(program, op)
            .or_else(|| passed(op, &operands))
            .filter(|pattern| pattern.is_along(dims));
    }
    patterns
}

/// Whether an operation only reshards its operand.
fn is_move(op: &Op) -> bool {
    matches!(op.kind, OpKind::Collective(_)) && op.operands[0].value == op.result
}

/// The pattern of a result, from those of the operands.
fn passed(op: &Op, operands: &[Option<Pattern>]) -> Option<Pattern> {
    let first = operands.first().copied().flatten();
    let (zero, infinite) =
        (first.filter(Pattern::is_zero), first.filter(|pattern| !pattern.is_zero()));
    match &op.kind {
        OpKind::Einsum { .. } => operands.iter().flatten().copied().find(Pattern::is_zero),
        OpKind::Map(function) => match &function.form {
            MapForm::Infix(Arithmetic::Sub) if infinite.is_some() => infinite,
            MapForm::Infix(Arithmetic::Div)
            | MapForm::ScaleBy(_)
            | MapForm::Negate
            | MapForm::InfixScalar(Arithmetic::Div, _) => zero,
            MapForm::Infix(_) => zero.filter(|_| operands.iter().all(|other| *other == first)),
            MapForm::Call { function, .. } => match function.row().masked {
                Masked::Lost => None,
                Masked::Kept => first,
                Masked::Zeroed => infinite.map(Pattern::zero),
            },
            MapForm::Cast(_) => first,
            _ => None,
        },
        OpKind::Composite { function, dims } => match function.row().masked {
            Masked::Lost => None,
            Masked::Kept => first,
            Masked::Zeroed => {
                infinite.filter(|mask| dims.contains(&mask.dims[1])).map(Pattern::zero)
            }
        },
        OpKind::Collective(_) => first,
        _ => None,
    }
}

/// For each value, the share of its elements that are used: all, unless every use masks it or
/// multiplies it by zeros.
fn looked_at(
    program: &Program,
    patterns: &IndexVec<ValueId, Option<Pattern>>,
) -> IndexVec<ValueId, f64> {
    let mut shares: IndexVec<ValueId, f64> = program.values.iter().map(|_| 0.0).collect();
    for op in program.ops.iter().filter(|op| !is_move(op)) {
        for (k, operand) in op.operands.iter().enumerate() {
            let dims = &program.values[operand.value].dims;
            let mask = match &op.kind {
                OpKind::Map(_) => own(program, op),
                OpKind::Einsum { .. } => {
                    let others = op.operands.iter().enumerate().filter(|(other, _)| *other != k);
                    others
                        .filter_map(|(_, other)| patterns[other.value].filter(Pattern::is_zero))
                        .find(|mask| mask.is_along(dims))
                }
                _ => None,
            };
            let share = mask.filter(|mask| mask.is_along(dims)).map_or(1.0, |mask| mask.share);
            shares[operand.value] = shares[operand.value].max(share);
        }
    }
    program.outputs.iter().for_each(|output| shares[output.value] = 1.0);
    shares.into_iter().map(|share| if share > 0.0 { share } else { 1.0 }).collect()
}
