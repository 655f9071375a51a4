//! The shardings of a shape, and every way to make a single step from one to another, with its
//! seconds: what all cost models and limits share.

use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};
use rayon::prelude::*;
use rustc_hash::FxBuildHasher;
use shardwise_ir::filled::Filled;
use shardwise_ir::ids::AxisId;
use shardwise_ir::program::{CollectiveKind, Program};
use shardwise_ir::rearrange::Route;
use shardwise_ir::sharding::{AxisList, AxisRef, Reduction, Sharding, Unreduced};

use crate::cost::collective::{Refinement, collective_seconds, participating_axes, volume};
use crate::layouts::local_shape;
use crate::reshard::part::{Grouped, MOST_STATES, Part};
use crate::reshard::relaxed::{self, AxisClasses};
use crate::reshard::sharding_space::{State, slices_in};
use crate::reshard::steps;

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

/// A way to make a step.
#[derive(Clone, Debug)]
pub(super) struct Way {
    /// The number of the state that it leads to.
    pub(super) to: u32,
    /// The number of its links among those of the table.
    pub(super) links: u16,
    /// The collective.
    pub(super) kind: CollectiveKind,
    /// How many steps without time it counts as, beside itself: of equally long ways, one that
    /// needs no other order of blocks is taken, and one without slices in a collective.
    pub(super) more: u8,
    /// The time.
    pub(super) seconds: f64,
}

/// Ways from one state, with their links.
#[derive(Default)]
struct Ways {
    all: Vec<Way>,
    links: IndexSet<Vec<AxisId>, FxBuildHasher>,
}

/// The shardings of a shape, numbered, and the ways between them.
#[derive(Debug)]
pub(super) struct StepTable {
    pub(super) states: IndexSet<Sharding, FxBuildHasher>,
    /// The bytes of each state.
    pub(super) bytes: Vec<f64>,
    /// The ways from each state, in the order of the states that they lead to.
    pub(super) ways: Vec<Vec<Way>>,
    /// The distinct links of ways.
    pub(super) links: IndexSet<Vec<AxisId>, FxBuildHasher>,
    /// Whether nothing runs beside its steps, where that counts.
    pub(super) is_resharded_alone: bool,
    /// Classes of axes, if shardings that are alike by them are one.
    classes: Option<AxisClasses>,
}

impl StepTable {
    /// The states of the values of a shape in a part of all shardings, with `more` of them.
    pub(super) fn new(
        program: &Program,
        shape: &ValueShape,
        refinement: Refinement,
        (part, more): (&Part, &IndexSet<Sharding, FxBuildHasher>),
    ) -> Self {
        let pricing = Pricing { program, shape, refinement };
        let states = enumerate(program, shape, part, more);
        let mut table = Self {
            bytes: states.iter().map(|sharding| pricing.bytes(sharding)).collect(),
            states,
            ways: Vec::new(),
            links: IndexSet::default(),
            is_resharded_alone: shape.is_resharded_alone,
            classes: part.classes.clone(),
        };
        let alike = table.alike(program);
        let found: Vec<Ways> = (0..table.states.len())
            .into_par_iter()
            .map(|state| table.ways_from(&pricing, state, &alike[state]))
            .collect();
        table.ways = found.into_iter().map(|ways| ways.numbered(&mut table.links)).collect();
        table
    }

    /// The number of a sharding.
    pub(super) fn find(&self, sharding: &Sharding) -> Option<State> {
        match &self.classes {
            Some(classes) => self.states.get_index_of(&classes.canonical(sharding)),
            None => self.states.get_index_of(sharding),
        }
    }

    /// For each state, those with the same number of parts of every dimension and the same pending
    /// sums, itself included.
    fn alike(&self, program: &Program) -> Vec<Arc<[State]>> {
        let mut groups: IndexMap<(Vec<u64>, &Unreduced), Vec<State>, FxBuildHasher> =
            IndexMap::default();
        let mut group_of = Vec::with_capacity(self.states.len());
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

    /// The ways from a state to others, of which some are `alike` it.
    fn ways_from(&self, pricing: &Pricing<'_>, state: State, alike: &[State]) -> Ways {
        if pricing.shape.is_on_host {
            return Ways::default();
        }
        let from = &self.states[state];
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
        let mut ways = Ways::default();
        for (kind, target) in targets {
            if let Some(to) = self.find(&target).filter(|&to| to != state) {
                ways.add(pricing.way(to, kind, (from, &target)));
            }
        }
        for &to in alike.iter().filter(|&&to| to != state) {
            ways.add(pricing.way(to, CollectiveKind::Permute, (from, &self.states[to])));
        }
        ways.sorted()
    }
}

impl Ways {
    fn add(&mut self, (way, links): (Way, Vec<AxisId>)) {
        let links = self.links.insert_full(links).0 as u16;
        self.all.push(Way { links, ..way });
    }

    /// In the order of the states, and without those for which there is one before that is as good
    /// whatever its links weigh.
    fn sorted(mut self) -> Self {
        self.all.sort_by_key(|way| way.to);
        let mut kept: Vec<Way> = Vec::with_capacity(self.all.len());
        for way in self.all {
            let replaces = |other: &Way| {
                other.links == way.links && other.seconds <= way.seconds && other.more <= way.more
            };
            let before = kept.iter().rev().take_while(|other| other.to == way.to);
            if !before.into_iter().any(replaces) {
                kept.push(way);
            }
        }
        Self { all: kept, ..self }
    }

    /// The ways, with the numbers of their links among those of all states.
    fn numbered(self, all: &mut IndexSet<Vec<AxisId>, FxBuildHasher>) -> Vec<Way> {
        let numbers: Vec<u16> =
            self.links.into_iter().map(|links| all.insert_full(links).0 as u16).collect();
        let numbered = |way: Way| Way { links: numbers[usize::from(way.links)], ..way };
        self.all.into_iter().map(numbered).collect()
    }
}

/// What the seconds of a step depend on.
struct Pricing<'a> {
    program: &'a Program,
    shape: &'a ValueShape,
    refinement: Refinement,
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

    /// The way to a state by a collective, and its links.
    fn way(
        &self,
        to: State,
        kind: CollectiveKind,
        (from, target): (&Sharding, &Sharding),
    ) -> (Way, Vec<AxisId>) {
        let axes = participating_axes(&kind, from, target);
        let is_uneven = self.shape.busiest.is_some();
        let bytes = volume(&kind, from, target, is_uneven, |sharding| self.bytes(sharding));
        let seconds = collective_seconds(self.program, &kind, &axes, bytes, self.refinement);
        let reorders = kind == CollectiveKind::AllToAll && !moves_one_run(from, target);
        let slices = slices_in(&kind, from, target);
        let more = if slices > 0 { slices + 1 } else { usize::from(reorders) };
        let way = Way { to: to as u32, links: 0, kind, more: more as u8, seconds };
        (way, self.program.mesh.links(&axes))
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
