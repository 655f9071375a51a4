//! Local operations: what blocks give when each device works on its own.

use crate::ids::DimId;
use crate::program::{Linearity, Op, OpKind, Program, ReduceFn};
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
    /// A partial operand where none may be.
    Partial {
        /// The operand.
        operand: usize,
        /// Why not.
        reason: PartialFault,
    },
}

/// Why a partial operand does not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartialFault {
    /// The operation is not linear in it.
    NotLinear,
    /// It is a partial maximum or minimum, which passes nowhere.
    NotASum,
    /// Operands of a sum are partial over different axes.
    Mismatch,
    /// The axis also splits an index, or another factor is partial over it.
    AxisInUse(AxisRef),
}

/// An index of the operation: how it is split, and in which operand that was seen first.
struct Index<'s> {
    dim: DimId,
    axes: &'s AxisList,
    operand: usize,
}

/// What `op` gives on local blocks of operands so sharded.
pub fn local_result(program: &Program, op: &Op, operands: &[&Sharding]) -> Result<Sharding, LocalFault> {
    let indices = indices(program, op, operands)?;
    let mut split: Vec<(AxisRef, usize)> = Vec::new();
    for index in &indices {
        for &axis in index.axes {
            if let Some(&(_, first)) = split.iter().find(|(used, _)| *used == axis) {
                return Err(LocalFault::AxisConflict { axis, operands: [first, index.operand] });
            }
            split.push((axis, index.operand));
        }
    }
    let mut pending = passed(op, operands, &split)?;
    let kept = &program.values[op.result].dims;
    pending.extend(indices.iter().filter(|index| !kept.contains(&index.dim)).flat_map(|index| index.axes.iter().copied()));
    let kind = if let OpKind::Reduce { function, .. } = &op.kind { function.reduction() } else { Reduction::Sum };
    let axes_of = |dim: &DimId| indices.iter().find(|index| index.dim == *dim).map_or_else(AxisList::new, |index| index.axes.clone());
    Ok(Sharding { dims: kept.iter().map(axes_of).collect(), unreduced: Unreduced::new(kind, pending) })
}

fn indices<'s>(program: &Program, op: &Op, operands: &[&'s Sharding]) -> Result<Vec<Index<'s>>, LocalFault> {
    let mut indices: Vec<Index<'s>> = Vec::new();
    for (operand, (used, sharding)) in op.operands.iter().zip(operands).enumerate() {
        for (&dim, axes) in program.values[used.value].dims.iter().zip(&sharding.dims) {
            match indices.iter().find(|index| index.dim == dim) {
                Some(index) if index.axes != axes => {
                    return Err(LocalFault::SplitDifferently { dim, operands: [index.operand, operand] });
                }
                Some(_) => {}
                None => indices.push(Index { dim, axes, operand }),
            }
        }
    }
    Ok(indices)
}

/// The unreduced axes that pass from operands to result.
fn passed(op: &Op, operands: &[&Sharding], split: &[(AxisRef, usize)]) -> Result<Vec<AxisRef>, LocalFault> {
    let carriers: Vec<usize> = (0..operands.len()).filter(|&k| !operands[k].unreduced.is_empty()).collect();
    let Some(&first) = carriers.first() else { return Ok(Vec::new()) };
    let fault = |operand: usize, reason: PartialFault| Err(LocalFault::Partial { operand, reason });
    if let Some(&k) = carriers.iter().find(|&&k| operands[k].unreduced.kind() != Reduction::Sum) {
        return fault(k, PartialFault::NotASum);
    }
    let joint = match &op.kind {
        OpKind::Einsum { .. } => false,
        OpKind::Reduce { function: ReduceFn::Sum | ReduceFn::Mean, .. } => true,
        OpKind::Reduce { .. } | OpKind::Collective(_) => return fault(first, PartialFault::NotLinear),
        OpKind::Map(function) => match function.linearity {
            Linearity::None => return fault(first, PartialFault::NotLinear),
            Linearity::Joint => true,
            Linearity::First => match carriers.iter().find(|&&k| k != 0) {
                Some(&k) => return fault(k, PartialFault::NotLinear),
                None => false,
            },
            Linearity::Last => match carriers.iter().find(|&&k| k + 1 != operands.len()) {
                Some(&k) => return fault(k, PartialFault::NotLinear),
                None => false,
            },
        },
    };
    if joint && operands.iter().any(|sharding| sharding.unreduced != operands[first].unreduced) {
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
    Ok(axes)
}
