//! The four matmul cases of the textbook, for one operation: the sharding that each operand should
//! have, given the current ones, and how a pending sum is reduced.

use shardwise_ir::ids::DimId;
use shardwise_ir::program::{CollectiveKind, Op, OpKind, Program};
use shardwise_ir::sharding::{AxisList, AxisRef, Pin, Reduction, Sharding, Unreduced};

use crate::layouts::op_layouts;
use crate::reshard::tables::Tables;

/// The sharding that each operand should have before the operation runs.
pub(crate) fn targets(
    tables: &Tables<'_>,
    op: &Op,
    starts: &[Sharding],
    wanted: Option<&Pin>,
) -> Vec<Sharding> {
    let mut targets: Vec<Sharding> = starts.to_vec();
    for target in &mut targets {
        target.unreduced = Unreduced::default();
    }
    match &op.kind {
        // An operand whose elements are not read stays as it is.
        OpKind::ScatterAdd { .. } => {
            targets[2].clone_from(&starts[2]);
            align(tables.program, op, &mut targets[..2]);
        }
        OpKind::Einsum { contracted } => {
            Product { tables, op, contracted, wanted }.lay_out(&mut targets);
        }
        _ => align(tables.program, op, &mut targets),
    }
    targets
}

/// Whether the operands fit together locally: every index is split alike in all operands, and no
/// axis splits two indices.
pub(crate) fn fit_together(program: &Program, op: &Op, needs: &[Sharding]) -> bool {
    let Some(gives) = op_layouts::result_sharding(program, op, needs) else { return false };
    let staged = program
        .pipeline(op.repeat)
        .map(|pipeline| AxisRef::whole(pipeline.axis))
        .or_else(|| program.stage_axis(op));
    if staged.is_some_and(|axis| needs.iter().any(|need| need.uses(axis))) {
        return false;
    }
    let indices = op_layouts::indices(program, op);
    let mut used: Vec<AxisRef> = Vec::new();
    indices.iter().all(|&index| {
        let mut lists = op
            .sharded_operands()
            .iter()
            .zip(needs)
            .filter_map(|(operand, need)| list(program, operand.value, need, index));
        let first = lists.next().cloned().unwrap_or_default();
        let fresh = first.iter().all(|axis| !used.contains(axis));
        used.extend(first.iter().copied());
        fresh && lists.all(|other| *other == first)
    }) && gives.axes().count() <= program.mesh.splitting().count()
}

fn list<'s>(
    program: &Program,
    value: shardwise_ir::ids::ValueId,
    sharding: &'s Sharding,
    index: DimId,
) -> Option<&'s AxisList> {
    let position = program.values[value].dims.iter().position(|&dim| dim == index)?;
    sharding.dims.get(position)
}

/// Element-wise operations and reductions: every index takes the finest split that an operand has,
/// up to the first axis that is not free.
fn align(program: &Program, op: &Op, targets: &mut [Sharding]) {
    let mut used: Vec<AxisRef> = Vec::new();
    for index in op_layouts::indices(program, op) {
        let lists = op
            .operands
            .iter()
            .zip(targets.iter())
            .filter_map(|(operand, s)| list(program, operand.value, s, index));
        let free = lists.map(|axes| {
            axes.iter().copied().take_while(|axis| !used.contains(axis)).collect::<AxisList>()
        });
        let mut finest = free
            .fold(AxisList::new(), |best, axes| if axes.len() > best.len() { axes } else { best });
        if !op_layouts::may_split(program, op, index, &finest) {
            finest.clear();
        }
        used.extend(finest.iter().copied());
        for (operand, target) in op.operands.iter().zip(targets.iter_mut()) {
            if let Some(position) =
                program.values[operand.value].dims.iter().position(|&dim| dim == index)
            {
                target.dims[position] = finest.clone();
            }
        }
    }
}

/// Slices operands that are unsharded along kept indices so that the result is sharded as `wanted`,
/// where the axes are free.
pub(crate) fn slice_for(program: &Program, op: &Op, targets: &mut [Sharding], wanted: &Pin) {
    for (&index, pin) in program.values[op.result].dims.iter().zip(&wanted.dims) {
        let axes = pin.named();
        if axes.is_empty() {
            continue;
        }
        let place = |k: usize| {
            program.values[op.operands[k].value].dims.iter().position(|&dim| dim == index)
        };
        let with_it: Vec<(usize, usize)> =
            (0..op.operands.len()).filter_map(|k| Some((k, place(k)?))).collect();
        let whole = with_it.iter().all(|&(k, position)| targets[k].dims[position].is_empty());
        if whole && axes.iter().all(|&axis| targets.iter().all(|target| !target.uses(axis))) {
            for (k, position) in with_it {
                targets[k].dims[position] = axes.clone();
            }
        }
    }
}

