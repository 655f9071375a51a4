//! The pattern of every value: which of its elements are known to be masked.

use std::collections::BTreeSet;

use index_vec::IndexVec;

use super::mask::{Mask, Pattern};
use crate::functions::{Arithmetic, Function, Masked, ReduceFn};
use crate::ids::{DimId, ValueId};
use crate::program::{CausalMask, Fill, Linearity, MapFn, MapForm, Op, OpKind, Program};

/// Numbers that leave nothing of a score in a softmax.
const NEGLIGIBLE: f64 = -1e4;

/// What a value says of the place of its elements.
#[derive(Clone, Copy)]
enum Place {
    /// Their position along a dimension.
    Position(DimId),
    /// How far before the query the key is.
    Distance { query: DimId, key: DimId },
    /// Whether that is less than a window.
    Near(CausalMask),
}

/// The pattern of every value.
pub(super) fn patterns(program: &Program) -> IndexVec<ValueId, Option<Pattern>> {
    let mut places: IndexVec<ValueId, Option<Place>> =
        IndexVec::from(vec![None; program.values.len()]);
    let mut patterns: IndexVec<ValueId, Option<Pattern>> =
        IndexVec::from(vec![None; program.values.len()]);
    let gradients = gradients_of_rows(program);
    for op in program.ops.iter().filter(|op| !is_move(op)) {
        let operands: Vec<Option<Pattern>> =
            op.operands.iter().map(|operand| patterns[operand.value]).collect();
        let of: Vec<Option<Place>> =
            op.operands.iter().map(|operand| places[operand.value]).collect();
        let dims = &program.values[op.result].dims;
        patterns[op.result] = laid_over(op, &of, &operands)
            .or_else(|| named_rows(program, op, &gradients))
            .or_else(|| accumulated(program, op, &operands))
            .or_else(|| passed(op, &operands))
            .and_then(|pattern| along(program, pattern, dims));
        places[op.result] = place(op, &of);
    }
    patterns
}

/// The gradients that update rows, and what they are sums of: none of them is used otherwise than
/// row by row, so only rows that are named are held.
fn gradients_of_rows(program: &Program) -> BTreeSet<ValueId> {
    let mut gradients = BTreeSet::new();
    for op in program.ops.iter().rev() {
        match &op.kind {
            OpKind::Map(MapFn {
                form: MapForm::Call { function: Function::RowStep, .. }, ..
            }) => {
                gradients.insert(op.operands[1].value);
            }
            OpKind::Map(MapFn {
                form: MapForm::Infix(Arithmetic::Add) | MapForm::Total, ..
            }) if gradients.contains(&op.result) => {
                gradients.extend(op.operands.iter().map(|operand| operand.value));
            }
            _ => {}
        }
    }
    // What leaves the program is complete.
    program.outputs.iter().for_each(|output| {
        gradients.remove(&output.value);
    });
    gradients
}

/// The pattern of a gradient of lookups that updates rows.
fn named_rows(program: &Program, op: &Op, gradients: &BTreeSet<ValueId>) -> Option<Pattern> {
    let OpKind::ScatterAdd { dim } = op.kind else { return None };
    let of = |value: ValueId| &program.values[value].dims;
    let (ids, table) = (of(op.operands[1].value), of(op.result));
    let named = ids.iter().filter(|dim| !table.contains(dim));
    let named = named.map(|&dim| program.dims[dim].size as f64).product();
    let mask = Mask::Rows { dim, named };
    gradients.contains(&op.result).then_some(Pattern { mask, fill: Fill::Zero })
}

/// The pattern of a sum of gradients of lookups: rows that one of them names.
fn accumulated(program: &Program, op: &Op, operands: &[Option<Pattern>]) -> Option<Pattern> {
    let OpKind::Map(function) = &op.kind else { return None };
    let rows = |pattern: &Option<Pattern>| match pattern.as_ref()?.mask {
        Mask::Rows { dim, named } => Some((dim, named)),
        _ => None,
    };
    let (dim, named) = match (&function.form, operands) {
        (MapForm::Infix(Arithmetic::Add), [a, b]) => {
            let ((dim, of_a), (other, of_b)) = (rows(a)?, rows(b)?);
            (dim == other).then_some((dim, of_a + of_b))?
        }
        (MapForm::Total, [each]) => {
            let (dim, named) = rows(each)?;
            let block = program.exited_block(op.repeat, op.operands[0].value)?;
            (dim, named * program.repeats[block].count as f64)
        }
        _ => return None,
    };
    Some(Pattern { mask: Mask::Rows { dim, named }, fill: Fill::Zero })
}

