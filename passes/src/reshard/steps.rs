//! The single steps from a sharding, with the shardings that they lead to: the collectives of the
//! language.
//!
//! * AllGather: removes trailing axes of one or several dimensions;
//! * Slice: appends one axis that the value does not use to a dimension;
//! * AllToAll: moves trailing axes of one or several dimensions to the ends of others, in any order
//!   (on meshes of more than three axes one run of them, from one dimension to another: there are
//!   so many exchanges that searches of large programs would end at their limits before they gain
//!   anything);
//! * ReduceScatter: appends unreduced axes to dimensions, in any order;
//! * AllToAll and ReduceScatter with slices in them: after an axis that a dimension gets, it gets
//!   others that the value does not use (not on meshes of more than three axes). The block of each
//!   other device is then cut by minor axes, which no Slice before can do; what is cut by major
//!   axes of a dimension, a Slice before does at the same price;
//! * AllReduce: removes unreduced axes;
//! * Permute: any relabelling that keeps every dimension's local size and the unreduced axes (found
//!   among the shardings of a space, not here);
//! * Unreduce: leaves a sum pending over axes that the value does not use.

use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;
use shardwise_ir::program::CollectiveKind;
use shardwise_ir::sharding::{AxisList, AxisRef, Reduction, Sharding, Unreduced};

/// Unreduced axes of which all arrangements are enumerated.
const MOST_ARRANGED: usize = 4;

/// The axes of a mesh on which one AllToAll may change more than two dimensions, and collectives
/// have slices in them.
const MOST_EXCHANGED: usize = 3;

/// Shardings and the collectives that lead to them.
pub(super) type Targets = Vec<(CollectiveKind, Sharding)>;

type States = IndexSet<Sharding, FxBuildHasher>;

/// A free axis at the end of a dimension.
pub(super) fn slices(from: &Sharding, free: &[AxisRef], targets: &mut Targets) {
    for &axis in free {
        for position in 0..from.dims.len() {
            let mut to = from.clone();
            to.dims[position].push(axis);
            targets.push((CollectiveKind::Slice, to));
        }
    }
}

/// Trailing axes of dimensions removed.
pub(super) fn gathers(from: &Sharding, targets: &mut Targets) {
    let mut partial = vec![from.clone()];
    for position in 0..from.dims.len() {
        for i in 0..partial.len() {
            for keep in 0..from.dims[position].len() {
                let mut to = partial[i].clone();
                to.dims[position].truncate(keep);
                partial.push(to);
            }
        }
    }
    targets.extend(partial.into_iter().skip(1).map(|to| (CollectiveKind::AllGather, to)));
}

/// Unreduced axes reduced.
pub(super) fn reduces(from: &Sharding, targets: &mut Targets) {
    let pending = from.unreduced.axes();
    for reduced in 1..1_u32 << pending.len() {
        let left = pending
            .iter()
            .enumerate()
            .filter(|(i, _)| reduced >> i & 1 == 0)
            .map(|(_, &axis)| axis);
        let to = Sharding {
            dims: from.dims.clone(),
            unreduced: Unreduced::new(from.unreduced.kind(), left),
        };
        targets.push((CollectiveKind::AllReduce, to));
    }
}

/// What a ReduceScatter makes of `from`, on a mesh of so many `axes`. There are so many
/// arrangements of many axes that it takes less to look for those among the `states`.
pub(super) fn scatters(
    from: &Sharding,
    free: &[AxisRef],
    axes: usize,
    states: &States,
    targets: &mut Targets,
) {
    if from.unreduced.axes().len() > MOST_ARRANGED {
        let scattered = states.iter().filter(|to| is_scattered(from, to));
        targets.extend(scattered.map(|to| (CollectiveKind::ReduceScatter, to.clone())));
        return;
    }
    let free = if axes > MOST_EXCHANGED { &[] } else { free };
    for to in arranged(from) {
        with_slices(from, &to, free, &mut |to| {
            targets.push((CollectiveKind::ReduceScatter, to));
        });
        targets.push((CollectiveKind::ReduceScatter, to));
    }
}

/// Whether one sharding is another one with some of its unreduced axes appended to dimensions.
fn is_scattered(from: &Sharding, to: &Sharding) -> bool {
    let appended = |(before, after): (&AxisList, &AxisList)| {
        let more = after.strip_prefix(before.as_slice());
        more.is_some_and(|more| more.iter().all(|axis| from.unreduced.axes().contains(axis)))
    };
    let left = to.unreduced.axes();
    left.len() < from.unreduced.axes().len()
        && left.iter().all(|axis| from.unreduced.axes().contains(axis))
        && (left.is_empty() || to.unreduced.kind() == from.unreduced.kind())
        && from.dims.iter().zip(&to.dims).all(appended)
        && to.axes().count() == from.axes().count()
}

