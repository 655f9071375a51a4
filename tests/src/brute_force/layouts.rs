//! All layouts of an operation, with the shardings of operands and result and the time of each.

use shardwise_ir::ids::{AxisId, DimId, ValueId};
use shardwise_ir::mesh::AxisKind;
use shardwise_ir::program::{MapFn, MapForm, Op, OpKind};
use shardwise_ir::rearrange::{Rearrange, Roll, Window};
use shardwise_ir::sharding::Reduction;

use super::{Assignment, Brute, Goal, Layout, State, sharding};

impl Brute<'_> {
    /// Every assignment of axes to indices (in every order), to a pass-through, or to nothing.
    pub(super) fn layouts(&self, op: &Op) -> Vec<Layout> {
        let dims = |value: ValueId| self.program.values[value].dims.clone();
        let mut indices: Vec<DimId> =
            op.operands.iter().flat_map(|operand| dims(operand.value)).collect();
        // Any part of what is computed from nothing, or repeated, can be computed.
        if let OpKind::Map(MapFn { form: MapForm::Broadcast(_), .. }) = &op.kind {
            indices.extend(dims(op.result));
        }
        if op.operands.is_empty() {
            indices = dims(op.result);
        }
        indices.sort_unstable();
        indices.dedup();
        let through = self.through(op);
        // The states of an imaginary value over all indices are the orders; pass-throughs are one
        // more imaginary dimension each.
        let mut all: Vec<Assignment> =
            vec![(vec![Vec::new(); indices.len()], vec![Vec::new(); through.len()])];
        for axis in 0..self.axes() {
            let mut next = all.clone();
            for (split, partial) in &all {
                for index in 0..indices.len() {
                    for place in 0..=split[index].len() {
                        let mut split = split.clone();
                        split[index].insert(place, axis);
                        next.push((split, partial.clone()));
                    }
                }
                for channel in 0..through.len() {
                    let mut partial = partial.clone();
                    partial[channel].push(axis);
                    next.push((split.clone(), partial));
                }
            }
            all = next;
        }
        let may_split = |axes: &[usize], dim: DimId| {
            axes.is_empty() || (self.divides(dim, axes) && !self.needs_all(op, dim, axes))
        };
        all.retain(|(split, _)| {
            split.iter().zip(&indices).all(|(axes, &dim)| may_split(axes, dim))
        });
        all.into_iter()
            .filter_map(|(split, partial)| self.project(op, &indices, &through, &split, &partial))
            .collect()
    }

    /// Operands that may carry partial results over the same axes, the kind of these, and the kind
    /// of the result's.
    fn through(&self, op: &Op) -> Vec<(Vec<usize>, Reduction, Reduction)> {
        let all: Vec<usize> = (0..op.operands.len()).collect();
        let sum = |operands: Vec<usize>| (operands, Reduction::Sum, Reduction::Sum);
        let kind = |k: usize| self.kind(op.operands[k].value);
        match &op.kind {
            OpKind::Einsum { .. } => vec![sum(vec![0]), sum(vec![1])],
            OpKind::Gather { .. } | OpKind::ScatterAdd { .. } => vec![sum(vec![0])],
            OpKind::Update { .. } => vec![(vec![0, 2], kind(0), kind(0))],
            OpKind::Map(function) => {
                let sums = Some(function.linearity.operands(all.len()));
                let sums = sums.filter(|operands| !operands.is_empty());
                let extremum = all.iter().filter(|&&k| kind(k) != Reduction::Sum);
                let ordered = extremum.filter_map(|&k| {
                    Some((vec![k], kind(k), function.direction(k)?.through(kind(k))))
                });
                sums.map(sum).into_iter().chain(ordered).collect()
            }
            OpKind::Reduce { function, .. } => {
                vec![(vec![0], function.reduction(), function.reduction())]
            }
            OpKind::Rearrange(_) => vec![(all, kind(0), kind(0))],
            OpKind::Along(along) if along.function.row().is_linear => vec![sum(vec![0])],
            OpKind::Along(_)
            | OpKind::Opaque(_)
            | OpKind::Composite { .. }
            | OpKind::Route(_)
            | OpKind::Collective(_) => vec![],
        }
    }

    fn project(
        &self,
        op: &Op,
        indices: &[DimId],
        through: &[(Vec<usize>, Reduction, Reduction)],
        split: &[Vec<usize>],
        partial: &[Vec<usize>],
    ) -> Option<Layout> {
        let of = |dim: &DimId| {
            indices
                .iter()
                .position(|index| index == dim)
                .map(|i| split[i].clone())
                .unwrap_or_default()
        };
        let used = || through.iter().zip(partial).filter(|(_, axes)| !axes.is_empty());
        if used().any(|((who, takes, _), _)| {
            who.iter().any(|&k| self.kind(op.operands[k].value) != *takes)
        }) {
            return None;
        }
        let mut needs = Vec::new();
        for (k, operand) in op.sharded_operands().iter().enumerate() {
            let mut pending: Vec<usize> = used()
                .filter(|((who, ..), _)| who.contains(&k))
                .flat_map(|(_, axes)| axes.clone())
                .collect();
            pending.sort_unstable();
            let state = (self.program.values[operand.value].dims.iter().map(of).collect(), pending);
            if operand.pin.as_ref().is_some_and(|pin| !pin.accepts(&sharding(&state))) {
                return None;
            }
            needs.push(state);
        }
        let kept = &self.program.values[op.result].dims;
        let moved = matches!(op.kind, OpKind::Rearrange(_));
        let summed: Vec<usize> =
            indices.iter().filter(|dim| !moved && !kept.contains(dim)).flat_map(of).collect();
        let own = if let OpKind::Reduce { function, .. } = &op.kind {
            function.reduction()
        } else {
            Reduction::Sum
        };
        let mut kinds =
            used().map(|((.., gives), _)| *gives).chain((!summed.is_empty()).then_some(own));
        if kinds.any(|kind| kind != self.kind(op.result)) {
            return None;
        }
        let mut pending: Vec<usize> = partial.iter().flatten().copied().chain(summed).collect();
        pending.sort_unstable();
        let gives = (kept.iter().map(|dim| of(&before(op, *dim))).collect(), pending);
        let entry_pin = op.result_pin.as_ref().filter(|_| op.is(&MapForm::LoopCarried));
        if entry_pin.is_some_and(|pin| !pin.accepts(&sharding(&gives))) {
            return None;
        }
        let seconds = match self.shift(op, indices, split, &gives) {
            Some(seconds) => seconds,
            None if self.goal == Goal::Comm => 0.0,
            None => self.work(op, indices, split, &needs, &gives),
        };
        Some(Layout { needs, gives, seconds })
    }

    /// Whether elements from all along a dimension (of a roll, from further than the next block)
    /// are needed at once.
    fn needs_all(&self, op: &Op, dim: DimId, axes: &[usize]) -> bool {
        match &op.kind {
            OpKind::Rearrange(
                Rearrange::Slice(Window { from, .. }) | Rearrange::Pad(Window { from, .. }),
            ) => *from == dim,
            OpKind::Rearrange(Rearrange::Concat { from, .. }) => from.contains(&dim),
            OpKind::Rearrange(Rearrange::Roll(Roll { dim: rolled, by })) if *rolled == dim => {
                let size = self.program.dims[dim].size;
                (*by).min(size - by) > size / self.parts(axes)
            }
            OpKind::Update { .. } => !self.program.values[op.result].dims.contains(&dim),
            OpKind::Along(along) => along.from == dim,
            OpKind::Opaque(opaque) => opaque.from.contains(&dim),
            _ => false,
        }
    }

    /// Of which kind partial results of a value are, if it has any.
    pub(super) fn kind(&self, value: ValueId) -> Reduction {
        let Some(op) = self.program.dataflow().definition(value).map(|op| &self.program.ops[op])
        else {
            return Reduction::Sum;
        };
        let of = |k: usize| self.kind(op.operands[k].value);
        match &op.kind {
            OpKind::Reduce { function, .. } => function.reduction(),
            OpKind::Rearrange(_) | OpKind::Update { .. } => of(0),
            OpKind::Map(function) => {
                let all: Vec<usize> = (0..op.operands.len()).collect();
                let summing = function.linearity.operands(all.len());
                let sums = !summing.is_empty() && summing.iter().all(|&k| of(k) == Reduction::Sum);
                let ordered = || {
                    all.iter().find_map(|&k| {
                        Some(function.direction(k)?.through(of(k)))
                            .filter(|kind| *kind != Reduction::Sum)
                    })
                };
                if sums { Reduction::Sum } else { ordered().unwrap_or_default() }
            }
            _ => Reduction::Sum,
        }
    }

    /// How long it takes to send what is rolled out of blocks to the devices next to them.
    fn shift(
        &self,
        op: &Op,
        indices: &[DimId],
        split: &[Vec<usize>],
        gives: &State,
    ) -> Option<f64> {
        let OpKind::Rearrange(Rearrange::Roll(Roll { dim, by })) = op.kind else { return None };
        let axes = &split[indices.iter().position(|&index| index == dim)?];
        let size = self.program.dims[dim].size;
        let bytes =
            self.bytes(op.result, gives) * by.min(size - by) as f64 * self.parts(axes) as f64
                / size as f64;
        let along = |&axis: &usize| {
            let axis = &self.program.mesh.axes[AxisId::new(axis)];
            let hops = if axis.kind() == AxisKind::Line { axis.size - 1 } else { 1 };
            (bytes / axis.bandwidth()).max(hops as f64 * axis.hop_s())
        };
        axes.iter().map(along).reduce(f64::max)
    }

    fn work(
        &self,
        op: &Op,
        indices: &[DimId],
        split: &[Vec<usize>],
        needs: &[State],
        gives: &State,
    ) -> f64 {
        let size = self.bytes(op.result, gives);
        // What the operation's kernel has on the chip is neither read nor written.
        let written = if op.kernel.result_on_chip { 0.0 } else { size };
        let is_there = |k: usize| op.kernel.has_on_chip(k);
        let of = |k: usize| {
            if is_there(k) { 0.0 } else { self.bytes_read(op.operands[k].value, &needs[k]) }
        };
        let copied = match &op.kind {
            OpKind::Map(MapFn { form: MapForm::LoopCarried | MapForm::Last, .. }) => Some(0.0),
            OpKind::Rearrange(Rearrange::Rename(_) | Rearrange::Reshape(_)) => {
                Some(if is_there(0) { written } else { 0.0 })
            }
            OpKind::Rearrange(Rearrange::Slice(_) | Rearrange::Roll(_)) => Some(2.0 * size),
            OpKind::Gather { .. } => Some(size + written + of(1)),
            OpKind::Update { .. } => Some(written + of(0) + of(1) + 2.0 * of(2)),
            _ => None,
        };
        let hardware = &self.program.hardware;
        if matches!(op.kind, OpKind::Map(MapFn { form: MapForm::Host(_), .. })) {
            return size / hardware.host_bandwidth.unwrap_or(f64::INFINITY);
        }
        let hbm = hardware.hbm_bandwidth.unwrap_or(f64::INFINITY);
        if let Some(bytes) = copied {
            return bytes / hbm;
        }
        if matches!(op.kind, OpKind::ScatterAdd { .. }) {
            let dtypes: Vec<_> = op
                .operands
                .iter()
                .map(|operand| self.program.values[operand.value].dtype)
                .collect();
            let (elements, dtype) = (
                of(0) * 8.0 / f64::from(dtypes[0].bits()),
                dtypes.into_iter().max().unwrap_or_default(),
            );
            return (elements / hardware.peak_flops(dtype)).max((written + of(0) + of(1)) / hbm);
        }
        let points: f64 = indices
            .iter()
            .zip(split)
            .map(|(&dim, axes)| (self.program.dims[dim].size / self.parts(axes)) as f64)
            .product();
        let per_point = match &op.kind {
            OpKind::Einsum { contracted } if !contracted.is_empty() => 2.0,
            OpKind::Opaque(_) => 0.0,
            _ => 1.0,
        };
        let bytes = written + (0..needs.len()).map(of).sum::<f64>();
        let dtype = op
            .operands
            .iter()
            .map(|operand| self.program.values[operand.value].dtype)
            .max()
            .unwrap_or_default();
        (per_point * points / self.program.hardware.peak_flops(dtype)).max(bytes / hbm)
    }
}

/// What a dimension of the result was called in the operand.
fn before(op: &Op, dim: DimId) -> DimId {
    match &op.kind {
        OpKind::Rearrange(Rearrange::Rename(pairs)) => {
            pairs.iter().find(|(_, new)| *new == dim).map_or(dim, |(old, _)| *old)
        }
        _ => dim,
    }
}
