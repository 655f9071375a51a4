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
use shardwise_ir::sharding::{AxisList, Reduction, Sharding};

use crate::cost::collective::{ParticipatingNetworks, Refinement, sent_or_received};
use crate::layouts::local_shape;
use crate::reshard::part::Part;
use crate::reshard::unpriced::{States, UnpricedSteps, UnpricedWay};
use crate::solver::interrupt::Interrupt;

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
    /// How many steps without time it counts as, beside itself.
    pub(super) more: u8,
    /// The time.
    pub(super) seconds: f64,
}

/// The shardings of a shape, numbered, and the ways between them.
#[derive(Debug)]
pub(super) struct StepTable {
    pub(super) states: Arc<States>,
    /// The bytes of each state.
    pub(super) bytes: Vec<f64>,
    /// The ways from each state, in the order of the states that they lead to.
    pub(super) ways: Vec<Vec<Way>>,
    /// The distinct links of ways.
    pub(super) links: IndexSet<Vec<AxisId>, FxBuildHasher>,
    /// Whether nothing runs beside its steps, where that counts.
    pub(super) is_resharded_alone: bool,
}

/// The tables of some shapes in a part of all shardings, each with `more` of them; `None` if the
/// time is over before they are complete.
pub(super) fn step_tables(
    program: &Program,
    shapes: &[ValueShape],
    refinement: Refinement,
    (part, more): (&Part, &[IndexSet<Sharding, FxBuildHasher>]),
    interrupt: &Interrupt,
) -> Option<Vec<StepTable>> {
    let of_shape = |(shape, more)| {
        interrupt.before_due(|| Arc::new(States::of_shape(program, shape, part, more)))
    };
    let states: Vec<Arc<States>> =
        shapes.par_iter().zip(more).map(of_shape).collect::<Option<_>>()?;
    let mut distinct: IndexMap<_, &Arc<States>, FxBuildHasher> = IndexMap::default();
    let mut steps_of = Vec::with_capacity(shapes.len());
    for (shape, states) in shapes.iter().zip(&states) {
        let entry = distinct.entry((states.all.as_slice(), shape.partial, shape.is_on_host));
        steps_of.push(entry.index());
        entry.or_insert(states);
    }
    let distinct: Vec<_> = distinct.into_iter().collect();
    let steps: Vec<UnpricedSteps> = distinct
        .into_par_iter()
        .map(|((_, partial, is_on_host), states)| {
            UnpricedSteps::new(program, states, (partial, is_on_host), interrupt)
        })
        .collect::<Option<_>>()?;
    let priced = |(shape, number): (&ValueShape, usize)| {
        interrupt.before_due(|| Pricing { program, shape, refinement }.table(&steps[number]))
    };
    shapes.par_iter().zip(steps_of).map(priced).collect()
}

/// What the seconds of a step depend on.
struct Pricing<'a> {
    program: &'a Program,
    shape: &'a ValueShape,
    refinement: Refinement,
}

/// An action, with what is the same for all bytes.
struct PricedAction<'s> {
    kind: &'s CollectiveKind,
    networks: ParticipatingNetworks,
    /// The number of its links.
    links: u16,
}

impl Pricing<'_> {
    fn table(&self, steps: &UnpricedSteps) -> StepTable {
        let Self { program, shape, refinement } = *self;
        let mut links = IndexSet::default();
        let mut actions = Vec::with_capacity(steps.actions.len());
        for (kind, axes) in &steps.actions {
            let networks = ParticipatingNetworks::new(program, axes, refinement);
            let links = links.insert_full(program.mesh.links(axes)).0 as u16;
            actions.push(PricedAction { kind, networks, links });
        }
        let shardings = steps.states.all.iter().chain(&steps.sliced);
        let mut bytes: Vec<f64> = shardings.map(|sharding| self.bytes(sharding)).collect();
        let ways = steps.ways.par_iter().map(|ways| self.ways(ways, &actions, &bytes)).collect();
        bytes.truncate(steps.states.all.len());
        let states = Arc::clone(&steps.states);
        StepTable { states, bytes, ways, links, is_resharded_alone: shape.is_resharded_alone }
    }

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
        let filled = Filled { share: f64::from_bits(self.shape.share), uneven, route: None };
        let share = filled.of_fullest(|_| place.map_or(1, |place| parts(&sharding.dims[place])));
        share * elements * f64::from(self.shape.bits) / 8.0
    }

    /// The ways from a state, without those for which there is one before that is as good whatever
    /// its links weigh.
    fn ways(&self, ways: &[UnpricedWay], actions: &[PricedAction<'_>], bytes: &[f64]) -> Vec<Way> {
        let mut kept: Vec<Way> = Vec::with_capacity(ways.len());
        for &UnpricedWay { to, action, priced_by, more } in ways {
            let PricedAction { kind, networks, links } = &actions[action as usize];
            let received = || bytes[to as usize];
            let is_uneven = self.shape.busiest.is_some();
            let volume = sent_or_received(kind, is_uneven, bytes[priced_by as usize], received);
            let seconds = networks.seconds(kind, volume);
            let replaces = |other: &Way| {
                other.links == *links && other.seconds <= seconds && other.more <= more
            };
            let before = kept.iter().rev().take_while(|other| other.to == to);
            if !before.into_iter().any(replaces) {
                kept.push(Way { to, links: *links, kind: (*kind).clone(), more, seconds });
            }
        }
        kept
    }
}
