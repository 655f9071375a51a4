//! Whether a reshape keeps blocks contiguous.
//!
//! Split or merged dimensions share a scale: the elements of the group in row-major order, major
//! dimensions first. An axis that shards a dimension has a position on that scale: the product of
//! the dimensions and axes before it; and it multiplies the position by its size. A device's block
//! is one block after the reshape exactly if every axis finds a dimension there in which it has the
//! same position.

use smallvec::SmallVec;

use crate::ids::DimId;
use crate::program::Program;
use crate::rearrange::Regroup;
use crate::sharding::{AxisList, AxisRef};

/// The axes of each dimension.
type Lists = SmallVec<[AxisList; 4]>;

/// How the result's dimensions are split, or the axis without a place and the dimension that it
/// splits before.
pub(super) fn reshaped(
    program: &Program,
    groups: &[Regroup],
    lists: &[(DimId, &AxisList)],
    kept: &[DimId],
) -> Result<Lists, (AxisRef, DimId)> {
    let mut given: Vec<(DimId, AxisList)> = Vec::new();
    for group in groups {
        let mut places = placed(program, group, lists);
        places.sort_by_key(|place| place.before);
        let mut offset = 1_u64;
        let mut rest = &places[..];
        for &dim in &group.to {
            let fitting = rest.iter().take_while(|place| fits(program, dim, offset, place)).scan(
                offset,
                |at, place| {
                    let contiguous = place.before == *at;
                    *at = at.saturating_mul(place.axis.size(&program.mesh));
                    contiguous.then_some(place.axis)
                },
            );
            let axes: AxisList = fitting.collect();
            rest = &rest[axes.len()..];
            given.push((dim, axes));
            offset = offset.saturating_mul(program.dims[dim].size);
        }
        if let Some(place) = rest.first() {
            return Err((place.axis, place.dim));
        }
    }
    let same =
        |dim: &DimId| lists.iter().find(|(other, _)| other == dim).map(|(_, axes)| (*axes).clone());
    let new =
        |dim: &DimId| given.iter().find(|(other, _)| other == dim).map(|(_, axes)| axes.clone());
    Ok(kept.iter().map(|dim| new(dim).or_else(|| same(dim)).unwrap_or_default()).collect())
}

/// An axis on the scale of its group.
struct Place {
    axis: AxisRef,
    dim: DimId,
    /// The number of parts of the scale before it.
    before: u64,
}

fn placed(program: &Program, group: &Regroup, lists: &[(DimId, &AxisList)]) -> Vec<Place> {
    let mut places = Vec::new();
    let mut offset = 1_u64;
    for &dim in &group.from {
        let mut before = offset;
        for &axis in lists
            .iter()
            .find(|(other, _)| *other == dim)
            .into_iter()
            .flat_map(|(_, axes)| axes.iter())
        {
            places.push(Place { axis, dim, before });
            before = before.saturating_mul(axis.size(&program.mesh));
        }
        offset = offset.saturating_mul(program.dims[dim].size);
    }
    places
}

/// Whether an axis at this place splits a dimension that begins at `offset` of the scale into equal
/// blocks.
fn fits(program: &Program, dim: DimId, offset: u64, place: &Place) -> bool {
    let after = place.before.saturating_mul(place.axis.size(&program.mesh));
    let padded = program.dims[dim].pad || program.dims[place.dim].pad;
    !padded && after.is_multiple_of(offset) && program.dims[dim].size.is_multiple_of(after / offset)
}
