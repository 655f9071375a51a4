//! Finds products that count only a share of their terms: those of causal attention, half of whose
//! terms are masked, or more by a window, and those with a routing mask, which selects few slots
//! per token. Finds values, too, that hold only a share of their elements: slots of experts where
//! nothing is dropped, and gradients of tables that are updated row by row.
//!
//! No annotations are needed. A product with an operand that is zero in a known pattern skips
//! the terms of these zeros; so does a product whose result is only read where such a pattern is
//! nonzero (scores before `causal`, also when they are scaled or capped before it; gradients of
//! combine weights). The patterns are inferred from the statements, so they are found in a plan
//! too, where a softmax may be expanded. Only products with a contraction are counted this way:
//! element-wise operations are small in comparison, and on most hardware touch every element
//! anyway.

use std::collections::BTreeSet;

use index_vec::IndexVec;

use crate::functions::{Arithmetic, Function, Masked, ReduceFn};
use crate::ids::{DimId, ValueId};
use crate::program::{
    CausalMask, Fill, Linearity, MapFn, MapForm, Op, OpKind, Output, Program, Share,
};
use crate::rearrange::Route;

/// Numbers that leave nothing of a score in a softmax.
const NEGLIGIBLE: f64 = -1e4;

/// The elements of a value that are known to be masked. A value without one of the dimensions does
/// not have the pattern.
#[derive(Clone, Copy, PartialEq)]
struct Pattern {
    mask: Mask,
    fill: Fill,
}

/// Elements that do not count.
#[derive(Clone, Copy, PartialEq)]
enum Mask {
    /// Pairs of a query and a later key, or one too far before it.
    Causal(CausalMask),
    /// Slots of experts that a token is not sent to.
    Slots(Route),
    /// Slots that no token is sent to, of experts that have one for every token.
    Empty(Route),
    /// Rows of a table, in the gradient of lookups, that no index names: all but so many at most.
    Rows { dim: DimId, named: f64 },
}

/// The elements of a value that are read.
#[derive(Clone, Copy, PartialEq)]
enum Used {
    /// None so far.
    Nothing,
    /// Those that a mask leaves.
    Left(Mask),
    /// All.
    All,
}

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

/// Sets the share of its terms that every operation computes, and that of its elements that every
/// value holds.
pub fn mark(program: &mut Program) {
    let patterns = patterns(program);
    if patterns.iter().all(Option::is_none) {
        return;
    }
    let used = used(program, &patterns);
    let shares: Vec<Share> =
        program.ops.iter().map(|op| share_of(program, op, &patterns, used[op.result])).collect();
    let filled: Vec<f64> = patterns
        .iter()
        .zip(&used)
        .map(|(pattern, used)| {
            let zero = pattern.filter(Pattern::is_zero).map(|pattern| pattern.mask);
            let masks =
                zero.into_iter().chain(used.mask()).filter(|mask| mask.is_never_held(program));
            masks.map(|mask| mask.share(program).of_all).fold(1.0, f64::min)
        })
        .collect();
    program.ops.iter_mut().zip(shares).for_each(|(op, share)| op.share = share);
    program.values.iter_mut().zip(filled).for_each(|(value, filled)| value.filled = filled);
}

/// The share of its terms that a product computes.
fn share_of(
    program: &Program,
    op: &Op,
    patterns: &IndexVec<ValueId, Option<Pattern>>,
    used: Used,
) -> Share {
    let zeros = op.operands.iter().filter_map(|operand| patterns[operand.value]);
    let zeros = zeros.filter(Pattern::is_zero).map(|pattern| pattern.mask);
    if updates_rows(program, op) {
        let mut rows = zeros.filter(|mask| matches!(mask, Mask::Rows { .. }));
        return rows.next().map_or(Share::WHOLE, |mask| mask.share(program));
    }
    if !op.is_product() {
        return Share::WHOLE;
    }
    zeros.chain(used.mask()).map(|mask| mask.share(program)).fold(Share::WHOLE, Share::smaller)
}

