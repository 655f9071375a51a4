//! The effect of each collective on a sharding, by its definition, implemented independently of the
//! planner and the verifier. Blocks are exchanged according to the sharding before and the one
//! computed here; the left side is compared with the result afterwards.

use shardwise_ir::mesh::Mesh;
use shardwise_ir::plan::Collective;
use shardwise_ir::program::CollectiveKind;
use shardwise_ir::sharding::{AxisList, AxisRef, Reduction, Sharding, Unreduced};

/// The sharding after `collective` on a value sharded as `from`; `None` where it does not apply.
/// The text of a Permute names the participating axes, its left side the result.
pub(super) fn result(
    mesh: &Mesh,
    collective: &Collective,
    from: &Sharding,
    written: &Sharding,
) -> Option<Sharding> {
    let mut to = from.clone();
    let placed = || collective.axes.iter().copied().zip(collective.into.iter().copied());
    match collective.kind {
        CollectiveKind::AllGather => strip(&mut to.dims, &collective.axes)?,
        CollectiveKind::AllReduce => to.unreduced = reduced(from, &collective.axes)?,
        CollectiveKind::ReduceScatter => {
            to.unreduced = reduced(from, &moved(from, &collective.axes)?)?;
            append(&mut to, placed())?;
        }
        CollectiveKind::AllToAll => {
            strip(&mut to.dims, &moved(from, &collective.axes)?)?;
            let shorter = |position: usize| to.dims[position].len() < from.dims[position].len();
            let receives_sliced = |(axis, position): (AxisRef, usize)| {
                !from.uses(axis) && position < to.dims.len() && shorter(position)
            };
            if placed().any(receives_sliced) {
                return None;
            }
            append(&mut to, placed())?;
        }
        CollectiveKind::Slice => append(&mut to, placed())?,
        CollectiveKind::Unreduce => to.unreduced = unreduced(from, &collective.axes)?,
        CollectiveKind::Permute => {
            to.dims = written.dims.clone();
            relabels(mesh, &collective.axes, from, &to)?;
        }
    }
    Some(to)
}

/// Exactly `axes` change places, and every dimension's blocks stay as long.
fn relabels(mesh: &Mesh, axes: &[AxisRef], from: &Sharding, to: &Sharding) -> Option<()> {
    let parts = |list: &AxisList| list.iter().map(|axis| axis.size(mesh)).product::<u64>();
    let changed: Vec<(&AxisList, &AxisList)> =
        from.dims.iter().zip(&to.dims).filter(|(a, b)| a != b).collect();
    let taking_part =
        |axis: &AxisRef| changed.iter().any(|(a, b)| a.contains(axis) || b.contains(axis));
    let named =
        changed.iter().flat_map(|(a, b)| a.iter().chain(b.iter())).all(|axis| axes.contains(axis));
    (named && axes.iter().all(taking_part) && changed.iter().all(|(a, b)| parts(a) == parts(b)))
        .then_some(())
}

/// Of the axes that a scatter or an AllToAll appends, those that its operand uses: the others are
/// sliced. `None` if all are.
fn moved(from: &Sharding, axes: &[AxisRef]) -> Option<Vec<AxisRef>> {
    let moved: Vec<AxisRef> = axes.iter().copied().filter(|&axis| from.uses(axis)).collect();
    (!moved.is_empty()).then_some(moved)
}

/// Removes all of `axes` from the ends of the lists.
fn strip(dims: &mut [AxisList], axes: &[AxisRef]) -> Option<()> {
    let mut left = axes.len();
    for list in dims {
        while list.last().is_some_and(|last| axes.contains(last)) {
            list.pop();
            left = left.checked_sub(1)?;
        }
    }
    (left == 0).then_some(())
}

fn append(to: &mut Sharding, placed: impl Iterator<Item = (AxisRef, usize)>) -> Option<()> {
    for (axis, position) in placed {
        if to.uses(axis) {
            return None;
        }
        to.dims.get_mut(position)?.push(axis);
    }
    Some(())
}

fn reduced(from: &Sharding, axes: &[AxisRef]) -> Option<Unreduced> {
    let pending = from.unreduced.axes();
    let rest = pending.iter().copied().filter(|axis| !axes.contains(axis));
    axes.iter()
        .all(|axis| pending.contains(axis))
        .then(|| Unreduced::new(from.unreduced.kind(), rest))
}

fn unreduced(from: &Sharding, axes: &[AxisRef]) -> Option<Unreduced> {
    let pending = &from.unreduced;
    let is_sum = pending.is_empty() || pending.kind() == Reduction::Sum;
    let free = axes.iter().all(|&axis| !from.uses(axis));
    let all = pending.axes().iter().chain(axes).copied();
    (is_sum && free).then(|| Unreduced::new(Reduction::Sum, all))
}
