//! Collectives: the single step that leads from one sharding to another.
//!
//! The axes of the result are in printed order: those of a gather dimension by dimension, major to
//! minor; those of a reduction and of a Permute in mesh order; those of a scatter, an AllToAll and
//! a slice in order of the receiving dimensions.
//!
//! A scatter and an AllToAll may append axes that their operand does not use, in any order with
//! those that they reduce or move: over these each device cuts its block, and no byte is sent.
//! After the others they are the minor axes of their dimension, so that what a device keeps of its
//! block is strided. A Slice before does the same for major axes only. The alternative is a
//! sharding with a stride, which every operation would have to know.

use crate::mesh::Mesh;
use crate::plan::Collective;
use crate::program::CollectiveKind;
use crate::sharding::{AxisList, AxisRef, Reduction, Sharding};

/// Why a collective does not lead from its operand to its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CollectiveFault {
    /// The two have different numbers of dimensions.
    Rank,
    /// The unreduced set changes, and this kind of collective does not change it.
    PendingChanges,
    /// A gather drops `axis`, which is not trailing in the `list` at `position`.
    NotTrailing {
        /// Of the dimension.
        position: usize,
        /// The dropped axis.
        axis: AxisRef,
        /// All axes of the dimension.
        list: AxisList,
    },
    /// A gather, slice or scatter changes a dimension otherwise than by dropping or appending.
    Rearranges(usize),
    /// Axes become unreduced that were not.
    PendingAppears,
    /// No axis becomes unreduced.
    NothingPending,
    /// Partial maxima or minima cannot be made by zeros.
    NotASum,
    /// No unreduced axis is reduced.
    NothingReduced,
    /// A reduction or an unreduce changes a dimension.
    DimsChange,
    /// A scatter does not append all axes that it reduces.
    ScattersOthers,
    /// A slice appends no axis, or several.
    NotOneAxis,
    /// A slice, scatter or AllToAll appends, or an unreduce names, an axis that is in use.
    AxisInUse(AxisRef),
    /// An AllToAll that does not move trailing axes of dimensions to the ends of others.
    NotAMove,
    /// A Permute changes the local size of the dimension at this position.
    LocalSizeChanges(usize),
    /// Both shardings are the same.
    NothingChanges,
}

type Fallible<T> = Result<T, CollectiveFault>;
type Placed = (Vec<AxisRef>, Vec<usize>);

/// The collective of `kind` from one sharding to the other, or why there is none.
pub fn collective(
    mesh: &Mesh,
    kind: &CollectiveKind,
    from: &Sharding,
    to: &Sharding,
) -> Fallible<Collective> {
    if from.dims.len() != to.dims.len() {
        return Err(CollectiveFault::Rank);
    }
    let (axes, into) = match kind {
        CollectiveKind::AllGather => (gathered(from, to)?, Vec::new()),
        CollectiveKind::AllReduce => (reduced(from, to)?, Vec::new()),
        CollectiveKind::ReduceScatter => scattered(from, to)?,
        CollectiveKind::AllToAll => moved(from, to)?,
        CollectiveKind::Slice => sliced(from, to)?,
        CollectiveKind::Permute => (relabelled(mesh, from, to)?, Vec::new()),
        CollectiveKind::Unreduce => (unreduced(from, to)?, Vec::new()),
    };
    Ok(Collective { kind: kind.clone(), axes, into })
}

/// The collective from one sharding to the other, if there is one; the first in this order where
/// axes of one device allow several.
pub fn classify(mesh: &Mesh, from: &Sharding, to: &Sharding) -> Option<Collective> {
    let order = [
        CollectiveKind::Slice,
        CollectiveKind::AllGather,
        CollectiveKind::AllReduce,
        CollectiveKind::ReduceScatter,
        CollectiveKind::AllToAll,
        CollectiveKind::Permute,
        CollectiveKind::Unreduce,
    ];
    order.iter().find_map(|kind| collective(mesh, kind, from, to).ok())
}

fn pending_stays(from: &Sharding, to: &Sharding) -> Fallible<()> {
    if from.unreduced == to.unreduced { Ok(()) } else { Err(CollectiveFault::PendingChanges) }
}

fn gathered(from: &Sharding, to: &Sharding) -> Fallible<Vec<AxisRef>> {
    pending_stays(from, to)?;
    let mut axes = Vec::new();
    for (position, (before, after)) in from.dims.iter().zip(&to.dims).enumerate() {
        if !before.starts_with(after) {
            let gone = before.iter().find(|axis| !after.contains(axis)).copied();
            return Err(gone.map_or(CollectiveFault::Rearranges(position), |axis| {
                CollectiveFault::NotTrailing { position, axis, list: before.clone() }
            }));
        }
        axes.extend_from_slice(&before[after.len()..]);
    }
    if axes.is_empty() { Err(CollectiveFault::NothingChanges) } else { Ok(axes) }
}

fn reduced_axes(from: &Sharding, to: &Sharding) -> Fallible<Vec<AxisRef>> {
    let (before, after) = (&from.unreduced, &to.unreduced);
    let left = after.axes().iter().all(|axis| before.axes().contains(axis))
        && (after.is_empty() || after.kind() == before.kind());
    if !left {
        return Err(CollectiveFault::PendingAppears);
    }
    let gone: Vec<AxisRef> =
        before.axes().iter().copied().filter(|axis| !after.axes().contains(axis)).collect();
    if gone.is_empty() { Err(CollectiveFault::NothingReduced) } else { Ok(gone) }
}

