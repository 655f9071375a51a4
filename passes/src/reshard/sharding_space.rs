//! Every sharding that a value of one shape can have, and every single reshard step between them;
//! where there are too many shardings, those of a part ([`crate::reshard::part`]).
//!
//! The *shape* of a value determines the prices of its reshards: the sizes of its dimensions, its
//! element type, and how its partial results combine. Values of equal shape share one space. The
//! steps are the collectives of the language ([`crate::reshard::steps`]).
//!
//! A search asks for the same steps under many cost models and limits, so their seconds are
//! tabulated once ([`StepTable`]) and weighted where they are read. Alternatives: *a table for each
//! cost model* took a third of the time of a search for a schedule; *seconds without the links that
//! they are spent on* cannot say which of two collectives is the better one under other weights.

use std::sync::Arc;

use shardwise_ir::plan::Collective;
use shardwise_ir::program::CollectiveKind;
use shardwise_ir::sharding::{AxisRef, Sharding};

use crate::cost::collective::{CostModel, participating_axes, sliced};
use crate::reshard::step_table::{StepTable, Way};
use crate::solver::weight::Weight;

/// A sharding's number in its space.
pub(crate) type State = usize;

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
    table: Arc<StepTable>,
    /// How its steps are weighted.
    cost_model: CostModel,
    /// The steps that it has.
    limit: BlockLimit,
}

impl ShardingSpace {
    /// The states and steps of a table, whose seconds are of that cost model.
    pub(super) fn new(table: StepTable, cost_model: &CostModel) -> Self {
        Self { table: table.into(), cost_model: cost_model.clone(), limit: BlockLimit::NONE }
            .repriced(cost_model, BlockLimit::NONE)
    }

    /// The same states under another cost model, without the steps above a limit.
    pub(crate) fn repriced(&self, cost_model: &CostModel, limit: BlockLimit) -> Self {
        debug_assert_eq!(cost_model.refinement, self.cost_model.refinement, "the same seconds");
        let cost_model = cost_model.of_step(self.table.is_resharded_alone, 1.0).0.into_owned();
        Self { table: Arc::clone(&self.table), cost_model, limit }
    }

    /// The number of states.
    pub fn len(&self) -> usize {
        self.table.states.all.len()
    }

    /// Never true: the replicated and reduced state always exists.
    pub fn is_empty(&self) -> bool {
        self.table.states.all.is_empty()
    }

    /// The sharding numbered `state`.
    pub fn sharding(&self, state: State) -> &Sharding {
        &self.table.states.all[state]
    }

    /// The number of `sharding`; `None` if its sizes do not divide, or if it is partial and the
    /// shape never is.
    pub fn find(&self, sharding: &Sharding) -> Option<State> {
        self.table.states.find(sharding)
    }

    /// The number of ways to make a step, from all states.
    pub(crate) fn ways(&self) -> usize {
        self.table.ways.iter().map(Vec::len).sum()
    }

    /// The steps from `state`, each in the way that weighs the least.
    pub fn edges(&self, state: State) -> impl Iterator<Item = ReshardEdge> {
        let bytes = &self.table.bytes;
        self.table.ways[state]
            .chunk_by(|one, other| one.to == other.to)
            .filter(move |ways| self.limit.allows(bytes[state], bytes[ways[0].to as State]))
            .filter_map(|ways| ways.iter().map(|way| self.edge(way)).min_by_key(|edge| edge.weight))
    }

    fn edge(&self, way: &Way) -> ReshardEdge {
        let links = &self.table.links[usize::from(way.links)];
        let weight = self.cost_model.weight(&way.kind, way.seconds, links);
        let weight = (0..way.more).fold(weight, |weight, _| weight + Weight::step(0.0));
        ReshardEdge { to: way.to as State, kind: way.kind.clone(), weight }
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
        self.table.states.all.iter()
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

/// How many axes a collective slices beside those that it moves or reduces.
pub(super) fn slices_in(kind: &CollectiveKind, from: &Sharding, to: &Sharding) -> usize {
    if kind.is_free() { 0 } else { sliced(kind, from, to).count() }
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
