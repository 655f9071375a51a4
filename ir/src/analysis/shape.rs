//! Infers the dimensions of a result, their order where no left side declares it, and its dtype.
//!
//! Resolving text and deriving statements must agree on this: a derived statement is printed
//! without brackets and parsed again.

use crate::dtype::DType;
use crate::functions::{Arithmetic, Fill, ResultType};
use crate::ids::DimId;
use crate::program::{MapForm, OpKind};
use crate::rearrange::{Rearrange, Regroup, Window};

/// The dimensions of the result of `kind` on operands with dimensions `operands`.
pub fn infer_shape(kind: &OpKind, operands: &[&[DimId]]) -> Vec<DimId> {
    let first = || operands.first().map_or_else(Vec::new, |first| first.to_vec());
    let all = || operands.iter().skip(1).fold(first(), |dims, next| merge(&dims, next));
    match kind {
        OpKind::Einsum { contracted: gone } | OpKind::Reduce { dims: gone, .. } => {
            all().into_iter().filter(|dim| !gone.contains(dim)).collect()
        }
        OpKind::Composite { function, dims } if function.reduces() => {
            all().into_iter().filter(|dim| !dims.contains(dim)).collect()
        }
        OpKind::Map(function) => match &function.form {
            MapForm::Broadcast(added) => merge(&all(), added),
            MapForm::Constant { dims, .. } => dims.clone(),
            MapForm::Iota(dim) => vec![*dim],
            _ => all(),
        },
        OpKind::Gather { dim } => {
            let ids = operands.get(1).copied().unwrap_or_default();
            let kept = first().into_iter().filter(|other| other != dim && !ids.contains(other));
            ids.iter().copied().chain(kept).collect()
        }
        OpKind::ScatterAdd { .. } => operands.last().map_or_else(Vec::new, |like| like.to_vec()),
        OpKind::Update { .. } => first(),
        OpKind::Along(along) => {
            let replaced = |dim: DimId| if dim == along.from { along.to } else { dim };
            first().into_iter().map(replaced).collect()
        }
        OpKind::Opaque(opaque) => opaque.result_dims(&all()),
        OpKind::Rearrange(how) => rearranged(how, &first()),
        OpKind::Route(route) => merge(&first(), &[route.capacity]),
        OpKind::Composite { .. } | OpKind::Collective(_) => all(),
    }
}

/// `dims` with those that `how` changes replaced in place.
fn rearranged(how: &Rearrange, dims: &[DimId]) -> Vec<DimId> {
    let replaced = |dim: DimId| match how {
        Rearrange::Chunk { from, to, .. } if dim == *from => to.iter().copied().collect(),
        Rearrange::Stack { from, to } if Some(dim) == *from => vec![*to],
        Rearrange::Windows(windows) if dim == windows.whole => {
            vec![windows.places, windows.kernel]
        }
        Rearrange::Overlap(windows) if dim == windows.places => vec![windows.whole],
        Rearrange::Overlap(windows) if dim == windows.kernel => Vec::new(),
        Rearrange::Roll(_)
        | Rearrange::Windows(_)
        | Rearrange::Overlap(_)
        | Rearrange::Chunk { .. }
        | Rearrange::Stack { .. } => vec![dim],
        Rearrange::Rename(pairs) => {
            vec![pairs.iter().find(|(old, _)| *old == dim).map_or(dim, |(_, new)| *new)]
        }
        Rearrange::Slice(Window { from, to, .. })
        | Rearrange::Pad(Window { from, to, .. })
        | Rearrange::Part { from, to, .. }
        | Rearrange::Join { from, to } => vec![if dim == *from { *to } else { dim }],
        Rearrange::Concat { from, to } => vec![if from.first() == Some(&dim) { *to } else { dim }],
        Rearrange::Reshape(groups) => match groups.iter().find(|group| group.from.contains(&dim)) {
            Some(Regroup { from, to }) if from.first() == Some(&dim) => to.clone(),
            Some(_) => Vec::new(),
            None => vec![dim],
        },
    };
    // Without a dimension of its own, a stack's is the first.
    let added = if let Rearrange::Stack { from: None, to } = how { Some(*to) } else { None };
    added.into_iter().chain(dims.iter().copied().flat_map(replaced)).collect()
}

