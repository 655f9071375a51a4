//! The reshard planner: the cheapest steps from one sharding to another, or to several.
//!
//! Between two shardings it is a shortest path over single steps
//! ([`crate::reshard::sharding_space`]). Those steps form a graph of the solver, which computes
//! distances on demand: a search needs all of them, the textbook a few of thousands. The cheapest
//! tree from one sharding to several is computed by the solver as well
//! ([`crate::solver::dreyfus_wagner`]): a sum of paths would count shared gathers twice (systems
//! that do so remove the duplicates afterwards and miss plans that are cheap only because of
//! sharing).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, OnceLock};

use shardwise_ir::program::CollectiveKind;

use crate::reshard::sharding_space::{ShardingSpace, State};
use crate::solver::graph::Graph;
use crate::solver::weight::Weight;

/// A step between two states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// From.
    pub from: State,
    /// To.
    pub to: State,
    /// The collective.
    pub kind: CollectiveKind,
}

/// A space with the graph of its steps.
#[derive(Debug)]
pub struct Reshards {
    /// The states and single steps.
    pub space: ShardingSpace,
    graph: OnceLock<Arc<Graph>>,
}

impl Reshards {
    /// The table of a space, empty.
    pub fn new(space: ShardingSpace) -> Self {
        Self { space, graph: OnceLock::new() }
    }

    /// The steps as a graph for the solver, a node for each state.
    pub fn graph(&self) -> &Arc<Graph> {
        self.graph.get_or_init(|| {
            let steps =
                |state: State| self.space.edges(state).map(|edge| (edge.to, edge.weight)).collect();
            Arc::new(Graph::new(&(0..self.space.len()).map(steps).collect::<Vec<_>>()))
        })
    }

    /// The cost of the cheapest path from `from` to `to`.
    pub fn distance(&self, from: State, to: State) -> Weight {
        self.graph().distance(from, to)
    }

    /// The state of `candidates` that is nearest to `from`; the earliest of equals.
    pub fn nearest(&self, from: State, candidates: &[State]) -> Option<State> {
        self.graph().nearest(from, candidates)
    }

    /// The steps from `from` to `to`, in order.
    pub fn path(&self, from: State, to: State) -> Vec<Hop> {
        self.hops(self.graph().path(from, to))
    }

    /// The steps of edges of the graph.
    pub(crate) fn hops(&self, edges: Vec<(State, State)>) -> Vec<Hop> {
        let hop = |(from, to): (State, State)| {
            let edge = self.space.edges(from).find(|edge| edge.to == to);
            let kind = edge.expect("the graph's edges are steps of the space").kind;
            Hop { from, to, kind }
        };
        edges.into_iter().map(hop).collect()
    }

    /// The path with the fewest steps from `from` to `to` (the cheapest of those), as a person
    /// would write it: without detours that make it cheaper (a free slice, so that a gather can use
    /// one more axis). An Unreduce counts as many steps: it is taken only where nothing else leads
    /// there; a collective with slices in it, as one more than itself and the slices. `None` if
    /// there is none.
    pub(crate) fn shortest_path(&self, from: State, to: State) -> Option<Vec<Hop>> {
        type Reached = (usize, Weight, Option<(State, CollectiveKind)>);
        let mut reached: Vec<Option<Reached>> = vec![None; self.space.len()];
        let mut queue = BinaryHeap::from([Reverse((0_usize, Weight::ZERO, from))]);
        reached[from] = Some((0, Weight::ZERO, None));
        while let Some(Reverse((steps, weight, at))) = queue.pop() {
            if at == to {
                break;
            }
            for edge in self.space.edges(at) {
                let more = self.space.steps_written(at, &edge);
                let next = (steps + more, weight + edge.weight);
                let known = reached[edge.to].as_ref();
                if known.is_none_or(|&(steps, weight, _)| next < (steps, weight)) {
                    reached[edge.to] = Some((next.0, next.1, Some((at, edge.kind))));
                    queue.push(Reverse((next.0, next.1, edge.to)));
                }
            }
        }
        let mut hops = Vec::new();
        let mut at = to;
        while let Some((before, kind)) = reached[at].take()?.2 {
            hops.push(Hop { from: before, to: at, kind });
            at = before;
        }
        hops.reverse();
        Some(hops)
    }

    /// The cost of the cheapest path from `from` to the nearest state of `group`.
    pub(crate) fn to_group(&self, from: State, group: &[State]) -> Weight {
        self.graph().distance_to_any(from, group)
    }
}