/// Leaves pending in the operands what the wanted result keeps pending, where the operation passes
/// it on and the axes are free.
pub(crate) fn leave_pending(op: &Op, starts: &[Sharding], targets: &mut [Sharding], wanted: &Pin) {
    let kept = |start: &Sharding| -> AxisList {
        let of_result = wanted.unreduced.axes();
        start.unreduced.axes().iter().copied().filter(|axis| of_result.contains(axis)).collect()
    };
    let kept: Vec<AxisList> = starts.iter().map(kept).collect();
    let kind =
        |(start, axes): (&Sharding, &AxisList)| (!axes.is_empty()).then(|| start.unreduced.kind());
    let partial: Vec<Option<Reduction>> = starts.iter().zip(&kept).map(kind).collect();
    for rule in op_layouts::linearity_rules(op, &partial) {
        let in_all = |axis: &AxisRef| rule.operands.iter().all(|&k| kept[k].contains(axis));
        let read = &targets[..op.sharded_operands().len()];
        let is_free = |axis: &AxisRef| !read.iter().any(|target| target.uses(*axis));
        let first = rule.operands.first().map(|&k| kept[k].clone()).unwrap_or_default();
        let axes: AxisList = first.into_iter().filter(|of| in_all(of) && is_free(of)).collect();
        if rule.result == wanted.unreduced.kind() && !axes.is_empty() {
            for &operand in &rule.operands {
                targets[operand].unreduced = Unreduced::new(rule.partial, axes.iter().copied());
            }
        }
    }
}

/// The four cases of a product.
struct Product<'a> {
    tables: &'a Tables<'a>,
    op: &'a Op,
    contracted: &'a [DimId],
    wanted: Option<&'a Pin>,
}

impl Product<'_> {
    fn lay_out(&self, targets: &mut [Sharding]) {
        for &index in self.contracted {
            self.agree_on_summed(targets, index);
        }
        for index in op_layouts::indices(self.tables.program, self.op) {
            if !self.contracted.contains(&index) {
                self.agree_on_batch(targets, index);
            }
        }
        while let Some(conflict) = self.conflict(targets) {
            self.resolve(targets, &conflict);
        }
    }

    fn place(&self, operand: usize, index: DimId) -> Option<usize> {
        self.tables.program.values[self.op.operands[operand].value]
            .dims
            .iter()
            .position(|&dim| dim == index)
    }

    fn both(&self, index: DimId) -> Option<(usize, usize)> {
        Some((self.place(0, index)?, self.place(1, index)?))
    }

    fn is_intermediate(&self, operand: usize) -> bool {
        !self.tables.program.is_declared(self.op.operands[operand].value)
    }

    /// Cases 2 and 3.
    fn agree_on_summed(&self, targets: &mut [Sharding], index: DimId) {
        let Some((left, right)) = self.both(index) else {
            return;
        };
        let (a, b) = (targets[0].dims[left].clone(), targets[1].dims[right].clone());
        let shared = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
        let free =
            |target: &Sharding, extra: &[AxisRef]| extra.iter().all(|&axis| !target.uses(axis));
        let may_slice = self.is_intermediate(0) || self.is_intermediate(1);
        if may_slice && a.len() == shared && free(&targets[0], &b[shared..]) {
            targets[0].dims[left] = b;
        } else if may_slice && b.len() == shared && free(&targets[1], &a[shared..]) {
            targets[1].dims[right] = a;
        } else if shared > 0
            && a.len() == shared
            && self.is_intermediate(0)
            && !self.is_intermediate(1)
        {
            steal_axes(&mut targets[0], left, &b);
        } else if shared > 0
            && b.len() == shared
            && self.is_intermediate(1)
            && !self.is_intermediate(0)
        {
            steal_axes(&mut targets[1], right, &a);
        } else {
            targets[0].dims[left].truncate(shared);
            targets[1].dims[right].truncate(shared);
        }
    }

    /// An index kept from both operands: slice the one that is unsharded there, or move its axis
    /// there if the axis is used elsewhere.
    fn agree_on_batch(&self, targets: &mut [Sharding], index: DimId) {
        let Some((left, right)) = self.both(index) else {
            return;
        };
        let (a, b) = (targets[0].dims[left].clone(), targets[1].dims[right].clone());
        let shared = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
        if a.len() == shared {
            steal_axes(&mut targets[0], left, &b);
        } else if b.len() == shared {
            steal_axes(&mut targets[1], right, &a);
        } else {
            targets[0].dims[left].truncate(shared);
            targets[1].dims[right].truncate(shared);
        }
    }

    /// Case 4: an axis on one index in the first operand and on another in the second.
    fn conflict(&self, targets: &[Sharding]) -> Option<AxisConflict> {
        let dims =
            |operand: usize| &self.tables.program.values[self.op.operands[operand].value].dims;
        for (first, axes) in targets[0].dims.iter().enumerate() {
            for &axis in axes {
                for (second, others) in targets[1].dims.iter().enumerate() {
                    if others.contains(&axis) && dims(0)[first] != dims(1)[second] {
                        return Some(AxisConflict {
                            axis,
                            place: [first, second],
                            index: [dims(0)[first], dims(1)[second]],
                        });
                    }
                }
            }
        }
        None
    }

    /// Gathers the operand whose axis the wanted result does not keep, else the cheaper one.
    fn resolve(&self, targets: &mut [Sharding], conflict: &AxisConflict) {
        let gathered: Vec<Sharding> = (0..2)
            .map(|operand| {
                let mut target = targets[operand].clone();
                let axes = &mut target.dims[conflict.place[operand]];
                let keep =
                    axes.iter().position(|&axis| axis == conflict.axis).unwrap_or(axes.len());
                axes.truncate(keep);
                target
            })
            .collect();
        let loser = match (self.keeps(conflict, 0), self.keeps(conflict, 1)) {
            (true, false) => 1,
            (false, true) => 0,
            _ => usize::from(
                self.price(1, &targets[1], &gathered[1]) < self.price(0, &targets[0], &gathered[0]),
            ),
        };
        targets[loser] = gathered[loser].clone();
    }

    fn keeps(&self, conflict: &AxisConflict, operand: usize) -> bool {
        let result = &self.tables.program.values[self.op.result].dims;
        let position = result.iter().position(|&dim| dim == conflict.index[operand]);
        let wanted = position.and_then(|position| self.wanted?.dims.get(position));
        wanted.is_some_and(|pin| pin.named().contains(&conflict.axis))
    }

    fn price(
        &self,
        operand: usize,
        from: &Sharding,
        to: &Sharding,
    ) -> crate::solver::weight::Weight {
        let table = self.tables.of(self.op.operands[operand].value);
        match (table.space.find(from), table.space.find(to)) {
            (Some(from), Some(to)) => table.distance(from, to),
            _ => crate::solver::weight::Weight::INFINITE,
        }
    }
}

