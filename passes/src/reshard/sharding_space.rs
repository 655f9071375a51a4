//! Every sharding that a value of one shape can have, and every single reshard step between them;
//! where there are too many shardings, those of a part ([`crate::reshard::part`]).
//!
//! The *shape* of a value determines the prices of its reshards: the sizes of its dimensions, its
//! element type, and how its partial results combine. Values of equal shape share one space. The
//! steps are the collectives of the language:
//!
//! * AllGather: removes trailing axes of one or several dimensions;
//! * Slice: appends one axis that the value does not use to a dimension;
//! * AllToAll: moves trailing axes of one or several dimensions to the ends of others, in any order
//!   (on meshes of more than three axes one run of them, from one dimension to another: there are
//!   so many exchanges that searches of large programs would end at their limits before they gain
//!   anything);
//! * ReduceScatter: appends unreduced axes to dimensions, in any order;
//! * AllReduce: removes unreduced axes;
//! * Permute: any relabelling that keeps every dimension's local size and the unreduced axes;
//! * Unreduce: leaves a sum pending over axes that the value does not use.

use std::rc::Rc;

use indexmap::{IndexMap, IndexSet};
use rustc_hash::FxBuildHasher;
use shardwise_ir::ids::AxisId;
use shardwise_ir::plan::Collective;
use shardwise_ir::program::{CollectiveKind, Program};
use shardwise_ir::sharding::{AxisList, AxisRef, Reduction, Sharding, Unreduced};

use crate::cost::collective::{CostModel, collective_seconds, participating_axes, volume_side};
use crate::layouts::local_shape;
use crate::reshard::part::{Grouped, MOST_STATES, Part};
use crate::reshard::relaxed::{self, AxisClasses};
use crate::solver::weight::Weight;

/// A sharding's number in its space.
pub(crate) type State = usize;

/// The shape of a value: all that determines the prices of its reshards.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ValueShape {
    /// The size of each dimension, and whether it is padded.
    pub sizes: Vec<(u64, bool)>,
    /// Bits an element.
    pub bits: u32,
    /// The reduction of its partial results; `None` if it is never partial.
    pub partial: Option<Reduction>,
    /// The stage axis of its pipeline, along which devices have different layers.
    pub staged_over: Option<AxisId>,
}

/// One reshard step from a state.
#[derive(Clone, Debug)]
pub struct ReshardEdge {
    /// The state it leads to.
    pub to: State,
    /// The collective.
    pub kind: CollectiveKind,
    /// Time, and one step.
    pub weight: Weight,
}

/// The shardings of a shape, numbered; the first is replicated and reduced.
#[derive(Debug)]
pub struct ShardingSpace {
    states: IndexSet<Sharding, FxBuildHasher>,
    edges: Vec<Vec<ReshardEdge>>,
    /// Classes of axes, if shardings that are alike by them are one.
    classes: Option<AxisClasses>,
}

impl ShardingSpace {
    /// The states of the values of a shape in a part of all shardings, with `more` of them, and the
    /// steps between them.
    pub(crate) fn new(
        program: &Program,
        shape: &ValueShape,
        (cost_model, limit): (&CostModel, BlockLimit),
        (part, more): (&Part, &IndexSet<Sharding, FxBuildHasher>),
    ) -> Self {
        let states = enumerate(program, shape, part, more);
        let mut space = Self { edges: Vec::new(), states, classes: part.classes.clone() };
        let pricing = Pricing { program, shape, cost_model, limit };
        let alike = space.alike(program);
        space.edges = (0..space.len())
            .map(|state| space.edges_from(&pricing, state, &alike[state]))
            .collect();
        space
    }

