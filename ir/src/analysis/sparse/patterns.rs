//! The pattern of every value: which of its elements are known to be masked.

use std::collections::BTreeSet;

use index_vec::IndexVec;

use super::mask::{Mask, Pattern};
use super::places::{Bound, Place};
use crate::functions::{Arithmetic, Function, Masked, ReduceFn};
use crate::ids::{DimId, ValueId};
use crate::program::{Fill, Linearity, MapFn, MapForm, Op, OpKind, Program};

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
            op.operands.iter().map(|operand| places[operand.value].clone()).collect();
        let dims = &program.values[op.result].dims;
        patterns[op.result] = laid_over(op, &of, &operands)
            .or_else(|| named_rows(program, op, &gradients))
            .or_else(|| accumulated(program, op, &operands))
            .or_else(|| passed(program, op, &operands))
            .and_then(|pattern| along(program, pattern, dims));
        places[op.result] = Place::of(program, op, &of);
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
    gradients.contains(&op.result).then_some(Pattern { mask, fill: 0.0 })
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
    Some(Pattern { mask: Mask::Rows { dim, named }, fill: 0.0 })
}

/// A pattern of a value with these dimensions: it, or what is left of it without the tokens.
fn along(program: &Program, pattern: Pattern, dims: &[DimId]) -> Option<Pattern> {
    let of_slots = pattern.mask.without_tokens(program);
    let mask = [Some(pattern.mask), of_slots].into_iter().flatten().find(|it| it.is_along(dims))?;
    Some(Pattern { mask, ..pattern })
}

/// The pattern of a result whose operation masks its operand: later keys, what a comparison of
/// positions does not select, or the slots of experts that a token is not sent to.
fn laid_over(op: &Op, of: &[Option<Place>], operands: &[Option<Pattern>]) -> Option<Pattern> {
    let form = match &op.kind {
        OpKind::Route(route) => {
            return Some(Pattern { mask: Mask::Slots(*route), fill: 0.0 });
        }
        OpKind::Map(function) => &function.form,
        _ => return None,
    };
    match form {
        MapForm::Causal { query, key, fill } => {
            let fill = match fill {
                Fill::Zero => 0.0,
                Fill::Infinite => f64::NEG_INFINITY,
            };
            let bound = Bound { later: *key, than: *query, at_most: 0 };
            bounded(operands[0], &[bound], fill)
        }
        MapForm::Call { function: Function::Select, numbers } => {
            let number = |operand: usize| of.get(operand)?.as_ref()?.number();
            let last = numbers.first().and_then(|number| number.parse().ok());
            // Where nothing is known of the selection, what is masked before it still is.
            let cases = [(1, last.or_else(|| number(2))), (2, number(1))];
            cases.into_iter().find_map(|(kept, fill)| {
                let bounds = of[0].as_ref().and_then(|place| place.bounds(kept == 1));
                let bounds = bounds.unwrap_or_default();
                bounded(*operands.get(kept)?, &bounds, fill?)
            })
        }
        _ => None,
    }
}

/// The pattern of what has a number outside of these bounds, and an operand with this pattern
/// inside.
fn bounded(operand: Option<Pattern>, bounds: &[Bound], fill: f64) -> Option<Pattern> {
    let before = operand.filter(|pattern| pattern.is_zero() == (fill.abs() <= 0.0));
    let mask = |of: Option<Mask>, &bound: &Bound| Some(Mask::within(of, bound));
    let mask = bounds.iter().fold(before.map(|pattern| pattern.mask), mask)?;
    let greatest = before.map_or(fill, |pattern| pattern.fill.max(fill));
    Pattern { mask, fill: greatest }.filled(greatest)
}

/// Whether an operation only reshards its operand.
pub(super) fn is_move(op: &Op) -> bool {
    matches!(op.kind, OpKind::Collective(_)) && op.operands[0].value == op.result
}

/// The pattern of a result, from those of the operands.
fn passed(program: &Program, op: &Op, operands: &[Option<Pattern>]) -> Option<Pattern> {
    let first = operands.first().copied().flatten();
    let (zero, infinite) =
        (first.filter(Pattern::is_zero), first.filter(|pattern| !pattern.is_zero()));
    let known = || operands.iter().flatten().copied();
    let added = smallest(program, known().filter(|pattern| !pattern.is_zero()));
    match &op.kind {
        OpKind::Einsum { .. } => smallest(program, known().filter(Pattern::is_zero)),
        OpKind::Map(function) => match &function.form {
            MapForm::Infix(Arithmetic::Sub) if infinite.is_some() => infinite,
            // A bias is added to what is masked.
            MapForm::Infix(Arithmetic::Add) if added.is_some() => added,
            MapForm::InfixScalar(Arithmetic::Add | Arithmetic::Sub, _)
            | MapForm::ScalarInfix(_, Arithmetic::Add)
                if infinite.is_some() =>
            {
                infinite
            }
            MapForm::ScaleBy(number) if infinite.is_some() => {
                scaled(infinite?, number.parse().ok()?)
            }
            MapForm::InfixScalar(Arithmetic::Div, number) if infinite.is_some() => {
                scaled(infinite?, 1.0 / number.parse::<f64>().ok()?)
            }
            MapForm::Infix(Arithmetic::Div)
            | MapForm::ScaleBy(_)
            | MapForm::Negate
            | MapForm::InfixScalar(Arithmetic::Div, _) => zero,
            MapForm::Infix(_) => {
                let all = known().filter(Pattern::is_zero).count() == operands.len();
                let common = |a: Mask, b: Pattern| a.common(b.mask);
                let mask = known().try_fold(first?.mask, common).filter(|_| all)?;
                Some(Pattern { mask, fill: 0.0 })
            }
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

/// The pattern of scores times a number.
fn scaled(pattern: Pattern, factor: f64) -> Option<Pattern> {
    Some(pattern).filter(|_| factor > 0.0)?.filled(pattern.fill * factor)
}

/// Of patterns, the one that leaves least.
fn smallest(program: &Program, of: impl Iterator<Item = Pattern>) -> Option<Pattern> {
    let share = |pattern: &Pattern| pattern.mask.share(program).of_all;
    of.min_by(|a, b| share(a).total_cmp(&share(b)))
}

/// Whether a function of one operand is zero at zero.
fn keeps_zero(function: Function, numbers: &[String]) -> bool {
    let numbers = numbers.iter().filter_map(|number| number.parse().ok());
    let at_zero: Vec<f64> = [0.0].into_iter().chain(numbers).collect();
    (function.row().evaluate)(&at_zero) == 0.0
}
