//! Local operations: the sharding of the result when each device computes on its own blocks.

use super::scale;
use crate::functions::Direction;
use crate::ids::DimId;
use crate::program::{MapFn, Op, OpKind, Program};
use crate::rearrange::{Rearrange, Roll, Window};
use crate::sharding::{AxisList, AxisRef, Reduction, Sharding, Unreduced};

/// Why an operation cannot run on local blocks. Operands are named by their position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalFault {
    /// An index is split differently in two operands (cases 2 and 4).
    SplitDifferently {
        /// The index.
        dim: DimId,
        /// The operands.
        operands: [usize; 2],
    },
    /// One axis on two indices: only diagonal blocks would be known (case 4).
    AxisConflict {
        /// The axis.
        axis: AxisRef,
        /// The operands that have it.
        operands: [usize; 2],
    },
    /// An index is split that must be unsharded: all its elements are needed at once.
    MustBeWhole {
        /// The index.
        dim: DimId,
        /// The operand that has it.
        operand: usize,
    },
    /// After a reshape a device would have several blocks.
    BlocksBreak {
        /// The axis that would split another dimension afterwards.
        axis: AxisRef,
        /// The dimension that it splits before.
        dim: DimId,
    },
    /// A partial operand where none may be.
    Partial {
        /// The operand.
        operand: usize,
        /// Why not.
        reason: PartialFault,
    },
}

/// Why an operation does not pass a partial operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartialFault {
    /// The operation is not linear in it.
    NotLinear,
    /// It is a partial maximum or minimum, and the operation does not keep the order of elements.
    NotMonotone,
    /// Operands carry partial results of different kinds.
    MixedKinds,
    /// Operands of a sum are partial over different axes.
    Mismatch,
    /// The axis also splits an index, or another factor is partial over it.
    AxisInUse(AxisRef),
}

/// An index of the operation: its axes, and the first operand that has it.
struct Index<'s> {
    dim: DimId,
    axes: &'s AxisList,
    operand: usize,
}

/// The sharding of the result of `op` on local blocks of operands in these shardings. Where a
/// device can compute any part of the result, `wanted` selects the part.
pub fn local_result(
    program: &Program,
    op: &Op,
    operands: &[&Sharding],
    wanted: Option<&Sharding>,
) -> Result<Sharding, LocalFault> {
    if op.operands.is_empty() {
        let rank = program.values[op.result].dims.len();
        let dims = wanted.map(|wanted| wanted.dims.clone());
        let dims = dims.unwrap_or_else(|| Sharding::replicated(rank).dims);
        return Ok(Sharding { dims, unreduced: Unreduced::default() });
    }
    let indices = indices(program, op, operands)?;
    let split = split_axes(program, op, &indices)?;
    let (kind, mut pending) = passed(op, operands, &split)?;
    let kind = unreduced_over_stages(program, op, kind, &mut pending)?;
    let kept = &program.values[op.result].dims;
    let axes_of = |dim: &DimId| {
        let index = indices.iter().find(|index| index.dim == *dim);
        index.map_or_else(AxisList::new, |index| index.axes.clone())
    };
    let contracted = || {
        let gone = indices.iter().filter(|index| !kept.contains(&index.dim));
        gone.flat_map(|index| index.axes.iter().copied())
    };
    let dims = match &op.kind {
        OpKind::Rearrange(Rearrange::Reshape(groups)) => {
            let lists: Vec<(DimId, &AxisList)> =
                indices.iter().map(|index| (index.dim, index.axes)).collect();
            scale::reshaped(program, groups, &lists, kept)
                .map_err(|(axis, dim)| LocalFault::BlocksBreak { axis, dim })?
        }
        // A device's block of the batch holds the same block of every microbatch, if that divides.
        OpKind::Rearrange(
            how @ (Rearrange::Rename(_)
            | Rearrange::Part { .. }
            | Rearrange::Join { .. }
            | Rearrange::Windows(_)
            | Rearrange::Overlap(_)),
        ) => {
            let pairs = how.relabelled().unwrap_or_default();
            let old = |dim: &DimId| {
                pairs.iter().find(|(_, new)| new == dim).map_or(*dim, |(old, _)| *old)
            };
            kept.iter().map(|dim| axes_of(&old(dim))).collect()
        }
        _ => {
            pending.extend(contracted());
            let is_free = |axis: &AxisRef| {
                !pending.contains(axis) && split.iter().all(|(used, _)| used != axis)
            };
            let selected = |place: usize| {
                let axes = wanted?.dims.get(place)?;
                axes.iter().all(is_free).then(|| axes.clone())
            };
            let is_any = |dim: &DimId| match &op.kind {
                OpKind::ScatterAdd { dim: places } => dim == places,
                _ => op.added_dims(program).contains(dim),
            };
            let axes = |(place, dim): (usize, &DimId)| {
                if is_any(dim) { selected(place).unwrap_or_default() } else { axes_of(dim) }
            };
            kept.iter().enumerate().map(axes).collect()
        }
    };
    Ok(Sharding { dims, unreduced: Unreduced::new(kind, pending) })
}