/// One axis on two indices.
struct AxisConflict {
    axis: AxisRef,
    place: [usize; 2],
    index: [DimId; 2],
}

/// Assigns `axes` to one dimension; other dimensions lose them.
fn steal_axes(target: &mut Sharding, position: usize, axes: &AxisList) {
    for (other, list) in target.dims.iter_mut().enumerate() {
        if other != position
            && let Some(keep) = list.iter().position(|axis| axes.contains(axis))
        {
            list.truncate(keep);
        }
    }
    target.dims[position] = axes.clone();
}

/// How a pending result is reduced, as single steps: scattered onto the axes that the wanted result
/// has next, the rest reduced.
pub(crate) fn reduce_pending(
    from: &Sharding,
    wanted: Option<&Pin>,
) -> Vec<(CollectiveKind, Sharding)> {
    let stays = |axis: &AxisRef| wanted.is_some_and(|pin| pin.unreduced.axes().contains(axis));
    let mut steps = Vec::new();
    let mut at = from.clone();
    let mut gone = AxisList::new();
    for (position, pin) in wanted.iter().flat_map(|pin| pin.dims.iter().enumerate()) {
        let list = pin.named();
        if !list.starts_with(&at.dims[position]) {
            continue;
        }
        let next = list[at.dims[position].len()..]
            .iter()
            .copied()
            .take_while(|axis| from.unreduced.axes().contains(axis) && !stays(axis));
        gone.extend(next.clone());
        at.dims[position].extend(next);
    }
    if !gone.is_empty() {
        at.unreduced = without(&from.unreduced, &gone);
        steps.push((CollectiveKind::ReduceScatter, at.clone()));
    }
    let rest: AxisList = at.unreduced.axes().iter().copied().filter(|axis| !stays(axis)).collect();
    if !rest.is_empty() {
        at.unreduced = without(&at.unreduced, &rest);
        steps.push((CollectiveKind::AllReduce, at));
    }
    steps
}

/// The unreduced axes without those that are reduced.
fn without(unreduced: &Unreduced, gone: &AxisList) -> Unreduced {
    Unreduced::new(
        unreduced.kind(),
        unreduced.axes().iter().copied().filter(|axis| !gone.contains(axis)),
    )
}
