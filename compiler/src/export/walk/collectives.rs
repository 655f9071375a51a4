//! Collectives: what each does to which dimension.

use super::super::json::{Operation, StepJson, TensorJson};
use super::{Result, unsupported};

/// The place of a dimension.
pub(in crate::export) fn place_of(of: &TensorJson, dim: &str) -> usize {
    of.dims.iter().position(|other| other.dim == dim).unwrap_or(0)
}

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
