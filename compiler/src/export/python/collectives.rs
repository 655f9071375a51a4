//! Collectives: what each does to which dimension.

use super::super::json::{Operation, StepJson, TensorJson};
use super::layout::tuple;
use super::{Result, unsupported};

/// Whether a step is a collective, or a part of what every device has.
pub(in crate::export) fn is_collective(step: &StepJson) -> bool {
    matches!(
        step.operation,
        Some(
            Operation::AllGather { .. }
                | Operation::AllReduce { .. }
                | Operation::ReduceScatter { .. }
                | Operation::AllToAll { .. }
                | Operation::Permute { .. }
                | Operation::Slice { .. }
                | Operation::Unreduce { .. }
        )
    )
}

/// `("X", "Y")`: axes as a tuple.
pub(in crate::export) fn tuple_of(axes: &[String]) -> String {
    tuple(&axes.iter().map(|axis| format!("{axis:?}")).collect::<Vec<_>>())
}

/// `"X"`, `("X", "Y")`: axes as an argument.
pub(in crate::export) fn axes(names: &[String]) -> String {
    match names {
        [one] => format!("{one:?}"),
        all => tuple_of(all),
    }
}

/// The dimensions that an AllGather completes, and the axes that each was split over.
pub(in crate::export) fn gathered(from: &TensorJson, axes: &[String]) -> Vec<(usize, Vec<String>)> {
    let dropped = from.dims.iter().enumerate().filter_map(|(place, dim)| {
        let gone: Vec<String> =
            dim.axes.iter().filter(|axis| axes.contains(axis)).cloned().collect();
        (!gone.is_empty()).then_some((place, gone))
    });
    dropped.collect()
}

/// Axes by the dimension that receives them, in order.
pub(in crate::export) fn by_dim<'a>(
    axes: &[String],
    into: &'a [String],
) -> Vec<(&'a str, Vec<String>)> {
    let mut found: Vec<(&str, Vec<String>)> = Vec::new();
    for (axis, dim) in axes.iter().zip(into) {
        match found.iter_mut().find(|(other, _)| other == dim) {
            Some((_, axes)) => axes.push(axis.clone()),
            None => found.push((dim, vec![axis.clone()])),
        }
    }
    found
}

/// Where the axes that an AllToAll moves come from.
pub(in crate::export) fn source(step: &StepJson, moved: &[String]) -> Result<usize> {
    let dims = &step.operands[0].dims;
    match dims.iter().position(|dim| dim.axes.ends_with(moved)) {
        Some(place) => Ok(place),
        None => unsupported(&step.value, "an AllToAll from several dimensions at once"),
    }
}

/// The axes of each dimension that a Permute changes, before and after, as tuples.
pub(in crate::export) fn relabelled(step: &StepJson) -> [String; 2] {
    let changed = step.operands[0].dims.iter().zip(&step.result.dims).filter(|(a, b)| a != b);
    let (held, wanted): (Vec<_>, Vec<_>) =
        changed.map(|(a, b)| (tuple_of(&a.axes), tuple_of(&b.axes))).unzip();
    [tuple(&held), tuple(&wanted)]
}
