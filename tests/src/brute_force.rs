//! The cheapest plan of a small program by looking at every one: written apart from the planner,
//! from the language and the cost model alone.
//!
//! For every combination of layouts of all operations, every value's cheapest tree is found by
//! trying all places where it may fork, on distances by Floyd and Warshall over single steps.
//! Nothing is pruned.
//!
//! A block is laid out once for all its layers: what stands in it counts as often as it has some,
//! and what a layer hands on is where the first one got it.

use std::collections::BTreeMap;

use shardwise_ir::ids::{AxisId, DimId, RepeatId, ValueId};
use shardwise_ir::mesh::AxisKind;
use shardwise_ir::program::{Linearity, MapFn, MapForm, Op, OpKind, Program};
use shardwise_ir::rearrange::{Rearrange, Roll, Window};
use shardwise_ir::sharding::{AxisRef, Pin, Reduction, Sharding, Unreduced};

/// Axes of each dimension, major to minor, and the set of pending ones.
type State = (Vec<Vec<usize>>, Vec<usize>);

/// What is made small.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Goal {
    /// All steps.
    Serial,
    /// Collectives.
    Comm,
}

/// The least cost in seconds of any plan of `program` (no written collectives, no pads, no sums
/// over layers), or infinity.
pub fn optimum(program: &Program, goal: Goal) -> f64 {
    let brute = Brute { program, goal };
    let spaces: Vec<Space> = program.values.indices().map(|value| brute.space(value)).collect();
    let layouts: Vec<Vec<Layout>> = program.ops.iter().map(|op| brute.layouts(op)).collect();
    let mut picked = vec![0; layouts.len()];
    let mut best = f64::INFINITY;
    if layouts.iter().any(Vec::is_empty) {
        return best;
    }
    loop {
        best = best.min(brute.price(&spaces, &layouts, &picked));
        let Some(digit) = (0..picked.len()).find(|&d| picked[d] + 1 < layouts[d].len()) else {
            return best;
        };
        picked[digit] += 1;
        picked[..digit].fill(0);
    }
}

/// Axes of each index, and of each pass-through.
type Assignment = (Vec<Vec<usize>>, Vec<Vec<usize>>);

/// What an operation needs and gives, and its own time.
struct Layout {
    needs: Vec<State>,
    gives: State,
    seconds: f64,
}

/// All states of a value, and the least time between any two.
struct Space {
    number: BTreeMap<State, usize>,
    distance: Vec<Vec<f64>>,
}

struct Brute<'a> {
    program: &'a Program,
    goal: Goal,
}