fn reduced(from: &Sharding, to: &Sharding) -> Fallible<Vec<AxisRef>> {
    if from.dims != to.dims {
        return Err(CollectiveFault::DimsChange);
    }
    reduced_axes(from, to)
}

/// The axes appended, dimension by dimension.
fn appended(from: &Sharding, to: &Sharding) -> Fallible<Placed> {
    let (mut axes, mut into) = (Vec::new(), Vec::new());
    for (position, (before, after)) in from.dims.iter().zip(&to.dims).enumerate() {
        if !after.starts_with(before) {
            return Err(CollectiveFault::Rearranges(position));
        }
        axes.extend_from_slice(&after[before.len()..]);
        into.resize(axes.len(), position);
    }
    Ok((axes, into))
}

fn scattered(from: &Sharding, to: &Sharding) -> Fallible<Placed> {
    let gone = reduced_axes(from, to)?;
    let placed = appended(from, to)?;
    free_beside(from, &placed.0, &gone)?.ok_or(CollectiveFault::ScattersOthers)?;
    Ok(placed)
}

/// Whether appended axes are those that a collective moves or reduces, each once, and beside them
/// only axes that nothing uses; `None` where one of the former is not appended.
fn free_beside(from: &Sharding, appended: &[AxisRef], moved: &[AxisRef]) -> Fallible<Option<()>> {
    let mut others = appended.to_vec();
    for axis in moved {
        let Some(place) = others.iter().position(|other| other == axis) else { return Ok(None) };
        others.remove(place);
    }
    let is_taken =
        |&(place, axis): &(usize, &AxisRef)| from.uses(*axis) || others[..place].contains(axis);
    match others.iter().enumerate().find(is_taken) {
        Some((_, &axis)) => Err(CollectiveFault::AxisInUse(axis)),
        None => Ok(Some(())),
    }
}

fn sliced(from: &Sharding, to: &Sharding) -> Fallible<Placed> {
    pending_stays(from, to)?;
    let placed = appended(from, to)?;
    match placed.0[..] {
        [axis] if from.uses(axis) => Err(CollectiveFault::AxisInUse(axis)),
        [_] => Ok(placed),
        _ => Err(CollectiveFault::NotOneAxis),
    }
}

/// Every dimension drops trailing axes or gets some appended: those dropped, and axes that nothing
/// uses.
fn moved(from: &Sharding, to: &Sharding) -> Fallible<Placed> {
    pending_stays(from, to)?;
    let (mut axes, mut into, mut dropped) = (Vec::new(), Vec::new(), Vec::new());
    for (position, (before, after)) in from.dims.iter().zip(&to.dims).enumerate() {
        match (after.strip_prefix(before.as_slice()), before.strip_prefix(after.as_slice())) {
            (Some(run), _) => axes.extend_from_slice(run),
            (None, Some(run)) => dropped.extend_from_slice(run),
            (None, None) => return Err(CollectiveFault::NotAMove),
        }
        into.resize(axes.len(), position);
    }
    if dropped.is_empty() {
        return Err(CollectiveFault::NotAMove);
    }
    free_beside(from, &axes, &dropped)?.ok_or(CollectiveFault::NotAMove)?;
    Ok((axes, into))
}

fn relabelled(mesh: &Mesh, from: &Sharding, to: &Sharding) -> Fallible<Vec<AxisRef>> {
    pending_stays(from, to)?;
    let parts =
        |axes: &AxisList| axes.iter().fold(1_u64, |n, axis| n.saturating_mul(axis.size(mesh)));
    if let Some(position) = from.dims.iter().zip(&to.dims).position(|(a, b)| parts(a) != parts(b)) {
        return Err(CollectiveFault::LocalSizeChanges(position));
    }
    let changed = from.dims.iter().zip(&to.dims).filter(|(a, b)| a != b);
    let mut axes: Vec<AxisRef> = changed.flat_map(|(a, b)| a.iter().chain(b).copied()).collect();
    axes.sort_unstable();
    axes.dedup();
    if axes.is_empty() { Err(CollectiveFault::NothingChanges) } else { Ok(axes) }
}

/// The axes over which a sum is pending afterwards and was not before.
fn unreduced(from: &Sharding, to: &Sharding) -> Fallible<Vec<AxisRef>> {
    if from.dims != to.dims {
        return Err(CollectiveFault::DimsChange);
    }
    let (before, after) = (&from.unreduced, &to.unreduced);
    if after.kind() != Reduction::Sum || !(before.is_empty() || before.kind() == Reduction::Sum) {
        return Err(CollectiveFault::NotASum);
    }
    if !before.axes().iter().all(|axis| after.axes().contains(axis)) {
        return Err(CollectiveFault::PendingChanges);
    }
    let new: Vec<AxisRef> =
        after.axes().iter().copied().filter(|axis| !before.axes().contains(axis)).collect();
    match new.iter().find(|axis| from.uses(**axis)) {
        Some(&used) => Err(CollectiveFault::AxisInUse(used)),
        None if new.is_empty() => Err(CollectiveFault::NothingPending),
        None => Ok(new),
    }
}