/// The dtype of the result of `kind` on operands of these dtypes, where no left side declares it.
pub fn dtype(kind: &OpKind, operands: &[DType]) -> DType {
    let promoted =
        |operands: &[DType]| operands.iter().copied().reduce(DType::promote).unwrap_or_default();
    let all = promoted(operands);
    match kind {
        OpKind::Map(function) => {
            of_map(&function.form, all, promoted(operands.get(1..).unwrap_or_default()))
        }
        OpKind::Route(_) => DType::Bool,
        OpKind::Reduce { function, .. } => function.row().result.of(all, all),
        OpKind::Along(along) => along.function.result(all),
        OpKind::Einsum { contracted } if all == DType::Bool && !contracted.is_empty() => {
            DType::Int32
        }
        OpKind::Composite { .. } => ResultType::Float.of(all, all),
        OpKind::Gather { .. } | OpKind::Update { .. } | OpKind::Opaque(_) => {
            operands.first().copied().unwrap_or_default()
        }
        OpKind::ScatterAdd { .. } => operands.last().copied().unwrap_or_default(),
        OpKind::Einsum { .. } | OpKind::Rearrange(_) | OpKind::Collective(_) => all,
    }
}

/// The dtype of a function's result, where the operands promote to `all` together and to `rest`
/// without the first: integers stay integers unless the function returns fractions or has one among
/// its numbers, and sums of booleans are integers.
fn of_map(form: &MapForm, all: DType, rest: DType) -> DType {
    let none: &[String] = &[];
    let (result, numbers) = match form {
        MapForm::Cast(dtype) => return *dtype,
        MapForm::Constant { .. } => return DType::default(),
        MapForm::Position(_) | MapForm::Iota(_) => return DType::Int32,
        MapForm::Call { function, numbers } => (function.row().result, numbers.as_slice()),
        MapForm::Infix(Arithmetic::Div)
        | MapForm::InfixScalar(Arithmetic::Div, _)
        | MapForm::ScalarInfix(_, Arithmetic::Div)
        // No integer is infinite.
        | MapForm::Causal { fill: Fill::Infinite, .. } => (ResultType::Float, none),
        MapForm::ScaleBy(number)
        | MapForm::InfixScalar(_, number)
        | MapForm::ScalarInfix(number, _) => (ResultType::Number, std::slice::from_ref(number)),
        MapForm::Infix(Arithmetic::Add | Arithmetic::Sub) | MapForm::Negate => {
            (ResultType::Number, none)
        }
        MapForm::LoopCarried
        | MapForm::Last
        | MapForm::Total
        | MapForm::Host(_)
        | MapForm::Broadcast(_)
        | MapForm::Causal { fill: Fill::Zero, .. } => (ResultType::Whole, none),
    };
    let dtype = result.of(all, rest);
    let is_fractional = result != ResultType::Bool && numbers.iter().any(|it| is_fraction(it));
    if is_fractional { ResultType::Float.of(dtype, dtype) } else { dtype }
}

/// Whether a number as written is no integer.
fn is_fraction(number: &str) -> bool {
    number.parse::<f64>().is_ok_and(|number| number.fract().abs() > 0.0 || number.is_infinite())
}

/// Both lists in one order that agrees with each as far as possible: the dimensions that precede a
/// shared one in either list come before it.
pub(crate) fn merge(left: &[DimId], right: &[DimId]) -> Vec<DimId> {
    let mut merged: Vec<DimId> = Vec::new();
    let mut rest = right.iter().copied();
    for &dim in left {
        if right.contains(&dim) && !merged.contains(&dim) {
            for earlier in rest.by_ref().take_while(|&other| other != dim) {
                if !left.contains(&earlier) && !merged.contains(&earlier) {
                    merged.push(earlier);
                }
            }
        }
        if !merged.contains(&dim) {
            merged.push(dim);
        }
    }
    merged.extend(
        right
            .iter()
            .copied()
            .filter(|dim| !left.contains(dim))
            .filter(|dim| !merged.contains(dim))
            .collect::<Vec<_>>(),
    );
    merged
}