impl Brute<'_> {
    fn axes(&self) -> usize {
        self.program.mesh.axes.len()
    }

    fn size(&self, axis: usize) -> u64 {
        self.program.mesh.axes[AxisId::new(axis)].size
    }

    fn parts(&self, axes: &[usize]) -> u64 {
        axes.iter().map(|&axis| self.size(axis)).product()
    }

    fn divides(&self, dim: DimId, axes: &[usize]) -> bool {
        self.program.dims[dim].size.is_multiple_of(self.parts(axes))
    }

    fn bytes(&self, value: ValueId, state: &State) -> f64 {
        let value = &self.program.values[value];
        let elements: f64 = value
            .dims
            .iter()
            .zip(&state.0)
            .map(|(&dim, axes)| (self.program.dims[dim].size / self.parts(axes)) as f64)
            .product();
        elements * f64::from(value.dtype.bits()) / 8.0
    }

    fn states(&self, dims: &[DimId]) -> Vec<State> {
        let mut all = vec![(vec![Vec::new(); dims.len()], Vec::new())];
        for axis in 0..self.axes() {
            let mut next = all.clone();
            for (lists, pending) in &all {
                let mut unreduced = pending.clone();
                unreduced.push(axis);
                next.push((lists.clone(), unreduced));
                for dim in 0..dims.len() {
                    for place in 0..=lists[dim].len() {
                        let mut lists = lists.clone();
                        lists[dim].insert(place, axis);
                        next.push((lists, pending.clone()));
                    }
                }
            }
            all = next;
        }
        all.retain(|(lists, _)| lists.iter().zip(dims).all(|(axes, &dim)| self.divides(dim, axes)));
        all
    }

    fn space(&self, value: ValueId) -> Space {
        let states = self.states(&self.program.values[value].dims);
        let n = states.len();
        let mut distance = vec![vec![f64::INFINITY; n]; n];
        for (i, from) in states.iter().enumerate() {
            for (j, to) in states.iter().enumerate() {
                distance[i][j] = if i == j { 0.0 } else { self.step(value, from, to) };
            }
        }
        for via in 0..n {
            for i in 0..n {
                for j in 0..n {
                    let through = distance[i][via] + distance[via][j];
                    if through < distance[i][j] {
                        distance[i][j] = through;
                    }
                }
            }
        }
        Space {
            number: states.into_iter().enumerate().map(|(i, state)| (state, i)).collect(),
            distance,
        }
    }

    /// The time of the one step between two states; infinite if there is none.
    fn step(&self, value: ValueId, from: &State, to: &State) -> f64 {
        let (held, given) = (self.bytes(value, from), self.bytes(value, to));
        let kept: Vec<bool> = from.0.iter().zip(&to.0).map(|(a, b)| a == b).collect();
        let shrunk = from.0.iter().zip(&to.0).all(|(a, b)| a.starts_with(b));
        let grown = from.0.iter().zip(&to.0).all(|(a, b)| b.starts_with(a));
        let flat = |lists: &[Vec<usize>]| lists.iter().flatten().copied().collect::<Vec<_>>();
        let minus = |a: &[usize], b: &[usize]| {
            a.iter().copied().filter(|x| !b.contains(x)).collect::<Vec<_>>()
        };
        let sorted = |mut axes: Vec<usize>| {
            axes.sort_unstable();
            axes
        };
        let mut best = f64::INFINITY;
        if from.1 == to.1 {
            if shrunk {
                best = best.min(self.gather(&minus(&flat(&from.0), &flat(&to.0)), given));
            }
            let added = minus(&flat(&to.0), &flat(&from.0));
            if grown && added.len() == 1 && !from.1.contains(&added[0]) {
                best = 0.0;
            }
            let changed: Vec<usize> = (0..kept.len()).filter(|&i| !kept[i]).collect();
            if let [a, b] = changed[..] {
                for (source, receiver) in [(a, b), (b, a)] {
                    let keep = to.0[source].len();
                    let run = from.0[source].get(keep..).unwrap_or_default();
                    let arrives = [&from.0[receiver][..], run].concat() == to.0[receiver];
                    if from.0[source].starts_with(&to.0[source]) && arrives && !run.is_empty() {
                        best = best.min(self.all_to_all(run, held));
                    }
                }
            }
            if from.0.iter().zip(&to.0).all(|(a, b)| self.parts(a) == self.parts(b)) {
                let mut axes: Vec<usize> = changed
                    .iter()
                    .flat_map(|&i| from.0[i].iter().chain(&to.0[i]).copied())
                    .collect();
                axes.sort_unstable();
                axes.dedup();
                best = best.min(self.permute(&axes, held));
            }
        } else if to.1.iter().all(|axis| from.1.contains(axis)) {
            let settled = minus(&from.1, &to.1);
            if from.0 == to.0 {
                best = best.min(2.0 * self.gather(&settled, held));
            }
            if grown && sorted(minus(&flat(&to.0), &flat(&from.0))) == sorted(settled.clone()) {
                best = best.min(self.gather(&settled, held));
            }
        }
        best
    }

    fn links(&self, axes: &[usize]) -> Vec<(f64, AxisKind, f64, f64)> {
        let axes = axes.iter().map(|&axis| &self.program.mesh.axes[AxisId::new(axis)]);
        axes.map(|axis| (axis.size as f64, axis.kind(), axis.bandwidth(), axis.hop_s())).collect()
    }

    fn latency(&self, axes: &[usize]) -> f64 {
        let hops = |(n, kind, _, hop): (f64, AxisKind, f64, f64)| match kind {
            AxisKind::Ring => hop * n / 2.0,
            AxisKind::Line => hop * (n - 1.0),
            AxisKind::Switch | AxisKind::Dcn => hop,
        };
        self.links(axes).into_iter().map(hops).sum()
    }

    fn gather(&self, axes: &[usize], bytes: f64) -> f64 {
        let links = self.links(axes);
        let bandwidth: f64 = links
            .iter()
            .map(|&(_, kind, w, _)| if kind == AxisKind::Ring { 2.0 * w } else { w })
            .sum();
        let n: f64 = links.iter().map(|link| link.0).product();
        let factor =
            if links.iter().any(|link| link.1 == AxisKind::Ring) { 1.0 } else { (n - 1.0) / n };
        (bytes * factor / bandwidth).max(self.latency(axes))
    }

    fn farthest(&self, axes: &[usize]) -> f64 {
        let links = self.links(axes);
        let reach = links
            .iter()
            .map(|&(n, kind, ..)| if kind == AxisKind::Ring { n } else { 2.0 * n })
            .fold(0.0, f64::max);
        reach / links.iter().map(|link| link.2).fold(f64::INFINITY, f64::min)
    }

    fn all_to_all(&self, axes: &[usize], bytes: f64) -> f64 {
        (bytes * self.farthest(axes) / 8.0).max(self.latency(axes))
    }

    fn permute(&self, axes: &[usize], bytes: f64) -> f64 {
        (bytes * self.farthest(axes) / 4.0).max(self.latency(axes))
    }

    /// Every assignment of axes to indices (in every order), to a pass-through, or to nothing.
    fn layouts(&self, op: &Op) -> Vec<Layout> {
        let mut indices: Vec<DimId> = op
            .operands
            .iter()
            .flat_map(|operand| self.program.values[operand.value].dims.clone())
            .collect();
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

    /// Operands that may carry partial results over the same axes, of which kind these are, and of
    /// which kind what comes out is.
    fn through(&self, op: &Op) -> Vec<(Vec<usize>, Reduction, Reduction)> {
        let all: Vec<usize> = (0..op.operands.len()).collect();
        let sum = |operands: Vec<usize>| (operands, Reduction::Sum, Reduction::Sum);
        let kind = |k: usize| self.kind(op.operands[k].value);
        match &op.kind {
            OpKind::Einsum { .. } => vec![sum(vec![0]), sum(vec![1])],
            OpKind::Gather { .. } | OpKind::ScatterAdd { .. } => vec![sum(vec![0])],
            OpKind::Update { .. } => vec![(vec![0, 2], kind(0), kind(0))],
            OpKind::Map(function) => {
                let sums = match function.linearity {
                    Linearity::None => None,
                    Linearity::Joint => Some(all.clone()),
                    Linearity::First => Some(vec![0]),
                    Linearity::Last => Some(vec![op.operands.len() - 1]),
                    Linearity::Rest => Some(all[1..].to_vec()).filter(|rest| !rest.is_empty()),
                };
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
            OpKind::Composite { .. } | OpKind::Route(_) | OpKind::Collective(_) => vec![],
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
            _ => false,
        }
    }

    /// Of which kind partial results of a value are, if it has any.
    fn kind(&self, value: ValueId) -> Reduction {
        let Some(op) = self.program.values[value].producer.map(|op| &self.program.ops[op]) else {
            return Reduction::Sum;
        };
        let of = |k: usize| self.kind(op.operands[k].value);
        match &op.kind {
            OpKind::Reduce { function, .. } => function.reduction(),
            OpKind::Rearrange(_) | OpKind::Update { .. } => of(0),
            OpKind::Map(function) => {
                let all: Vec<usize> = (0..op.operands.len()).collect();
                let summing = match function.linearity {
                    Linearity::None => vec![],
                    Linearity::Joint => all.clone(),
                    Linearity::First => vec![0],
                    Linearity::Last => vec![op.operands.len() - 1],
                    Linearity::Rest => all[1..].to_vec(),
                };
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

    /// How often what belongs to a block is done.
    fn times(&self, block: Option<RepeatId>) -> f64 {
        block.map_or(1.0, |block| self.program.layer_count(Some(block)) as f64)
    }

    fn work(
        &self,
        op: &Op,
        indices: &[DimId],
        split: &[Vec<usize>],
        needs: &[State],
        gives: &State,
    ) -> f64 {
        let written = self.bytes(op.result, gives);
        let of = |k: usize| self.bytes(op.operands[k].value, &needs[k]);
        let copied = match &op.kind {
            OpKind::Map(MapFn { form: MapForm::LoopCarried | MapForm::Last, .. })
            | OpKind::Rearrange(Rearrange::Rename(_) | Rearrange::Reshape(_)) => Some(0.0),
            OpKind::Rearrange(Rearrange::Slice(_) | Rearrange::Roll(_)) => Some(2.0 * written),
            OpKind::Gather { .. } => Some(2.0 * written + of(1)),
            OpKind::Update { .. } => Some(written + of(0) + of(1) + 2.0 * of(2)),
            _ => None,
        };
        let hbm = self.program.hardware.hbm_bandwidth.unwrap_or(f64::INFINITY);
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
            return (elements / self.program.hardware.peak_flops(dtype))
                .max((written + of(0) + of(1)) / hbm);
        }
        let points: f64 = indices
            .iter()
            .zip(split)
            .map(|(&dim, axes)| (self.program.dims[dim].size / self.parts(axes)) as f64)
            .product();
        let added: f64 = match &op.kind {
            OpKind::Map(MapFn { form: MapForm::Broadcast(dims), .. }) => {
                dims.iter().map(|&dim| self.program.dims[dim].size as f64).product()
            }
            _ => 1.0,
        };
        let points = points * added;
        let per_point = if matches!(&op.kind, OpKind::Einsum { contracted } if !contracted.is_empty())
        {
            2.0
        } else {
            1.0
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

    fn price(&self, spaces: &[Space], layouts: &[Vec<Layout>], picked: &[usize]) -> f64 {
        let chosen: Vec<&Layout> =
            layouts.iter().zip(picked).map(|(layouts, &i)| &layouts[i]).collect();
        let own: f64 = self
            .program
            .ops
            .iter()
            .zip(&chosen)
            .map(|(op, layout)| self.times(op.repeat) * layout.seconds)
            .sum();
        let mut total = own;
        for (id, value) in self.program.values.iter_enumerated() {
            let space = &spaces[id.index()];
            let mut uses: Vec<Vec<usize>> = Vec::new();
            for (op, layout) in self.program.ops.iter().zip(&chosen) {
                for (operand, need) in op.operands.iter().zip(&layout.needs) {
                    if operand.value == id {
                        uses.push(vec![space.number[need]]);
                    }
                }
            }
            uses.extend(self.program.outputs.iter().filter(|output| output.value == id).map(
                |output| {
                    let entered =
                        output.yields_to.and_then(|enters| self.program.values[enters].producer);
                    entered.map_or_else(
                        || accepted(space, &output.pin),
                        |entry| vec![space.number[&chosen[entry.index()].gives]],
                    )
                },
            ));
            // What enters a block is as its brackets say from the start, and not brought there.
            let enters =
                value.producer.is_some_and(|op| self.program.ops[op].is(&MapForm::LoopCarried));
            let home = value
                .declared_sharding
                .as_ref()
                .filter(|_| !enters)
                .map(|pin| accepted(space, pin));
            total += self.times(value.repeat)
                * match (value.producer, home) {
                    (None, Some(home)) => home
                        .iter()
                        .map(|&start| tree(space, start, &uses))
                        .fold(f64::INFINITY, f64::min),
                    (None, None) => f64::INFINITY,
                    (Some(op), home) => {
                        let given = space.number[&chosen[op.index()].gives];
                        let starts = home.unwrap_or_else(|| vec![given]);
                        starts
                            .iter()
                            .map(|&start| space.distance[given][start] + tree(space, start, &uses))
                            .fold(f64::INFINITY, f64::min)
                    }
                };
        }
        total
    }
}

/// The cheapest tree from `root` to one state of each use: somewhere it forks, and one part goes
/// each way.
fn tree(space: &Space, root: usize, uses: &[Vec<usize>]) -> f64 {
    match uses {
        [] => 0.0,
        [one] => one.iter().map(|&to| space.distance[root][to]).fold(f64::INFINITY, f64::min),
        _ => {
            let all = (1_u32 << uses.len()) - 1;
            let pick = |mask: u32| {
                uses.iter()
                    .enumerate()
                    .filter(|(i, _)| mask >> i & 1 == 1)
                    .map(|(_, u)| u.clone())
                    .collect::<Vec<_>>()
            };
            let mut best = f64::INFINITY;
            for fork in 0..space.distance.len() {
                let way = space.distance[root][fork];
                if way >= best {
                    continue;
                }
                for part in (1..all).filter(|part| part & 1 == 1) {
                    best = best.min(
                        way + tree(space, fork, &pick(part)) + tree(space, fork, &pick(all ^ part)),
                    );
                }
            }
            best
        }
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

fn sharding(state: &State) -> Sharding {
    let axis = |&axis: &usize| AxisRef::whole(AxisId::new(axis));
    Sharding {
        dims: state.0.iter().map(|axes| axes.iter().map(axis).collect()).collect(),
        unreduced: Unreduced::new(Reduction::Sum, state.1.iter().map(axis)),
    }
}

fn accepted(space: &Space, pin: &Pin) -> Vec<usize> {
    space
        .number
        .iter()
        .filter(|(state, _)| pin.accepts(&sharding(state)))
        .map(|(_, &number)| number)
        .collect()
}
