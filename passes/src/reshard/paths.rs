//! The cheapest way from one sharding to another, and to several at once.
//!
//! Between two shardings it is a shortest path over single steps ([`crate::reshard::sharding_space`]), found from
//! each sharding that is asked for (`walk`), and kept: a search asks for all of them, the textbook
//! for a few of thousands. From one sharding to several it is a cheapest tree in which a step that
//! serves several uses is paid once: a Steiner arborescence, found by the dynamic programme of
//! Dreyfus and Wagner (1971) on the table of distances, `3^k·n + 2^k·n²` for `k` uses and `n`
//! states. Alternatives: a sum of paths pays shared gathers twice (the systems that do so remove
//! the duplicates afterwards and miss the plans that only sharing makes cheap); integer programming
//! over steps is exact too but a hundred times slower at these sizes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, OnceLock};

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use shardwise_ir::program::CollectiveKind;

use crate::reshard::sharding_space::{Edge, State, StateSpace};
use crate::solver::graph::Steps;
use crate::solver::weight::Weight;

/// A step between two states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// From.
    pub from: State,
    /// To.
    pub to: State,
    /// By which collective.
    pub kind: CollectiveKind,
}

/// Distances between the states of a space, and the steps that realise them.
#[derive(Debug)]
pub struct Reshards {
    /// The states and single steps.
    pub space: Arc<StateSpace>,
    /// What the cheapest ways from each state to all cost, once they are asked for.
    ways: Vec<OnceLock<Vec<Weight>>>,
    graph: OnceLock<Graph>,
}

/// The single steps that no two others replace, out of every state and into it. Every step counts
/// at least as one, so the two that replace a third are both lighter than it, and all distances
/// stay.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) out: Steps<Weight>,
    pub(crate) into: Steps<Weight>,
}

impl Graph {
    fn new(space: &StateSpace) -> Self {
        let (mut all_out, mut all_into) =
            (Vec::with_capacity(space.len()), vec![Vec::new(); space.len()]);
        let mut two = vec![Weight::INFINITE; space.len()];
        for from in 0..space.len() {
            let (first, mut touched) = (space.edges(from), Vec::new());
            for edge in first {
                for second in space.edges(edge.to) {
                    two[second.to] = two[second.to].min(edge.weight + second.weight);
                    touched.push(second.to);
                }
            }
            let kept = first
                .iter()
                .filter(|edge| edge.weight < two[edge.to])
                .map(|edge| (edge.to, edge.weight));
            all_out.push(kept.collect::<Vec<_>>());
            for state in touched {
                two[state] = Weight::INFINITE;
            }
        }
        for (from, out) in all_out.iter().enumerate() {
            for &(to, weight) in out {
                all_into[to].push((from, weight));
            }
        }
        Self { out: Steps::new(&all_out), into: Steps::new(&all_into) }
    }
}

impl Reshards {
    /// The table of a space, empty.
    pub fn new(space: StateSpace) -> Self {
        let ways = (0..space.len()).map(|_| OnceLock::new()).collect();
        Self { space: Arc::new(space), ways, graph: OnceLock::new() }
    }

    /// The same distances where every state can also be had, from anywhere, for what `held` says:
    /// one more state, free to get to, leads to all of them. It has no sharding, so that ways
    /// through it have no steps.
    pub(crate) fn with_held(&self, held: &[Weight]) -> Self {
        let graph = self.graph();
        let store = graph.out.states();
        let had = held.iter().copied().enumerate().filter(|(_, weight)| weight.is_finite());
        let (mut more_out, mut more_into) =
            (vec![vec![(store, Weight::ZERO)]; store], vec![Vec::new(); store]);
        had.clone().for_each(|(state, weight)| more_into[state].push((store, weight)));
        more_out.push(had.collect());
        more_into.push((0..store).map(|state| (state, Weight::ZERO)).collect());
        let graph = Graph { out: graph.out.with(&more_out), into: graph.into.with(&more_into) };
        let ways = (0..=store).map(|_| OnceLock::new()).collect();
        Self { space: Arc::clone(&self.space), ways, graph: OnceLock::from(graph) }
    }

    /// How many states there are, with one for what is held.
    fn states(&self) -> usize {
        self.ways.len()
    }

    /// The steps that matter.
    pub(crate) fn graph(&self) -> &Graph {
        self.graph.get_or_init(|| Graph::new(&self.space))
    }

    /// What the ways from `from` to all states cost.
    fn distances_from(&self, from: State) -> &[Weight] {
        self.ways[from].get_or_init(|| {
            let mut distances = vec![Weight::INFINITE; self.states()];
            distances[from] = Weight::ZERO;
            self.graph().out.close(&mut distances, Weight::INFINITE, |step| step);
            distances
        })
    }

    /// What the way from `from` to `to` costs.
    pub fn distance(&self, from: State, to: State) -> Weight {
        self.distances_from(from)[to]
    }