    /// For each state, those with the same number of parts of every dimension and the same pending
    /// sums, itself included.
    fn alike(&self, program: &Program) -> Vec<Rc<[State]>> {
        let mut groups: IndexMap<(Vec<u64>, &Unreduced), Vec<State>, FxBuildHasher> =
            IndexMap::default();
        let mut group_of = Vec::with_capacity(self.len());
        for (state, sharding) in self.states.iter().enumerate() {
            let parts =
                sharding.dims.iter().map(|axes| local_shape::parts(&program.mesh, axes)).collect();
            let entry = groups.entry((parts, &sharding.unreduced));
            group_of.push(entry.index());
            entry.or_default().push(state);
        }
        let groups: Vec<Rc<[State]>> = groups.into_values().map(Into::into).collect();
        group_of.into_iter().map(|group| Rc::clone(&groups[group])).collect()
    }

    /// The number of states.
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Never true: the replicated and reduced state always exists.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// The sharding numbered `state`.
    pub fn sharding(&self, state: State) -> &Sharding {
        &self.states[state]
    }

    /// The number of `sharding`; `None` if its sizes do not divide, or if it is partial and the
    /// shape never is.
    pub fn find(&self, sharding: &Sharding) -> Option<State> {
        match &self.classes {
            Some(classes) => self.states.get_index_of(&classes.canonical(sharding)),
            None => self.states.get_index_of(sharding),
        }
    }

    /// The steps from `state`.
    pub fn edges(&self, state: State) -> &[ReshardEdge] {
        &self.edges[state]
    }

    /// Adds what a `ReduceScatter` makes of `from`. There are so many arrangements of many axes
    /// that it takes less to look for those among the states.
    fn scatters(&self, from: &Sharding, targets: &mut Targets) {
        if from.unreduced.axes().len() <= MOST_ARRANGED {
            return arranged(from, targets);
        }
        let scattered = self.states.iter().filter(|to| is_scattered(from, to));
        targets.extend(scattered.map(|to| (CollectiveKind::ReduceScatter, to.clone())));
    }

    /// All shardings in order.
    pub fn shardings(&self) -> impl Iterator<Item = &Sharding> {
        self.states.iter()
    }

    fn edges_from(&self, pricing: &Pricing<'_>, state: State, alike: &[State]) -> Vec<ReshardEdge> {
        let from = self.sharding(state);
        let mut targets = Vec::new();
        slices(pricing, from, &mut targets);
        reduces(from, &mut targets);
        if self.classes.is_some() {
            relaxed::gathers(from, &mut targets);
            relaxed::scatters(from, &mut targets);
            relaxed::exchanges(from, &mut targets);
        } else {
            gathers(from, &mut targets);
            self.scatters(from, &mut targets);
            moves(pricing, from, &mut targets);
        }
        unreduces(pricing, from, &mut targets);
        let before = pricing.bytes(from);
        let mut best: IndexMap<State, ReshardEdge, FxBuildHasher> = IndexMap::default();
        let mut offer = |to: State, kind: CollectiveKind, target: &Sharding| {
            if !pricing.limit.allows(before, pricing.bytes(self.sharding(to))) {
                return;
            }
            let weight = pricing.weight(&kind, from, target);
            if best.get(&to).is_none_or(|edge| weight < edge.weight) {
                best.insert(to, ReshardEdge { to, kind, weight });
            }
        };
        for (kind, target) in targets {
            if let Some(to) = self.find(&target).filter(|&to| to != state) {
                offer(to, kind, &target);
            }
        }
        for &to in alike.iter().filter(|&&to| to != state) {
            offer(to, CollectiveKind::Permute, self.sharding(to));
        }
        best.sort_unstable_keys();
        best.into_values().collect()
    }
}

/// The bytes that a step may take on a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockLimit {
    /// Those of the block that it leaves.
    pub(crate) result: f64,
    /// Those of the blocks before and after it together.
    pub(crate) both: f64,
}

impl BlockLimit {
    /// No limit.
    pub(crate) const NONE: Self = Self { result: f64::INFINITY, both: f64::INFINITY };

    /// The looser of two.
    pub(crate) fn or(self, other: Self) -> Self {
        Self { result: self.result.max(other.result), both: self.both.max(other.both) }
    }

    fn allows(self, before: f64, after: f64) -> bool {
        after <= self.result && before + after <= self.both
    }
}

/// The context that prices a step.
struct Pricing<'a> {
    program: &'a Program,
    shape: &'a ValueShape,
    cost_model: &'a CostModel,
    limit: BlockLimit,
}