/// A pattern of a value with these dimensions: it, or what is left of it without the tokens.
fn along(program: &Program, pattern: Pattern, dims: &[DimId]) -> Option<Pattern> {
    let of_slots = pattern.mask.without_tokens(program);
    let mask = [Some(pattern.mask), of_slots].into_iter().flatten().find(|it| it.is_along(dims))?;
    Some(Pattern { mask, ..pattern })
}

/// What the result says of the place of its elements, from what operands say.
fn place(op: &Op, of: &[Option<Place>]) -> Option<Place> {
    let first = of.first().copied().flatten();
    match &op.kind {
        OpKind::Collective(_) => first,
        OpKind::Map(function) => match &function.form {
            MapForm::Position(dim) | MapForm::Iota(dim) => Some(Place::Position(*dim)),
            MapForm::Infix(Arithmetic::Sub) => match of {
                [Some(Place::Position(query)), Some(Place::Position(key))] => {
                    Some(Place::Distance { query: *query, key: *key })
                }
                _ => None,
            },
            MapForm::Call { function, numbers } => {
                let Some(Place::Distance { query, key }) = first else { return None };
                let limit: f64 = numbers.first()?.parse().ok()?;
                let window = match function {
                    Function::Less => limit.ceil(),
                    Function::LessEqual => limit.floor() + 1.0,
                    _ => return None,
                };
                let window = Some(window as u64).filter(|&window| window > 0);
                Some(Place::Near(CausalMask { query, key, window }))
            }
            _ => None,
        },
        _ => None,
    }
}

/// The pattern of a result whose operation masks its operand: later keys, those outside a window of
/// a causal mask, or the slots of experts that a token is not sent to.
fn laid_over(op: &Op, of: &[Option<Place>], operands: &[Option<Pattern>]) -> Option<Pattern> {
    let form = match &op.kind {
        OpKind::Route(route) => {
            return Some(Pattern { mask: Mask::Slots(*route), fill: Fill::Zero });
        }
        OpKind::Map(function) => &function.form,
        _ => return None,
    };
    match (form, operands) {
        (MapForm::Causal { query, key, fill }, [operand]) => {
            let causal = CausalMask { query: *query, key: *key, window: None };
            let narrower = operand.and_then(|it| match it.mask {
                Mask::Causal(it) if it.is_along(causal) => Some(it),
                _ => None,
            });
            Some(Pattern { mask: Mask::Causal(narrower.unwrap_or(causal)), fill: *fill })
        }
        (MapForm::Call { function: Function::Select, numbers }, [_, Some(operand)]) => {
            let (Some(Some(Place::Near(near))), Mask::Causal(causal)) = (of.first(), operand.mask)
            else {
                return None;
            };
            let fill: f64 = numbers.first()?.parse().ok()?;
            let is_kept = match operand.fill {
                Fill::Infinite => fill <= NEGLIGIBLE,
                Fill::Zero => fill == 0.0,
            };
            let window = causal.window.into_iter().chain(near.window).min();
            (is_kept && near.is_along(causal)).then_some(Pattern {
                mask: Mask::Causal(CausalMask { window, ..causal }),
                ..*operand
            })
        }
        _ => None,
    }
}

/// Whether an operation only reshards its operand.
pub(super) fn is_move(op: &Op) -> bool {
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
            MapForm::Call { function, numbers } => match function.row().masked {
                Masked::Lost if function.row().linearity == Linearity::Last => {
                    operands.last().copied().flatten().filter(Pattern::is_zero)
                }
                Masked::Lost => {
                    zero.filter(|_| operands.len() == 1 && keeps_zero(*function, numbers))
                }
                Masked::Kept => first,
                Masked::Zeroed => infinite.map(Pattern::zero),
            },
            MapForm::Cast(_) => first,
            _ => None,
        },
        OpKind::Composite { function, dims } => match function.row().masked {
            Masked::Lost => None,
            Masked::Kept => first,
            Masked::Zeroed => infinite.filter(|it| it.mask.is_over(dims)).map(Pattern::zero),
        },
        OpKind::Collective(_) => first,
        OpKind::Reduce { function: ReduceFn::Sum | ReduceFn::Mean, .. } => {
            zero.filter(|it| matches!(it.mask, Mask::Rows { .. }))
        }
        _ => None,
    }
}

/// Whether a function of one operand is zero at zero.
fn keeps_zero(function: Function, numbers: &[String]) -> bool {
    let numbers = numbers.iter().filter_map(|number| number.parse().ok());
    let at_zero: Vec<f64> = [0.0].into_iter().chain(numbers).collect();
    (function.row().evaluate)(&at_zero) == 0.0
}