/// The axes that split any index, each with its operand.
fn split_axes(
    program: &Program,
    op: &Op,
    indices: &[Index<'_>],
) -> Result<Vec<(AxisRef, usize)>, LocalFault> {
    let mut split: Vec<(AxisRef, usize)> = Vec::new();
    for index in indices {
        if !index.axes.is_empty() && must_be_whole(program, op, index) {
            return Err(LocalFault::MustBeWhole { dim: index.dim, operand: index.operand });
        }
        for &axis in index.axes {
            if let Some(&(_, first)) = split.iter().find(|(used, _)| *used == axis) {
                return Err(LocalFault::AxisConflict { axis, operands: [first, index.operand] });
            }
            split.push((axis, index.operand));
        }
    }
    Ok(split)
}

/// A value that leaves a pipeline is a sum pending over its stages, to which the other stages
/// contribute zeros: a partial maximum would treat these as elements.
fn unreduced_over_stages(
    program: &Program,
    op: &Op,
    kind: Reduction,
    pending: &mut Vec<AxisRef>,
) -> Result<Reduction, LocalFault> {
    let Some(stages) = program.stage_axis(op) else { return Ok(kind) };
    if !pending.is_empty() && kind != Reduction::Sum {
        return Err(LocalFault::Partial { operand: 0, reason: PartialFault::MixedKinds });
    }
    pending.push(stages);
    Ok(Reduction::Sum)
}

/// Whether all elements along `dim` are needed at once.
fn must_be_whole(program: &Program, op: &Op, index: &Index<'_>) -> bool {
    let dim = index.dim;
    match &op.kind {
        // Elements that leave a block must not go further than the next one.
        OpKind::Rearrange(Rearrange::Roll(Roll { dim: rolled, by })) if *rolled == dim => {
            let size = program.dims[dim].size;
            let blocks =
                index.axes.iter().map(|axis| axis.size(&program.mesh)).fold(1, u64::saturating_mul);
            !size.is_multiple_of(blocks) || (*by > size / blocks && size - by > size / blocks)
        }
        OpKind::Rearrange(how @ (Rearrange::Windows(_) | Rearrange::Overlap(_))) => {
            let blocks =
                index.axes.iter().map(|axis| axis.size(&program.mesh)).fold(1, u64::saturating_mul);
            match (how.windows_along(dim), how) {
                (Some(windows), _) => windows.halo(|dim| program.dims[dim].size, blocks).is_none(),
                (None, Rearrange::Overlap(windows)) => windows.kernel == dim,
                (None, _) => false,
            }
        }
        OpKind::Composite { dims, .. } => dims.contains(&dim),
        OpKind::Along(along) => along.from == dim,
        OpKind::Opaque(opaque) => opaque.from.contains(&dim),
        OpKind::Rearrange(
            Rearrange::Slice(Window { from, .. })
            | Rearrange::Pad(Window { from, .. })
            | Rearrange::Chunk { from, .. },
        ) => *from == dim,
        OpKind::Rearrange(Rearrange::Concat { from, .. }) => from.contains(&dim),
        OpKind::Rearrange(Rearrange::Stack { from, .. }) => *from == Some(dim),
        OpKind::Route(route) => [route.tokens, route.experts].contains(&dim),
        // Of several rows with the same index a device would have its own only.
        OpKind::Update { .. } => !program.values[op.result].dims.contains(&dim),
        _ => false,
    }
}

fn indices<'s>(
    program: &Program,
    op: &Op,
    operands: &[&'s Sharding],
) -> Result<Vec<Index<'s>>, LocalFault> {
    let mut indices: Vec<Index<'s>> = Vec::new();
    for (operand, (used, sharding)) in op.sharded_operands().iter().zip(operands).enumerate() {
        for (&dim, axes) in program.values[used.value].dims.iter().zip(&sharding.dims) {
            match indices.iter().find(|index| index.dim == dim) {
                Some(index) if index.axes != axes => {
                    return Err(LocalFault::SplitDifferently {
                        dim,
                        operands: [index.operand, operand],
                    });
                }
                Some(_) => {}
                None => indices.push(Index { dim, axes, operand }),
            }
        }
    }
    Ok(indices)
}