    /// The state of `candidates` that is nearest to `from`; the earliest of equals.
    pub fn nearest(&self, from: State, candidates: &[State]) -> Option<State> {
        candidates
            .iter()
            .copied()
            .min_by_key(|&to| (self.distance(from, to), to))
            .filter(|&to| self.distance(from, to).is_finite())
    }

    /// The steps from `from` to `to`, in order.
    pub fn path(&self, from: State, to: State) -> Vec<Hop> {
        let distances = self.distances_from(from);
        let mut hops = Vec::new();
        let mut at = to;
        while at != from {
            // Of equally cheap ways the one over the nearest state.
            let steps = self.graph().into.of(at).iter();
            let on_the_way =
                steps.filter(|&&(before, step)| distances[before as usize] + step == distances[at]);
            let before = on_the_way
                .map(|&(before, _)| before as usize)
                .min_by_key(|&before| (distances[before], before));
            let before = before.expect("a state that can be reached has one before it");
            let edge = self.space.edges(before).iter().find(|edge| edge.to == at);
            let kind = edge.expect("a path follows edges of the space").kind.clone();
            hops.push(Hop { from: before, to: at, kind });
            at = before;
        }
        hops.reverse();
        hops
    }

    /// The way with the fewest steps from `from` to `to` (the cheapest of those): how a person
    /// would go, without the detours (a free slice, so that a gather can use one more axis) that
    /// make a way cheaper than it looks. `None` if there is none.
    pub fn shortest_path(&self, from: State, to: State) -> Option<Vec<Hop>> {
        type Reached<'e> = (usize, Weight, Option<(State, &'e Edge)>);
        let mut reached: Vec<Option<Reached<'_>>> = vec![None; self.space.len()];
        let mut queue = BinaryHeap::from([Reverse((0_usize, Weight::ZERO, from))]);
        reached[from] = Some((0, Weight::ZERO, None));
        while let Some(Reverse((steps, weight, at))) = queue.pop() {
            if at == to {
                break;
            }
            for edge in self.space.edges(at) {
                let next = (steps + 1, weight + edge.weight);
                if reached[edge.to].is_none_or(|(steps, weight, _)| next < (steps, weight)) {
                    reached[edge.to] = Some((next.0, next.1, Some((at, edge))));
                    queue.push(Reverse((next.0, next.1, edge.to)));
                }
            }
        }
        let mut hops = Vec::new();
        let mut at = to;
        while let Some((before, edge)) = reached[at]?.2 {
            hops.push(Hop { from: before, to: at, kind: edge.kind.clone() });
            at = before;
        }
        hops.reverse();
        Some(hops)
    }

    /// For every state, the least of what a way from it to any state costs and what is `beyond`
    /// there.
    fn through(&self, mut beyond: Vec<Weight>) -> Vec<Weight> {
        self.graph().into.close(&mut beyond, Weight::INFINITE, |step| step);
        beyond
    }

    /// What the way from `from` to the nearest state of `group` costs.
    pub fn to_group(&self, from: State, group: &[State]) -> Weight {
        group.iter().map(|&to| self.distance(from, to)).min().unwrap_or(Weight::INFINITE)
    }
}

/// What a tree must reach: any one of these states (one state, unless a dimension was left open).
pub type Use = Vec<State>;

/// The most different uses of one value for which the cheapest tree is tabulated: the table doubles
/// with each.
pub const MOST_USES: usize = 10;

/// The table of Dreyfus and Wagner, filled as asked and kept: for a set of uses, the cheapest tree
/// from every state.
#[derive(Debug)]
pub struct Trees<'a> {
    reshards: &'a Reshards,
    rows: IndexMap<Vec<Use>, Vec<Weight>, FxBuildHasher>,
}

impl<'a> Trees<'a> {
    /// An empty table over `reshards`.
    pub fn new(reshards: &'a Reshards) -> Self {
        Self { reshards, rows: IndexMap::default() }
    }

    /// What the way from `from` to the nearest state of `group` costs.
    pub fn to_group(&self, from: State, group: &Use) -> Weight {
        self.reshards.to_group(from, group)
    }

    /// What the cheapest tree costs that starts at `root` and serves all of `uses`. With more than
    /// [`MOST_USES`] different ones, a lower bound: the dearest use alone.
    pub fn cost(&mut self, root: State, uses: &[Use]) -> Weight {
        match uses {
            [] => Weight::ZERO,
            [one] => self.reshards.to_group(root, one),
            _ => {
                let set = distinct(root, uses);
                if set.len() > MOST_USES {
                    return set
                        .iter()
                        .map(|group| self.reshards.to_group(root, group))
                        .max()
                        .unwrap_or(Weight::ZERO);
                }
                self.row_value(set, root)
            }
        }
    }

