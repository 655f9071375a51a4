//! The smallest peak of any plan, with proof: what a refusal says is needed.
//!
//! The same states and steps as for the cheapest plan ([`crate::search::memory::live_blocks`]),
//! with another cost: that of a path is the most memory that any of its steps takes, and time does
//! not count. So no state is reached at different costs, and where another state before the same
//! statement has all of its blocks and may drop its others, it leads nowhere else and is not
//! followed.
//!
//! One search does for all capacities. It starts at the least of interest, follows all that fits
//! there, the last statements first, and notes for each state the least capacity with which more
//! would have fitted. When nothing is left, the least of those is the next capacity, and only the
//! states that noted it are followed again. The first path that ends is the smallest plan, and the
//! capacity at that moment the bound of all plans. A capacity is never tried that no step needs.
//!
//! Of states with the same capacity the last statement is first, then the least seconds: the plan
//! is one that a user could have written. A bound of the peak of the rest ([`PeakBound`]) opens
//! each state at a capacity with which it may lead to the end.
//!
//! Alternatives: bisection between a capacity that is too small and one that is enough, with a
//! search for the cheapest plan at each, proves the optimum of plans that nobody asked for, and
//! each of its steps starts from nothing. It is what is left where the states are too many. The
//! states with the least live bytes first find a plan as often, but one with reshards that nobody
//! needs. To follow some states before each statement first, as for the cheapest plan, spends the
//! states without reaching the end more often.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use shardwise_ir::plan::Plan;
use shardwise_ir::program::OpKind;

use crate::problem::Problem;
use crate::search::memory::live_blocks::block::{Action, Block, Edge, Form, LiveBlocks};
use crate::search::memory::live_blocks::path;
use crate::search::memory::live_blocks::peak_bound::PeakBound;
use crate::search::memory::live_blocks::statements::Statements;
use crate::search::memory::measures::Measures;
use crate::solver::finite::Finite;
use crate::solver::interrupt::Interrupt;

/// States that are kept, for a search that may do all of its work.
const MOST_STATES: usize = 1 << 14;

/// Edges that are made.
const MOST_EDGES: usize = 1 << 18;

/// Plans that take more than the path says: of as many, others are looked for.
const MOST_DIFFERENT: usize = 20;

/// States between two looks at the clock.
const UNTIL_CLOCK: usize = 64;

/// Rounding errors of sums of bytes.
const ROUNDING: f64 = 1.0 + 1e-9;

/// Between which capacities the smallest peak is looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Between {
    /// Any plan within this capacity is as good as the smallest.
    pub(crate) from_bytes: f64,
    /// The bytes of a plan that is known.
    pub(crate) below_bytes: f64,
}

/// The bytes that every plan takes at least, where that is more than the start; the smallest plan
/// that was found is [`Measures::smallest`]. `None` if the program has something that no path says.
pub(crate) fn least_bytes(
    problem: &Problem<'_>,
    between: Between,
    measures: &Measures<'_, '_>,
    interrupt: &Interrupt,
) -> Option<f64> {
    // The result of an update may take the place of its operand.
    if problem.program.ops.iter().any(|op| matches!(op.kind, OpKind::Update { .. })) {
        return None;
    }
    let statements = Statements::new(problem, between.from_bytes)?;
    let of_each = problem.variables.len() + 1;
    let mut search = Search {
        bound: PeakBound::new(problem, statements.least_resident()),
        most_states: interrupt.allowed(MOST_STATES),
        most_edges: interrupt.allowed(MOST_EDGES),
        open: BinaryHeap::new(),
        reached: IndexMap::default(),
        largest: vec![Vec::new(); of_each],
        is_contained: Vec::new(),
        below_bytes: between.below_bytes,
        least_bytes: between.below_bytes,
        edges: 0,
        followed: 0,
        different: 0,
        statements,
        measures,
    };
    search.run(interrupt);
    Some(search.least_bytes)
}

/// How a state was reached.
struct Reached {
    /// The seconds of the steps until then.
    seconds: f64,
    /// The state before, and what led from there.
    from: Option<(usize, Action)>,
}

/// A state of which the edges have not been followed at some capacity, in the order of the queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Open {
    /// That capacity.
    bytes: Reverse<Finite>,
    /// The next statement.
    statement: usize,
    /// The seconds of the steps until then.
    seconds: Reverse<Finite>,
    state: usize,
}

struct Search<'s, 'p, 'a> {
    statements: Statements<'p, 'a>,
    measures: &'s Measures<'a, 's>,
    bound: PeakBound,
    /// How many states may be reached, and how many edges made.
    most_states: usize,
    most_edges: usize,
    /// How many edges were.
    edges: usize,
    /// The states of which the edges were followed.
    followed: usize,
    /// The plans that are not what their paths say.
    different: usize,
    reached: IndexMap<LiveBlocks, Reached, FxBuildHasher>,
    /// Whether all blocks of a state are in another one.
    is_contained: Vec<bool>,
    /// For each statement, the other states before it, with the bits of their blocks.
    largest: Vec<Vec<(usize, u64)>>,
    open: BinaryHeap<Open>,
    /// The bytes of the smallest plan that is known.
    below_bytes: f64,
    /// The bytes that every plan takes at least.
    least_bytes: f64,
}