/// The kind of the operands' partial results, and the unreduced axes that pass from operands to
/// result.
fn passed(
    op: &Op,
    operands: &[&Sharding],
    split: &[(AxisRef, usize)],
) -> Result<(Reduction, Vec<AxisRef>), LocalFault> {
    let own = if let OpKind::Reduce { function, .. } = &op.kind {
        function.reduction()
    } else {
        Reduction::Sum
    };
    let carriers: Vec<usize> =
        (0..op.sharded_operands().len()).filter(|&k| !operands[k].unreduced.is_empty()).collect();
    // An operand whose elements are not read may be partial.
    let Some(&first) = carriers.first().filter(|_| op.reads_elements()) else {
        return Ok((own, Vec::new()));
    };
    let fault = |operand: usize, reason: PartialFault| Err(LocalFault::Partial { operand, reason });
    let kind = operands[first].unreduced.kind();
    if let Some(&k) = carriers.iter().find(|&&k| operands[k].unreduced.kind() != kind) {
        return fault(k, PartialFault::MixedKinds);
    }
    let (given, together) =
        match if kind == Reduction::Sum { sums(op) } else { extrema(op, kind, first) } {
            Ok(Carried { given, together }) => (given, together),
            Err(reason) => return fault(first, reason),
        };
    let (only, joint) = match together {
        Together::Each => ((0..operands.len()).collect(), false),
        Together::Only(k) => (vec![k], false),
        Together::All(all) => (all, true),
    };
    if let Some(&k) = carriers.iter().find(|k| !only.contains(k)) {
        return fault(
            k,
            if kind == Reduction::Sum {
                PartialFault::NotLinear
            } else {
                PartialFault::NotMonotone
            },
        );
    }
    if joint && only.iter().any(|&k| operands[k].unreduced != operands[first].unreduced) {
        return fault(first, PartialFault::Mismatch);
    }
    let mut axes: Vec<AxisRef> = Vec::new();
    for &k in &carriers {
        for &axis in operands[k].unreduced.axes() {
            let taken = split.iter().any(|(used, _)| *used == axis);
            if taken || (!joint && axes.contains(&axis)) {
                return fault(k, PartialFault::AxisInUse(axis));
            }
            axes.push(axis);
        }
    }
    axes.sort_unstable();
    axes.dedup();
    Ok((given, axes))
}

/// Whether partial results of `kind` may pass through `operand` at all.
pub(super) fn may_pass(op: &Op, kind: Reduction, operand: usize) -> Result<(), PartialFault> {
    if kind == Reduction::Sum { sums(op) } else { extrema(op, kind, operand) }.map(|_| ())
}

/// The operands that may be partial together.
struct Carried {
    given: Reduction,
    together: Together,
}

enum Together {
    /// Any of them, over axes of its own.
    Each,
    /// This one.
    Only(usize),
    /// All of these, over the same axes.
    All(Vec<usize>),
}

fn sums(op: &Op) -> Result<Carried, PartialFault> {
    let all: Vec<usize> = (0..op.operands.len()).collect();
    let together = match &op.kind {
        OpKind::Einsum { .. } => Together::Each,
        OpKind::Gather { .. } | OpKind::ScatterAdd { .. } => Together::Only(0),
        OpKind::Update { .. } => Together::All(vec![0, 2]),
        OpKind::Rearrange(_) => Together::All(all),
        OpKind::Along(along) if along.function.row().is_linear => Together::All(all),
        OpKind::Reduce { function, .. } if function.reduction() == Reduction::Sum => {
            Together::All(all)
        }
        OpKind::Reduce { .. }
        | OpKind::Along(_)
        | OpKind::Opaque(_)
        | OpKind::Composite { .. }
        | OpKind::Route(_)
        | OpKind::Collective(_) => return Err(PartialFault::NotLinear),
        OpKind::Map(function) => match function.linearity.operands(all.len())[..] {
            [] => return Err(PartialFault::NotLinear),
            [only] => Together::Only(only),
            ref several => Together::All(several.to_vec()),
        },
    };
    Ok(Carried { given: Reduction::Sum, together })
}

fn extrema(op: &Op, kind: Reduction, carrier: usize) -> Result<Carried, PartialFault> {
    let through = |function: &MapFn| {
        function.direction(carrier).map(|direction: Direction| direction.through(kind))
    };
    let all = || Together::All((0..op.operands.len()).collect());
    match &op.kind {
        OpKind::Map(function) => through(function)
            .map(|given| Carried { given, together: Together::Only(carrier) })
            .ok_or(PartialFault::NotMonotone),
        OpKind::Reduce { function, .. } if function.reduction() == kind => {
            Ok(Carried { given: kind, together: all() })
        }
        OpKind::Rearrange(_) => Ok(Carried { given: kind, together: all() }),
        OpKind::Update { .. } => Ok(Carried { given: kind, together: Together::All(vec![0, 2]) }),
        _ => Err(PartialFault::NotMonotone),
    }
}
