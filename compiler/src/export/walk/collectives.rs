//! Collectives: what each does to which dimension.
//!
//! A collective that changes one dimension is one call of any framework. An AllGather or a
//! ReduceScatter of several is one call, too, because the plan prices it so: over all axes, of
//! blocks along a first dimension, with a local transpose after or before it. A call for each
//! dimension needs no transpose, but sends more bytes in more rounds.
//!
//! A ReduceScatter or AllToAll with slices in it is a local cut and that collective over the other
//! axes: [`Cut`].

use super::super::json::{Operation, StepJson, TensorJson};

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

/// Axes by the place of the dimension that receives them, in order.
pub(in crate::export) fn by_place(
    of: &TensorJson,
    axes: &[String],
    into: &[String],
) -> Vec<(usize, Vec<String>)> {
    let mut found: Vec<(usize, Vec<String>)> = Vec::new();
    for (axis, dim) in axes.iter().zip(into) {
        let place = place_of(of, dim);
        match found.iter_mut().find(|(other, _)| *other == place) {
            Some((_, axes)) => axes.push(axis.clone()),
            None => found.push((place, vec![axis.clone()])),
        }
    }
    found
}

/// Axes of several dimensions in one order, and the place of the dimension that each splits.
pub(in crate::export) fn listed(of: Vec<(usize, Vec<String>)>) -> (Vec<String>, Vec<usize>) {
    let pairs = of.into_iter().flat_map(|(place, axes)| axes.into_iter().map(move |a| (a, place)));
    pairs.unzip()
}

/// A dimension of which a device keeps its own parts along axes that a ReduceScatter or AllToAll
/// appends without moving or reducing them.
pub(in crate::export) struct Cut {
    /// The place of the dimension.
    pub place: usize,
    /// All axes that the dimension gets appended.
    pub axes: Vec<String>,
    /// Those of them that cut it.
    pub own: Vec<String>,
}

impl Cut {
    /// What a collective cuts before it communicates.
    pub(in crate::export) fn of(step: &StepJson) -> Vec<Self> {
        let Some(Operation::ReduceScatter { axes, into, .. } | Operation::AllToAll { axes, into }) =
            &step.operation
        else {
            return Vec::new();
        };
        let from = &step.operands[0];
        let cuts = by_place(from, axes, into).into_iter().map(|(place, axes)| {
            let own = axes.iter().filter(|axis| !uses(from, axis)).cloned().collect();
            Self { place, axes, own }
        });
        cuts.filter(|cut: &Self| !cut.own.is_empty()).collect()
    }
}

/// Whether a value is split or pending over an axis.
fn uses(of: &TensorJson, axis: &String) -> bool {
    of.unreduced.contains(axis) || of.dims.iter().any(|dim| dim.axes.contains(axis))
}

/// Of the axes of a ReduceScatter or AllToAll and the dimensions that get them, those over which
/// devices communicate.
pub(in crate::export) fn moved(
    from: &TensorJson,
    axes: &[String],
    into: &[String],
) -> (Vec<String>, Vec<String>) {
    let pairs = axes.iter().zip(into).filter(|(axis, _)| uses(from, axis));
    pairs.map(|(axis, dim)| (axis.clone(), dim.clone())).unzip()
}

/// What an AllToAll does to each dimension of what is left after its cuts.
pub(in crate::export) struct Exchange {
    /// The axes that each dimension gets appended; not those that it is cut by.
    pub gained: Vec<Vec<String>>,
    /// The axes that each drops.
    pub lost: Vec<Vec<String>>,
}

/// The places of a dimension that gets a run of axes, and of that which loses the same run: an
/// AllToAll that needs no other order of the blocks.
pub(in crate::export) struct Run {
    pub to: usize,
    pub from: usize,
}

impl Exchange {
    pub(in crate::export) fn of(step: &StepJson) -> Self {
        let minus = |a: &TensorJson, b: &TensorJson| -> Vec<Vec<String>> {
            let dims = a.dims.iter().zip(&b.dims);
            dims.map(|(a, b)| {
                a.axes.iter().filter(|axis| !b.axes.contains(axis)).cloned().collect()
            })
            .collect()
        };
        let (from, to) = (&step.operands[0], &step.result);
        let mut gained = minus(to, from);
        for axes in &mut gained {
            axes.retain(|axis| uses(from, axis));
        }
        Self { gained, lost: minus(from, to) }
    }

    /// The run, if nothing else moves.
    pub(in crate::export) fn run(&self) -> Option<Run> {
        let changed = |lists: &[Vec<String>]| -> Vec<usize> {
            (0..lists.len()).filter(|&place| !lists[place].is_empty()).collect()
        };
        match (&changed(&self.gained)[..], &changed(&self.lost)[..]) {
            (&[to], &[from]) if self.gained[to] == self.lost[from] => Some(Run { to, from }),
            _ => None,
        }
    }
}
