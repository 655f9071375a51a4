//! The direct way from one sharding to another: axes that are new are sliced, trailing axes that
//! belong to another dimension are moved there, and what is in the way or not needed is gathered.
//!
//! It is not the cheapest way. A [part](crate::reshard::part) of all shardings has those on it, so
//! that the search, which also has a Permute between any two of them, is never costlier than it.

use shardwise_ir::sharding::{AxisList, AxisRef, Sharding};

/// The shardings on the direct way between two with the same pending sums, without the first.
pub(crate) fn direct_way(from: &Sharding, to: &Sharding) -> Vec<Sharding> {
    let mut way = Vec::new();
    if from.unreduced != to.unreduced {
        return way;
    }
    let mut at = from.clone();
    while let Some(next) = sliced(&at, to).or_else(|| moved(&at, to)).or_else(|| gathered(&at, to))
    {
        way.push(next.clone());
        at = next;
    }
    way
}

/// What a dimension still has to get, if all that it has stays.
fn wanted<'t>(at: &Sharding, to: &'t Sharding, dim: usize) -> Option<&'t [AxisRef]> {
    to.dims[dim].strip_prefix(at.dims[dim].as_slice())
}

/// The next axis of a dimension that nothing uses.
fn sliced(at: &Sharding, to: &Sharding) -> Option<Sharding> {
    (0..at.dims.len()).find_map(|dim| {
        let &axis = wanted(at, to, dim)?.first()?;
        let mut next = at.clone();
        next.dims[dim].push(axis);
        (!at.uses(axis)).then_some(next)
    })
}

/// The last axes of a dimension, if they are the next ones of another.
fn moved(at: &Sharding, to: &Sharding) -> Option<Sharding> {
    let dims = 0..at.dims.len();
    dims.clone().find_map(|target| {
        let next_axes = wanted(at, to, target)?;
        let first = next_axes.first()?;
        dims.clone().filter(|&source| source != target).find_map(|source| {
            let keep = at.dims[source].iter().position(|axis| axis == first)?;
            let mut next = at.clone();
            let run: AxisList = next.dims[source].drain(keep..).collect();
            next.dims[target].extend(run.iter().copied());
            next_axes.starts_with(&run).then_some(next)
        })
    })
}

/// Without the last axis of a dimension that has one too many: first one that `to` does not use.
fn gathered(at: &Sharding, to: &Sharding) -> Option<Sharding> {
    let too_many = (0..at.dims.len()).filter(|&dim| wanted(at, to, dim).is_none());
    let dim = too_many.min_by_key(|&dim| at.dims[dim].last().is_some_and(|&axis| to.uses(axis)))?;
    let mut next = at.clone();
    next.dims[dim].pop();
    Some(next)
}

#[cfg(test)]
mod tests {
    use shardwise_ir::ids::AxisId;

    use super::*;

    fn sharding(dims: [&[usize]; 3]) -> Sharding {
        let axes = |axes: &[usize]| -> AxisList {
            axes.iter().map(|&axis| AxisRef::whole(AxisId::new(axis))).collect()
        };
        Sharding { dims: dims.iter().map(|dim| axes(dim)).collect(), ..Sharding::replicated(3) }
    }

    fn way(from: [&[usize]; 3], to: [&[usize]; 3]) -> Vec<Sharding> {
        direct_way(&sharding(from), &sharding(to))
    }

    #[test]
    fn new_axes_are_sliced_before_others_are_gathered() {
        let through = [[&[0][..], &[1, 2], &[3]], [&[], &[1, 2], &[3]], [&[], &[1], &[3]]];
        let mut expected: Vec<Sharding> = through.map(sharding).into();
        expected.push(sharding([&[], &[], &[3]]));
        assert_eq!(way([&[0], &[1, 2], &[]], [&[], &[], &[3]]), expected);
    }

    #[test]
    fn runs_of_axes_move_to_their_dimensions() {
        let expected = [
            sharding([&[0], &[1, 2, 3], &[4]]),
            sharding([&[0, 2, 3], &[1], &[4]]),
            sharding([&[0, 2, 3], &[], &[4]]),
        ];
        assert_eq!(way([&[0], &[1, 2, 3, 4], &[]], [&[0, 2, 3], &[], &[4]]), expected);
    }

    #[test]
    fn every_way_ends_at_its_target() {
        let all = [
            [&[0, 1][..], &[2], &[]],
            [&[1, 0], &[], &[2]],
            [&[], &[2, 1, 0], &[]],
            [&[2], &[1], &[0]],
        ];
        for from in all {
            for to in all {
                let end = way(from, to).pop().unwrap_or_else(|| sharding(from));
                assert_eq!(end, sharding(to));
            }
        }
    }
}
