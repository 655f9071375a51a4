//! Every way to lay out one operation on the mesh.
//!
//! A layout sends each mesh axis to one of the operation's indices (the iteration space is split there), to a pass-through of partial sums
//! (the operation is linear in what carries them), or to nothing (the devices along it repeat the work). From it follow what each operand must
//! look like and what the operation gives: an axis on a summed index leaves the result unreduced over it.

use shardwise_ir::ids::DimId;
use shardwise_ir::program::{Linearity, Op, OpKind, Program};
use shardwise_ir::sharding::{AxisList, AxisRef, Reduction, Sharding, Unreduced};

use crate::local;

/// What each operand must be, and what comes out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// One sharding an operand.
    pub needs: Vec<Sharding>,
    /// What the operation gives.
    pub gives: Sharding,
}

/// The index names of an operation: the dimensions of its operands, in order of appearance.
pub fn indices(program: &Program, op: &Op) -> Vec<DimId> {
    let mut indices = Vec::new();
    for dim in op.operands.iter().flat_map(|operand| &program.values[operand.value].dims) {
        if !indices.contains(dim) {
            indices.push(*dim);
        }
    }
    indices
}

/// The sets of operands that may carry the same partial sums into the operation.
pub fn channels(op: &Op) -> Vec<Vec<usize>> {
    let all: Vec<usize> = (0..op.operands.len()).collect();
    match &op.kind {
        OpKind::Einsum { .. } => all.into_iter().map(|operand| vec![operand]).collect(),
        OpKind::Map(function) => match function.linearity {
            Linearity::None => Vec::new(),
            Linearity::Joint => vec![all],
            Linearity::First => vec![vec![0]],
            Linearity::Last => vec![vec![all.len() - 1]],
        },
        OpKind::Reduce { function, .. } if function.reduction() == Reduction::Sum => vec![all],
        OpKind::Reduce { .. } | OpKind::Collective(_) => Vec::new(),
    }
}

/// How results of `op` are partial when an index that it sums (or takes the maximum of) is split.
pub fn reduction(op: &Op) -> Reduction {
    if let OpKind::Reduce { function, .. } = &op.kind { function.reduction() } else { Reduction::Sum }
}

/// An assignment of axes, before it is projected on operands and result.
#[derive(Clone, PartialEq, Eq)]
struct Assignment {
    split: Vec<AxisList>,
    partial: Vec<AxisList>,
}

impl Assignment {
    fn uses(&self, axis: AxisRef) -> bool {
        self.split.iter().chain(&self.partial).any(|axes| axes.contains(&axis))
    }
}

/// All layouts of `op` whose sizes divide, the least split first. `may_be_partial` says of which operands partial sums exist at all.
pub fn enumerate(program: &Program, op: &Op, may_be_partial: &[bool]) -> Vec<Layout> {
    let indices = indices(program, op);
    let mut channels = channels(op);
    channels.retain(|operands| operands.iter().all(|&operand| may_be_partial[operand]));
    let mut found = vec![Assignment { split: vec![AxisList::new(); indices.len()], partial: vec![AxisList::new(); channels.len()] }];
    for axis in program.mesh.ids().map(AxisRef::whole) {
        // Inserting the axis at every place of every list, into all assignments of the axes before it, gives each order once.
        let mut extended = Vec::new();
        for assignment in &found {
            debug_assert!(!assignment.uses(axis), "axes are taken one after another");
            extended.push(assignment.clone());
            for (index, &dim) in indices.iter().enumerate() {
                // Last place first: of equally good orders that of the mesh is preferred.
                for place in (0..=assignment.split[index].len()).rev() {
                    let mut next = assignment.clone();
                    next.split[index].insert(place, axis);
                    if local::divides(program, dim, &next.split[index]) {
                        extended.push(next);
                    }
                }
            }
            for channel in 0..channels.len() {
                let mut next = assignment.clone();
                next.partial[channel].push(axis);
                extended.push(next);
            }
        }
        found = extended;
    }
    found.iter().map(|assignment| project(program, op, &indices, &channels, assignment)).collect()
}

fn project(program: &Program, op: &Op, indices: &[DimId], channels: &[Vec<usize>], assignment: &Assignment) -> Layout {
    let split = |dim: &DimId| {
        let index = indices.iter().position(|i| i == dim);
        index.map(|index| assignment.split[index].clone()).unwrap_or_default()
    };
    let dims_of = |dims: &[DimId]| dims.iter().map(split).collect();
    let carried = |operand: usize| {
        let here = channels.iter().zip(&assignment.partial).filter(move |(operands, _)| operands.contains(&operand));
        here.flat_map(|(_, axes)| axes.iter().copied())
    };
    let needs = op.operands.iter().enumerate().map(|(k, operand)| Sharding {
        dims: dims_of(&program.values[operand.value].dims),
        unreduced: Unreduced::new(Reduction::Sum, carried(k)),
    });
    let kept = &program.values[op.result].dims;
    let summed = indices.iter().filter(|index| !kept.contains(index)).flat_map(split);
    let passed = assignment.partial.iter().flatten().copied();
    let unreduced = Unreduced::new(reduction(op), summed.chain(passed));
    Layout { needs: needs.collect(), gives: Sharding { dims: dims_of(kept), unreduced } }
}

/// What `op` gives when its operands are so sharded (which must fit together; see `shardwise_ir::verify` for whether they do).
pub fn gives(program: &Program, op: &Op, needs: &[Sharding]) -> Sharding {
    let split = |dim: &DimId| {
        let operands = op.operands.iter().zip(needs);
        let lists = operands.filter_map(|(operand, need)| {
            let position = program.values[operand.value].dims.iter().position(|d| d == dim)?;
            Some(&need.dims[position])
        });
        lists.max_by_key(|axes| axes.len()).cloned().unwrap_or_default()
    };
    let kept = &program.values[op.result].dims;
    let indices = indices(program, op);
    let summed = indices.iter().filter(|index| !kept.contains(index)).flat_map(split);
    let mut pending: Vec<AxisRef> = summed.chain(needs.iter().flat_map(|need| need.unreduced.axes().iter().copied())).collect();
    pending.sort_unstable();
    pending.dedup();
    Sharding { dims: kept.iter().map(split).collect(), unreduced: Unreduced::new(reduction(op), pending) }
}