impl Pricing<'_> {
    fn bytes(&self, sharding: &Sharding) -> f64 {
        let parts = |axes: &AxisList| local_shape::parts(&self.program.mesh, axes);
        let elements: f64 = self
            .shape
            .sizes
            .iter()
            .zip(&sharding.dims)
            .map(|(&(size, _), axes)| size.div_ceil(parts(axes)) as f64)
            .product();
        elements * f64::from(self.shape.bits) / 8.0
    }

    fn weight(&self, kind: &CollectiveKind, from: &Sharding, to: &Sharding) -> Weight {
        let axes = participating_axes(kind, from, to);
        let seconds = collective_seconds(
            self.program,
            kind,
            &axes,
            self.bytes(volume_side(kind, from, to)),
            self.cost_model.refinement,
        );
        let weight = self.cost_model.weight(kind, seconds, &self.program.mesh.links(&axes));
        // Of equally long ways, one that needs no other order of blocks is taken.
        let reorders = *kind == CollectiveKind::AllToAll && !moves_one_run(from, to);
        if reorders { weight + Weight::step(0.0) } else { weight }
    }
}

/// Whether one dimension loses a run of axes, and another one gets them in their order.
fn moves_one_run(from: &Sharding, to: &Sharding) -> bool {
    let changed: Vec<_> = from.dims.iter().zip(&to.dims).filter(|(a, b)| a != b).collect();
    let [(a, b), (c, d)] = changed[..] else { return false };
    let (lost, gained) = if a.len() > b.len() { ((b, a), (c, d)) } else { ((d, c), (a, b)) };
    let run = lost.1.strip_prefix(lost.0.as_slice());
    run.is_some() && run == gained.1.strip_prefix(gained.0.as_slice())
}

/// The collective that leads from one sharding to the other, with the axes and receiving dimensions
/// of its text.
pub fn describe(kind: &CollectiveKind, from: &Sharding, to: &Sharding) -> Collective {
    let gained = |position: usize| {
        to.dims[position].iter().filter(move |&axis| !from.dims[position].contains(axis))
    };
    let (mut axes, mut into) = (Vec::new(), Vec::new());
    let row = kind.row();
    if row.splits {
        for position in 0..to.dims.len() {
            for &axis in gained(position) {
                axes.push(axis);
                into.push(position);
            }
        }
    } else if row.gathers {
        for (before, after) in from.dims.iter().zip(&to.dims) {
            axes.extend(before.iter().skip(after.len()).copied());
        }
    } else if row.unreduces() {
        let new = |axis: &&AxisRef| !from.unreduced.axes().contains(axis);
        axes.extend(to.unreduced.axes().iter().filter(new));
    } else {
        axes = participating_axes(kind, from, to).into_iter().map(AxisRef::whole).collect();
    }
    Collective { kind: kind.clone(), axes, into }
}

/// The shardings of a shape in a part of all: those by groups of axes, and of the others as many as
/// can be tabulated.
fn enumerate(
    program: &Program,
    shape: &ValueShape,
    part: &Part,
    more: &IndexSet<Sharding, FxBuildHasher>,
) -> IndexSet<Sharding, FxBuildHasher> {
    let is_staged = |axis: &AxisRef| Some(axis.axis()) == shape.staged_over;
    let groups: Vec<AxisList> =
        part.groups.iter().filter(|group| !group.iter().any(is_staged)).cloned().collect();
    let ValueShape { sizes, partial, .. } = shape;
    let mut found = {
        let classes = part.classes.as_ref();
        Grouped { program, groups: &groups, classes, sizes, partial: *partial }.shardings()
    };
    for sharding in more {
        if found.len() as u64 >= MOST_STATES {
            break;
        }
        if is_of_shape(program, shape, sharding) {
            found.insert(sharding.clone());
        }
    }
    found
}