/// Whether an operation changes its first operand, in place, only where the second is not zero.
fn updates_rows(program: &Program, op: &Op) -> bool {
    let OpKind::Map(function) = &op.kind else { return false };
    let changes = match &function.form {
        MapForm::Infix(Arithmetic::Add) => true,
        MapForm::Call { function, .. } => *function == Function::RowStep,
        _ => false,
    };
    let of = op.operands[0].value;
    let is_next = |output: &Output| output.value == op.result && output.yields_to == Some(of);
    changes && program.outputs.iter().any(is_next)
}

impl Pattern {
    fn is_zero(&self) -> bool {
        self.fill == Fill::Zero
    }

    fn zero(self) -> Self {
        Self { fill: Fill::Zero, ..self }
    }
}

impl Used {
    fn mask(self) -> Option<Mask> {
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

impl Mask {
    /// Whether a function over `dims` goes over all keys, or all experts.
    fn is_over(self, dims: &[DimId]) -> bool {
        match self {
            Self::Causal(causal) => dims.contains(&causal.key),
            Self::Slots(route) | Self::Empty(route) => dims.contains(&route.experts),
            Self::Rows { dim, .. } => dims.contains(&dim),
        }
    }

    fn is_along(self, dims: &[DimId]) -> bool {
        let has = |all: &[DimId]| all.iter().all(|dim| dims.contains(dim));
        match self {
            Self::Causal(CausalMask { query, key, .. }) => has(&[query, key]),
            Self::Slots(Route { tokens, experts, capacity, .. }) => {
                has(&[tokens, experts, capacity])
            }
            Self::Empty(Route { experts, capacity, .. }) => has(&[experts, capacity]),
            Self::Rows { dim, .. } => has(&[dim]),
        }
    }

    /// The share of elements that are not masked.
    fn share(self, program: &Program) -> Share {
        let size = |dim: DimId| program.dims[dim].size as f64;
        let of_all = match self {
            Self::Causal(causal) => {
                return Share { of_all: causal.share(&program.dims), causal: Some(causal) };
            }
            Self::Slots(route) => {
                route.choices as f64 / (size(route.experts) * size(route.capacity))
            }
            Self::Empty(route) => {
                let sent = route.choices as f64 * size(route.tokens);
                sent / (size(route.experts) * size(route.capacity))
            }
            Self::Rows { dim, named } => named / size(dim),
        };
        Share { of_all: of_all.min(1.0), causal: None }
    }

    /// Whether no device holds what is masked: where experts have a slot for every token, rows
    /// stand one after another, and tokens are sent by their indices.
    fn is_never_held(self, program: &Program) -> bool {
        match self {
            Self::Causal(_) => false,
            Self::Slots(route) | Self::Empty(route) => drops_nothing(program, route),
            Self::Rows { .. } => true,
        }
    }

    /// Of values without the tokens, what is masked in those with them.
    fn without_tokens(self, program: &Program) -> Option<Self> {
        match self {
            Self::Slots(route) if drops_nothing(program, route) => Some(Self::Empty(route)),
            _ => None,
        }
    }
}

/// Whether every expert has a slot for every token.
fn drops_nothing(program: &Program, route: Route) -> bool {
    program.dims[route.capacity].size >= program.dims[route.tokens].size
}

/// The pattern of every value.
fn patterns(program: &Program) -> IndexVec<ValueId, Option<Pattern>> {
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

/// The elements of each value that are used: all, unless every use masks it, multiplies it by
/// zeros, or passes it to what is used in part.
fn used(
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
            MapForm::Position(_) => return None,
            MapForm::LoopCarried | MapForm::Last | MapForm::Total => return Some(Vec::new()),
            // What masks its operand has the pattern itself.
            MapForm::Causal { .. } | MapForm::Call { function: Function::Select, .. } => {
                masks.extend(patterns[op.result].map(|pattern| pattern.mask));
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
