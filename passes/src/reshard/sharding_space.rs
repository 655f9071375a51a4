//! Every sharding that a value of one shape can have, and every single reshard step between them;
//! where there are too many shardings, those of a part ([`crate::reshard::part`]).
//!
//! The *shape* of a value determines the prices of its reshards: the sizes of its dimensions, its
//! element type, and how its partial results combine. Values of equal shape share one space. The
//! steps are the collectives of the language ([`crate::reshard::steps`]).

use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};
use rayon::prelude::*;
use rustc_hash::FxBuildHasher;
use shardwise_ir::filled::Filled;
use shardwise_ir::ids::AxisId;
use shardwise_ir::plan::Collective;
use shardwise_ir::program::{CollectiveKind, Program};
use shardwise_ir::rearrange::Route;
use shardwise_ir::sharding::{AxisList, AxisRef, Reduction, Sharding, Unreduced};

use crate::cost::collective::{CostModel, collective_seconds, participating_axes, sliced, volume};
use crate::layouts::local_shape;
use crate::reshard::part::{Grouped, MOST_STATES, Part};
use crate::reshard::relaxed::{self, AxisClasses};
use crate::reshard::steps;
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
    /// The bits of the share of its elements that devices hold.
    pub share: u64,
    /// Where experts have unequal numbers of tokens, the place of their dimension.
    pub busiest: Option<(usize, Route)>,
    /// The reduction of its partial results; `None` if it is never partial.
    pub partial: Option<Reduction>,
    /// The stage axis of its pipeline, along which devices have different layers.
    pub staged_over: Option<AxisId>,
    /// Whether it is in the memory of the host, where nothing reshards it.
    pub is_on_host: bool,
    /// Whether nothing runs beside its reshards, where that counts.
    pub is_resharded_alone: bool,
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
            .into_par_iter()
            .map(|state| space.edges_from(&pricing, state, &alike[state]))
            .collect();
        space
    }

    /// For each state, those with the same number of parts of every dimension and the same pending
    /// sums, itself included.
    fn alike(&self, program: &Program) -> Vec<Arc<[State]>> {
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
        let groups: Vec<Arc<[State]>> = groups.into_values().map(Into::into).collect();
        group_of.into_iter().map(|group| Arc::clone(&groups[group])).collect()
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

    /// The number of steps from all states.
    pub(crate) fn steps(&self) -> usize {
        self.edges.iter().map(Vec::len).sum()
    }

    /// The steps from `state`.
    pub fn edges(&self, state: State) -> &[ReshardEdge] {
        &self.edges[state]
    }

    /// How many steps a person would count for one from `from`.
    pub(crate) fn steps_written(&self, from: State, edge: &ReshardEdge) -> usize {
        let slices = slices_in(&edge.kind, self.sharding(from), self.sharding(edge.to));
        match edge.kind {
            CollectiveKind::Unreduce => 100,
            _ if slices > 0 => slices + 2,
            _ => 1,
        }
    }

    /// All shardings in order.
    pub fn shardings(&self) -> impl Iterator<Item = &Sharding> {
        self.states.iter()
    }

    fn edges_from(&self, pricing: &Pricing<'_>, state: State, alike: &[State]) -> Vec<ReshardEdge> {
        if pricing.shape.is_on_host {
            return Vec::new();
        }
        let from = self.sharding(state);
        let mut targets = Vec::new();
        let mesh = &pricing.program.mesh;
        let free: Vec<AxisRef> =
            mesh.splitting().map(AxisRef::whole).filter(|&axis| !from.uses(axis)).collect();
        steps::slices(from, &free, &mut targets);
        steps::reduces(from, &mut targets);
        if self.classes.is_some() {
            relaxed::gathers(from, &mut targets);
            relaxed::scatters(from, &mut targets);
            relaxed::exchanges(from, &mut targets);
        } else {
            let axes = mesh.splitting().count();
            steps::gathers(from, &mut targets);
            steps::scatters(from, &free, axes, &self.states, &mut targets);
            steps::exchanges(from, &free, axes, &mut targets);
        }
        if pricing.shape.partial == Some(Reduction::Sum) {
            steps::unreduces(from, &free, &mut targets);
        }
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
        let (place, uneven) = self.shape.busiest.unzip();
        let filled = Filled { share: f64::from_bits(self.shape.share), uneven };
        let share = filled.of_fullest(|_| place.map_or(1, |place| parts(&sharding.dims[place])));
        share * elements * f64::from(self.shape.bits) / 8.0
    }

    fn weight(&self, kind: &CollectiveKind, from: &Sharding, to: &Sharding) -> Weight {
        let axes = participating_axes(kind, from, to);
        let seconds = collective_seconds(
            self.program,
            kind,
            &axes,
            volume(kind, from, to, self.shape.busiest.is_some(), |sharding| self.bytes(sharding)),
            self.cost_model.refinement,
        );
        let (priced, _) = self.cost_model.of_step(self.shape.is_resharded_alone, 1.0);
        let weight = priced.weight(kind, seconds, &self.program.mesh.links(&axes));
        // Of equally long ways, one that needs no other order of blocks is taken, and one without
        // slices in a collective.
        let reorders = *kind == CollectiveKind::AllToAll && !moves_one_run(from, to);
        let slices = slices_in(kind, from, to);
        let more = if slices > 0 { slices + 1 } else { usize::from(reorders) };
        (0..more).fold(weight, |weight, _| weight + Weight::step(0.0))
    }
}

/// How many axes a collective slices beside those that it moves or reduces.
fn slices_in(kind: &CollectiveKind, from: &Sharding, to: &Sharding) -> usize {
    if kind.is_free() { 0 } else { sliced(kind, from, to).count() }
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