/// Whether a sharding divides the sizes of a shape, and is partial only where the shape can be.
fn is_of_shape(program: &Program, shape: &ValueShape, sharding: &Sharding) -> bool {
    let divides = |(&(size, pad), axes): (&(u64, bool), &AxisList)| {
        pad || size.is_multiple_of(local_shape::parts(&program.mesh, axes))
    };
    let is_partial = !sharding.unreduced.is_empty();
    shape.sizes.iter().zip(&sharding.dims).all(divides)
        && (!is_partial || shape.partial == Some(sharding.unreduced.kind()))
        && !sharding.axes().any(|axis| Some(axis.axis()) == shape.staged_over)
}

/// Unreduced axes of which all arrangements are enumerated.
const MOST_ARRANGED: usize = 4;

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

/// The axes of a mesh on which one AllToAll may change more than two dimensions.
const MOST_EXCHANGED: usize = 3;

type Targets = Vec<(CollectiveKind, Sharding)>;

fn slices(pricing: &Pricing<'_>, from: &Sharding, targets: &mut Targets) {
    for axis in
        pricing.program.mesh.splitting().map(AxisRef::whole).filter(|&axis| !from.uses(axis))
    {
        for position in 0..from.dims.len() {
            let mut to = from.clone();
            to.dims[position].push(axis);
            targets.push((CollectiveKind::Slice, to));
        }
    }
}

fn gathers(from: &Sharding, targets: &mut Targets) {
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

fn reduces(from: &Sharding, targets: &mut Targets) {
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

/// Each arrangement of unreduced axes at the ends of dimensions.
fn arranged(from: &Sharding, targets: &mut Targets) {
    let mut seen: IndexSet<Sharding, FxBuildHasher> = IndexSet::default();
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
    targets.extend(seen.into_iter().skip(1).map(|to| (CollectiveKind::ReduceScatter, to)));
}

fn moves(pricing: &Pricing<'_>, from: &Sharding, targets: &mut Targets) {
    if pricing.program.mesh.splitting().count() > MOST_EXCHANGED {
        runs(from, targets);
        return;
    }
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
        append_all(left, &dropped, &receivers, targets);
    }
}

/// Each run of trailing axes to the end of another dimension.
fn runs(from: &Sharding, targets: &mut Targets) {
    for (source, axes) in from.dims.iter().enumerate() {
        for keep in 0..axes.len() {
            for receiver in (0..from.dims.len()).filter(|&receiver| receiver != source) {
                let mut to = from.clone();
                let run: AxisList = to.dims[source].drain(keep..).collect();
                to.dims[receiver].extend(run);
                targets.push((CollectiveKind::AllToAll, to));
            }
        }
    }
}

/// All shardings in which each of `axes` is appended to one of `receivers`, in every order.
fn append_all(to: Sharding, axes: &[AxisRef], receivers: &[usize], targets: &mut Targets) {
    if axes.is_empty() {
        targets.push((CollectiveKind::AllToAll, to));
        return;
    }
    // Dimensions are filled one after the other, so that each result is reached once.
    for (i, &receiver) in receivers.iter().enumerate() {
        for (place, &axis) in axes.iter().enumerate() {
            let mut with = to.clone();
            with.dims[receiver].push(axis);
            let rest = [&axes[..place], &axes[place + 1..]].concat();
            append_all(with, &rest, &receivers[i..], targets);
        }
    }
}

fn unreduces(pricing: &Pricing<'_>, from: &Sharding, targets: &mut Targets) {
    if pricing.shape.partial != Some(Reduction::Sum) {
        return;
    }
    let mesh = &pricing.program.mesh;
    let free: Vec<AxisRef> =
        mesh.splitting().map(AxisRef::whole).filter(|&axis| !from.uses(axis)).collect();
    for taken in 1..1_u32 << free.len() {
        let new = free.iter().enumerate().filter(|(i, _)| taken >> i & 1 == 1);
        let pending = from.unreduced.axes().iter().chain(new.map(|(_, axis)| axis)).copied();
        let unreduced = Unreduced::new(Reduction::Sum, pending);
        let to = Sharding { dims: from.dims.clone(), unreduced };
        targets.push((CollectiveKind::Unreduce, to));
    }
}