    /// The steps of that tree, each after the one that it starts from. With more than [`MOST_USES`]
    /// uses, of a good tree.
    pub fn steps(&mut self, root: State, uses: &[Use]) -> Vec<Hop> {
        let mut hops = Vec::new();
        let mut set = distinct(root, uses);
        while set.len() > MOST_USES {
            let group = set.pop().expect("the set is longer than the limit");
            let reached: Vec<State> = hops.iter().map(|hop: &Hop| hop.to).chain([root]).collect();
            let from = reached
                .into_iter()
                .min_by_key(|&from| self.reshards.to_group(from, &group))
                .unwrap_or(root);
            let to = self.reshards.nearest(from, &group).unwrap_or(from);
            extend_tree(&mut hops, root, self.reshards.path(from, to));
        }
        self.retrace(&set, root, root, &mut hops);
        hops
    }

    fn row_value(&mut self, set: Vec<Use>, state: State) -> Weight {
        match set.len() {
            0 => Weight::ZERO,
            1 => self.reshards.to_group(state, &set[0]),
            _ if self.rows.contains_key(&set) => self.rows[&set][state],
            _ => self.whole_value(&set, state),
        }
    }

    /// The entry of one state in the row of a whole set: without the row, which only larger sets
    /// would need. Sets of all the uses of a value are many, one for each combination of its users'
    /// layouts, and each is asked for few states.
    fn whole_value(&mut self, set: &[Use], state: State) -> Weight {
        for (part, rest) in splits(set) {
            self.fill(&part);
            self.fill(&rest);
        }
        let forks: Vec<(&[Weight], &[Weight])> = splits(set)
            .map(|(part, rest)| (&self.rows[&part][..], &self.rows[&rest][..]))
            .collect();
        let fork = |at: State| {
            forks.iter().map(|(part, rest)| part[at] + rest[at]).min().unwrap_or(Weight::INFINITE)
        };
        // A fork further away than a whole tree that is known serves nobody; most are.
        let ways = self.reshards.distances_from(state).iter().enumerate();
        ways.fold(
            fork(state),
            |least, (at, &way)| if way < least { least.min(way + fork(at)) } else { least },
        )
    }

    fn fill(&mut self, set: &[Use]) {
        if set.is_empty() || self.rows.contains_key(set) {
            return;
        }
        let n = self.reshards.states();
        if let [one] = set {
            let mut there = vec![Weight::INFINITE; n];
            for &state in one {
                there[state] = Weight::ZERO;
            }
            self.rows.insert(set.to_vec(), self.reshards.through(there));
            return;
        }
        let mut fork = vec![Weight::INFINITE; n];
        for (part, rest) in splits(set) {
            self.fill(&part);
            self.fill(&rest);
            let (part, rest) = (&self.rows[&part], &self.rows[&rest]);
            for ((best, &part), &rest) in fork.iter_mut().zip(part).zip(rest) {
                *best = (*best).min(part + rest);
            }
        }
        self.rows.insert(set.to_vec(), self.reshards.through(fork));
    }

    /// Walks to where the tree forks, then down both branches.
    fn retrace(&mut self, set: &[Use], root: State, at: State, hops: &mut Vec<Hop>) {
        if let [] | [_] = set {
            let target =
                set.first().and_then(|group| self.reshards.nearest(at, group)).unwrap_or(at);
            extend_tree(hops, root, self.reshards.path(at, target));
            return;
        }
        self.fill(set);
        let total = self.rows[set][at];
        let forks: Vec<(&[Weight], &[Weight])> = splits(set)
            .map(|(part, rest)| (&self.rows[&part][..], &self.rows[&rest][..]))
            .collect();
        let ways = self.reshards.distances_from(at).iter().enumerate();
        let fork = ways.filter(|(_, way)| **way <= total).find_map(|(state, &way)| {
            let fork =
                forks.iter().position(|(part, rest)| way + part[state] + rest[state] == total)?;
            Some((state, fork))
        });
        let (state, fork) = fork.expect("the table holds the cost of some fork");
        let (part, rest) = splits(set).nth(fork).expect("forks are the ways to cut the set");
        extend_tree(hops, root, self.reshards.path(at, state));
        self.retrace(&part, root, state, hops);
        self.retrace(&rest, root, state, hops);
    }
}

/// The uses that still need a step, each once, in a fixed order.
fn distinct(root: State, uses: &[Use]) -> Vec<Use> {
    let mut set: Vec<Use> = uses.iter().filter(|group| !group.contains(&root)).cloned().collect();
    set.sort_unstable();
    set.dedup();
    set
}

/// Every way to cut `set` in two, each once.
fn splits(set: &[Use]) -> impl Iterator<Item = (Vec<Use>, Vec<Use>)> + '_ {
    let all = (1_usize << set.len()) - 1;
    (1..all).filter(|part| part & 1 == 1).map(move |part| {
        let pick = |mask: usize| {
            set.iter()
                .enumerate()
                .filter(|(i, _)| mask >> i & 1 == 1)
                .map(|(_, u)| u.clone())
                .collect()
        };
        (pick(part), pick(all ^ part))
    })
}

/// Adds a path, leaving out what the tree has already.
fn extend_tree(hops: &mut Vec<Hop>, root: State, path: Vec<Hop>) {
    for hop in path {
        if hop.to != root && !hops.iter().any(|old| old.to == hop.to) {
            hops.push(hop);
        }
    }
}
