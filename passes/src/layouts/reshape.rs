//! The axes of a value after a reshape: every dimension is split into its factors, and these are
//! merged.
//!
//! Axes fill the factors of a dimension from the major one on: the next factor is sharded only when
//! the previous one is sharded completely, else a device would hold several ranges of the dimension
//! instead of one block. Where a sharding cannot pass, the planner inserts a reshard first.

use shardwise_ir::ids::DimId;
use shardwise_ir::program::Program;
use shardwise_ir::rearrange::{Regroup, atoms};
use shardwise_ir::sharding::AxisList;

use crate::layouts::local_shape::parts;

/// A factor and the axes that split it.
type SplitFactor = (DimId, AxisList);

/// The axes of each dimension of `group.to`, given those of `group.from` in `lists`; `None` where a
/// device would hold several ranges.
pub(crate) fn regrouped(
    program: &Program,
    group: &Regroup,
    lists: &[AxisList],
) -> Option<Vec<AxisList>> {
    carried(program, &group.from, &group.to, lists)
}

/// The inverse: the axes of `group.from` for which those of `group.to` are as in `lists`.
pub(crate) fn before(
    program: &Program,
    group: &Regroup,
    lists: &[AxisList],
) -> Option<Vec<AxisList>> {
    carried(program, &group.to, &group.from, lists)
}

fn carried(
    program: &Program,
    from: &[DimId],
    to: &[DimId],
    lists: &[AxisList],
) -> Option<Vec<AxisList>> {
    let padded = from.iter().chain(to).any(|&dim| program.dims[dim].pad);
    if padded && lists.iter().any(|axes| !axes.is_empty()) {
        return None;
    }
    let mut factors: Vec<SplitFactor> = Vec::new();
    for (&dim, axes) in from.iter().zip(lists) {
        factors.extend(taken_apart(program, dim, axes)?);
    }
    let mut factors = factors.into_iter();
    to.iter()
        .map(|&dim| {
            put_together(
                program,
                &factors.by_ref().take(atoms(&program.dims, dim).len()).collect::<Vec<_>>(),
            )
        })
        .collect()
}

fn taken_apart(program: &Program, dim: DimId, axes: &AxisList) -> Option<Vec<SplitFactor>> {
    let mut factors: Vec<SplitFactor> =
        atoms(&program.dims, dim).into_iter().map(|atom| (atom, AxisList::new())).collect();
    let mut at = 0;
    let left = |(atom, axes): &SplitFactor| program.dims[*atom].size / parts(&program.mesh, axes);
    for &axis in axes {
        while left(&factors[at]) == 1 && axis.size(&program.mesh) > 1 {
            at = Some(at + 1).filter(|&next| next < factors.len())?;
        }
        if !left(&factors[at]).is_multiple_of(axis.size(&program.mesh)) {
            return None;
        }
        factors[at].1.push(axis);
    }
    Some(factors)
}

fn put_together(program: &Program, factors: &[SplitFactor]) -> Option<AxisList> {
    let mut whole = AxisList::new();
    let mut complete = true;
    for (atom, axes) in factors {
        if !complete && !axes.is_empty() {
            return None;
        }
        whole.extend(axes.iter().copied());
        complete &= parts(&program.mesh, axes) == program.dims[*atom].size;
    }
    Some(whole)
}