/// Each arrangement of unreduced axes at the ends of dimensions.
fn arranged(from: &Sharding) -> impl Iterator<Item = Sharding> {
    let mut seen = States::default();
    seen.insert(from.clone());
    let mut next = 0;
    while next < seen.len() {
        let current = seen[next].clone();
        next += 1;
        for &axis in current.unreduced.axes() {
            let left = current.unreduced.axes().iter().copied().filter(|&a| a != axis);
            let unreduced = Unreduced::new(current.unreduced.kind(), left);
            for position in 0..from.dims.len() {
                let mut to = Sharding { dims: current.dims.clone(), unreduced: unreduced.clone() };
                to.dims[position].push(axis);
                seen.insert(to);
            }
        }
    }
    seen.into_iter().skip(1)
}

/// Calls `found` with each sharding that has, beside the axes that `to` has and `from` has not,
/// free axes after them in the same dimensions.
fn with_slices(from: &Sharding, to: &Sharding, free: &[AxisRef], found: &mut impl FnMut(Sharding)) {
    let grown = |&position: &usize| to.dims[position].len() > from.dims[position].len();
    for (number, &axis) in free.iter().enumerate() {
        for position in (0..to.dims.len()).filter(grown) {
            for place in from.dims[position].len() + 1..=to.dims[position].len() {
                let mut with = to.clone();
                with.dims[position].insert(place, axis);
                with_slices(from, &with, &free[number + 1..], found);
                found(with);
            }
        }
    }
}

/// What an AllToAll makes of `from`, on a mesh of so many `axes`.
pub(super) fn exchanges(from: &Sharding, free: &[AxisRef], axes: usize, targets: &mut Targets) {
    let is_large = axes > MOST_EXCHANGED;
    let (moved, free) = if is_large { (runs(from), &[][..]) } else { (exchanged(from), free) };
    for to in moved {
        with_slices(from, &to, free, &mut |to| {
            targets.push((CollectiveKind::AllToAll, to));
        });
        targets.push((CollectiveKind::AllToAll, to));
    }
}

/// Trailing axes of dimensions at the ends of others.
fn exchanged(from: &Sharding) -> Vec<Sharding> {
    let mut found = Vec::new();
    let mut stripped = vec![(from.clone(), Vec::new())];
    for position in 0..from.dims.len() {
        for i in 0..stripped.len() {
            for keep in 0..from.dims[position].len() {
                let (mut to, mut dropped): (Sharding, Vec<AxisRef>) = stripped[i].clone();
                dropped.extend(to.dims[position].drain(keep..));
                stripped.push((to, dropped));
            }
        }
    }
    for (left, dropped) in stripped.into_iter().skip(1) {
        let receivers: Vec<usize> =
            (0..from.dims.len()).filter(|&dim| left.dims[dim] == from.dims[dim]).collect();
        append_all(left, &dropped, &receivers, &mut found);
    }
    found
}

/// Each run of trailing axes to the end of another dimension.
fn runs(from: &Sharding) -> Vec<Sharding> {
    let mut found = Vec::new();
    for (source, axes) in from.dims.iter().enumerate() {
        for keep in 0..axes.len() {
            for receiver in (0..from.dims.len()).filter(|&receiver| receiver != source) {
                let mut to = from.clone();
                let run: AxisList = to.dims[source].drain(keep..).collect();
                to.dims[receiver].extend(run);
                found.push(to);
            }
        }
    }
    found
}

/// All shardings in which each of `axes` is appended to one of `receivers`, in every order.
fn append_all(to: Sharding, axes: &[AxisRef], receivers: &[usize], found: &mut Vec<Sharding>) {
    if axes.is_empty() {
        found.push(to);
        return;
    }
    // Dimensions are filled one after the other, so that each result is reached once.
    for (i, &receiver) in receivers.iter().enumerate() {
        for (place, &axis) in axes.iter().enumerate() {
            let mut with = to.clone();
            with.dims[receiver].push(axis);
            let rest = [&axes[..place], &axes[place + 1..]].concat();
            append_all(with, &rest, &receivers[i..], found);
        }
    }
}

/// Sums pending over free axes.
pub(super) fn unreduces(from: &Sharding, free: &[AxisRef], targets: &mut Targets) {
    for taken in 1..1_u32 << free.len() {
        let new = free.iter().enumerate().filter(|(i, _)| taken >> i & 1 == 1);
        let pending = from.unreduced.axes().iter().chain(new.map(|(_, axis)| axis)).copied();
        let unreduced = Unreduced::new(Reduction::Sum, pending);
        let to = Sharding { dims: from.dims.clone(), unreduced };
        targets.push((CollectiveKind::Unreduce, to));
    }
}