impl Search<'_, '_, '_> {
    fn run(&mut self, interrupt: &Interrupt) {
        self.reach(self.statements.start(), Reached { seconds: 0.0, from: None });
        while let Some(next) = self.open.pop() {
            let Reverse(Finite(bytes)) = next.bytes;
            if bytes >= self.below_bytes {
                return;
            }
            if self.is_over(interrupt) {
                self.least_bytes = self.least_bytes.min(bytes);
                return;
            }
            if self.is_contained[next.state] {
                continue;
            }
            self.followed += 1;
            self.statements.capacity = bytes;
            if self.statements.is_end(self.live(next.state)) {
                self.offer(next.state);
            } else {
                self.follow(&next);
            }
        }
    }

    fn is_over(&self, interrupt: &Interrupt) -> bool {
        self.reached.len() > self.most_states
            || self.edges > self.most_edges
            || self.different > MOST_DIFFERENT
            || self.followed.is_multiple_of(UNTIL_CLOCK) && interrupt.is_due()
    }

    fn live(&self, state: usize) -> &LiveBlocks {
        self.reached.get_index(state).expect("it was reached").0
    }

    /// A lower bound of the peak of the plans through a state.
    fn peak(&self, live: &LiveBlocks) -> f64 {
        let to_go = self.bound.peak_to_go(live) + self.statements.resident_excess(live);
        self.statements.capacity.max(to_go)
    }

    /// Notes that plans within the capacity may have been left out.
    fn keep_bound(&mut self) {
        self.least_bytes = self.least_bytes.min(self.statements.capacity);
    }

    /// Opens a state, if its blocks are in no other one.
    fn reach(&mut self, live: LiveBlocks, by: Reached) {
        if self.reached.contains_key(&live) {
            return;
        }
        let bytes = self.peak(&live);
        if bytes >= self.below_bytes {
            return;
        }
        let statement = live.next;
        let bits = live.blocks.iter().fold(0, |bits, &block| bits | bit(block));
        let largest = &self.largest[statement];
        let may_contain = largest.iter().filter(|(_, other)| bits & !other == 0);
        if may_contain.into_iter().any(|&(other, _)| contains(self.live(other), &live)) {
            return;
        }
        let reached = &self.reached;
        let is_contained = &mut self.is_contained;
        self.largest[statement].retain(|&(other, of_other)| {
            let (other_live, _) = reached.get_index(other).expect("it was reached");
            let is_now = of_other & !bits == 0 && contains(&live, other_live);
            is_contained[other] |= is_now;
            !is_now
        });
        let (bytes, seconds) = (Reverse(Finite(bytes)), Reverse(Finite(by.seconds)));
        let (state, _) = self.reached.insert_full(live, by);
        self.is_contained.push(false);
        self.largest[statement].push((state, bits));
        self.open.push(Open { bytes, statement, seconds, state });
    }

    /// Follows all edges of a state that fit, and opens it again for the others.
    fn follow(&mut self, of: &Open) {
        let live = self.live(of.state).clone();
        let mut edges = Vec::new();
        self.statements.edges(&live, &waiting(&live), &mut edges);
        if self.statements.has_left_out() {
            self.keep_bound();
        }
        let bytes = self.statements.next_capacity();
        if bytes < self.below_bytes {
            self.open.push(Open { bytes: Reverse(Finite(bytes)), ..*of });
        }
        self.edges += edges.len();
        let Reverse(Finite(before_s)) = of.seconds;
        for Edge { action, seconds, next, .. } in edges {
            let seconds = before_s + seconds;
            self.reach(next, Reached { seconds, from: Some((of.state, action)) });
        }
    }

    /// Makes the plan of a path to the end.
    fn offer(&mut self, end: usize) {
        let bytes = self.measures.peak_bytes(&self.plan(end));
        self.below_bytes = self.below_bytes.min(bytes);
        self.least_bytes = self.least_bytes.min(bytes);
        if bytes > self.statements.capacity * ROUNDING {
            self.different += 1;
            self.keep_bound();
        }
    }

    fn plan(&self, end: usize) -> Plan {
        let before = |&state: &usize| self.reached[state].from.as_ref().map(|(from, _)| *from);
        let path: Vec<usize> = std::iter::successors(Some(end), before).collect();
        let action = |&state: &usize| self.reached[state].from.as_ref().map(|(_, action)| action);
        path::plan(self.statements.problem, path.iter().rev().filter_map(action))
    }
}

/// The blocks that reshards made and no step has read, beside others of their values.
fn waiting(live: &LiveBlocks) -> Vec<Block> {
    let is_beside = |made: &Block| {
        let others = live.blocks.iter().filter(|block| block.definition == made.definition);
        others.into_iter().any(|block| block.form != Form::Unread)
    };
    let unread = live.blocks.iter().copied().filter(|block| block.form == Form::Unread);
    unread.filter(is_beside).collect()
}

/// A bit that stands for a block, and others.
fn bit(block: Block) -> u64 {
    let number = block.definition() as u64 * 31 + block.state() as u64;
    1 << (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58)
}

/// Whether all blocks of a state are in another one, which may drop the others.
fn contains(all: &LiveBlocks, part: &LiveBlocks) -> bool {
    let is_part = |block: &&Block| part.blocks.iter().any(|other| block.is(*other));
    let serves = |of: &Block| {
        all.blocks.iter().any(|block| {
            let is_as_free = block.form == of.form || block.form == Form::Memory;
            block.is(*of) && is_as_free && block.read_for & !of.read_for == 0
        })
    };
    let mut others = all.blocks.iter().filter(|block| !is_part(block));
    others.all(|block| block.can_go() && block.form != Form::Undeclared)
        && part.blocks.iter().all(serves)
}
