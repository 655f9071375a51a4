//! The cheapest plan that fits into memory, with proof: a shortest path over what is in memory.
//!
//! A plan is a sequence of steps, and what its next steps may be, cost and take depends only on
//! the statements that are left and on the blocks that a device holds. So a plan is a path: its
//! states are the next statement and the set of live blocks, an edge runs the statement in one of
//! its layouts or reshards a live block, and a block may be dropped at any time. The capacity
//! forbids edges, one by one; nothing else couples them. The cheapest path is found by A* (Hart,
//! Nilsson and Raphael 1968), with a bound of what is left from the dual of the problem without a
//! limit ([`bound`]). This finds what the other searches cannot: reshards that run as early as they
//! save memory or as late as they need, values that are gathered again for each use, two shardings
//! of a value beside each other only while both fit; and where no path exists, no plan fits.
//!
//! Three rules keep the states few. Reshards run as late as they can ([`order`]). Blocks are
//! dropped only where the next step does not fit beside them, and no more of them than that needs:
//! with more blocks all that follows is possible as well. And of equal bounds the state with the
//! fewest statements left is first, then the one with the fewest steps. At first some states before
//! each statement are followed, the least bounds first, so that a good plan is known early.
//!
//! The number of states still grows exponentially with the values that are live together; a search
//! ends at a limit of them, and then its bound is the least of the states that are open. Programs
//! with blocks, updates in place or written collectives are left to the other searches
//! ([`crate::search::memory::limit`]): a loop counts its own blocks once per layer, so that what
//! is live follows from more than the steps before.
//!
//! Alternatives: rows of capacity over choices ([`crate::search::memory::feasible`]) see what one
//! choice takes, and not two blocks of a value that follow from two choices; a mixed-integer
//! programme with a variable for each block and moment, as for rematerialisation (Jain and others,
//! Checkmate, 2020), has a weak relaxation, and tens of thousands of variables for five statements.

mod block;
mod bound;
mod conflicts;
mod order;
mod path;
mod peak_bound;
pub(crate) mod smallest_peak;
mod statements;
mod uses;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use shardwise_ir::plan::Plan;

use crate::problem::Problem;
use crate::search::memory::feasible::FeasiblePlan;
use crate::search::memory::live_blocks::block::{Action, Edge, LiveBlocks};
use crate::search::memory::live_blocks::bound::Bound;
use crate::search::memory::live_blocks::statements::Statements;
use crate::search::memory::measures::Measures;
use crate::solver::branch_and_bound::can_prune;
use crate::solver::finite::Finite;
use crate::solver::interrupt::Interrupt;

/// States that are kept, for a search that may do all of its work.
const MOST_STATES: usize = 1 << 18;

/// Edges that are made.
const MOST_EDGES: usize = 1 << 22;

/// States before each statement that are followed at first: they mostly lead to a good plan.
const FIRST_OF_STATEMENT: usize = 500;

/// Plans that take more than the path says: of as many, others are looked for.
const MOST_DIFFERENT: usize = 20;

/// States between two looks at the clock.
const UNTIL_CLOCK: usize = 64;

/// Which plan is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The cheapest, with proof.
    Cheapest,
    /// Any that fits.
    Any,
}

/// Searches for the cheapest plan whose peak is at most `capacity` bytes and that takes less than
/// `below_s` seconds; `None` if the program has something that no path says.
pub(crate) fn search(
    problem: &Problem<'_>,
    wanted: Wanted,
    (capacity, below_s): (f64, f64),
    measures: &Measures<'_, '_>,
    interrupt: &Interrupt,
) -> Option<FeasiblePlan> {
    let statements = Statements::new(problem, capacity)?;
    let bound = Bound::new(problem, &statements, interrupt);
    let mut search = Search {
        most_states: interrupt.allowed(MOST_STATES),
        most_edges: interrupt.allowed(MOST_EDGES),
        open: (0..=problem.variables.len()).map(|_| BinaryHeap::new()).collect(),
        reached: IndexMap::default(),
        best: FeasiblePlan { plan: None, lower_bound_s: f64::INFINITY, below_s },
        wanted,
        edges: 0,
        followed: 0,
        different: 0,
        statements,
        bound,
        measures,
    };
    search.run(interrupt);
    Some(search.best)
}

/// How a state was reached.
struct Reached {
    /// Seconds of the steps until then, and how many they are.
    seconds: f64,
    steps: usize,
    /// The bytes that were live during the last of them.
    load: f64,
    /// The state before, and what led from there.
    from: Option<(usize, Action)>,
}

/// A state of which the edges have not been followed yet; the queue has the least first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Open {
    /// The bound of the plans through it, in seconds.
    bound_s: Finite,
    /// The steps so far.
    steps: usize,
    /// Its number.
    state: usize,
    /// What it cost when it was opened.
    seconds: Finite,
}

struct Search<'s, 'p, 'a> {
    statements: Statements<'p, 'a>,
    bound: Bound,
    measures: &'s Measures<'a, 's>,
    wanted: Wanted,
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
    /// For each statement, the open states before it.
    open: Vec<BinaryHeap<Reverse<Open>>>,
    best: FeasiblePlan,
}

impl Search<'_, '_, '_> {
    fn run(&mut self, interrupt: &Interrupt) {
        let start = self.statements.start();
        self.reach(start, Reached { seconds: 0.0, steps: 0, load: 0.0, from: None });
        for statement in 0..self.open.len() {
            for _ in 0..FIRST_OF_STATEMENT {
                if self.is_over(interrupt) || !self.follow_next(statement) {
                    break;
                }
            }
        }
        while let Some(statement) = self.least_open() {
            if self.is_over(interrupt) {
                break;
            }
            self.follow_next(statement);
        }
        let open = self.open.iter().filter_map(BinaryHeap::peek);
        let least_s = open.map(|Reverse(open)| open.bound_s.0).fold(f64::INFINITY, f64::min);
        self.keep_bound(least_s.min(self.best.seconds()));
    }

    /// The statement of the open state with the least bound, of equals the last.
    fn least_open(&self) -> Option<usize> {
        let open = self.open.iter().enumerate();
        let open = open.filter_map(|(statement, open)| Some((statement, open.peek()?.0.bound_s)));
        open.min_by_key(|&(statement, bound_s)| (bound_s, Reverse(statement)))
            .map(|(statement, _)| statement)
    }

    fn is_over(&self, interrupt: &Interrupt) -> bool {
        self.wanted == Wanted::Any && self.best.plan.is_some()
            || self.reached.len() > self.most_states
            || self.edges > self.most_edges
            || self.different > MOST_DIFFERENT
            || self.followed.is_multiple_of(UNTIL_CLOCK) && interrupt.is_due()
    }

    /// Follows the edges of the open state with the least bound before a statement; returns whether
    /// there is one from which a cheaper plan may lead.
    fn follow_next(&mut self, statement: usize) -> bool {
        while let Some(Reverse(next)) = self.open[statement].pop() {
            if can_prune(next.bound_s.0, self.best.seconds()) {
                self.open[statement].clear();
                return false;
            }
            let known = &self.reached[next.state];
            if (next.seconds.0, next.steps) > (known.seconds, known.steps) {
                continue;
            }
            self.followed += 1;
            if self.statements.is_end(self.live(next.state)) {
                self.different += usize::from(!self.offer(&next));
            } else {
                self.follow(&next);
            }
            return true;
        }
        false
    }

    fn live(&self, state: usize) -> &LiveBlocks {
        self.reached.get_index(state).expect("it was reached").0
    }

    fn keep_bound(&mut self, bound_s: f64) {
        self.best.lower_bound_s = self.best.lower_bound_s.min(bound_s);
    }

    /// Opens a state, if no path to it that is known is as cheap and some plan through it may be
    /// cheaper than the best.
    fn reach(&mut self, live: LiveBlocks, by: Reached) {
        let known = self.reached.get(&live);
        let order = |by: &Reached| (by.seconds, by.steps);
        if known.is_some_and(|known| order(known) <= order(&by)) {
            return;
        }
        let bound_s = by.seconds + self.bound.cost_to_go(&live);
        if can_prune(bound_s, self.best.seconds()) {
            return;
        }
        let (seconds, steps) = order(&by);
        let statement = live.next;
        let (state, _) = self.reached.insert_full(live, by);
        let (bound_s, seconds) = (Finite(bound_s), Finite(seconds));
        self.open[statement].push(Reverse(Open { bound_s, steps, state, seconds }));
    }

    /// Follows all edges of a state.
    fn follow(&mut self, of: &Open) {
        let live = self.live(of.state).clone();
        let reshards = self.reshards_before(of.state);
        let mut edges = Vec::new();
        self.statements.edges(&live, &self.waiting(&reshards, &live), &mut edges);
        if self.statements.has_left_out() {
            self.keep_bound(of.bound_s.0);
        }
        self.edges += edges.len();
        for edge in edges {
            if matches!(edge.action, Action::Run { .. })
                && (0..reshards.len()).any(|place| self.can_wait(&reshards[place..], &edge))
            {
                continue;
            }
            let Edge { action, seconds, load, next, .. } = edge;
            let (steps, from) = (of.steps + 1, Some((of.state, action)));
            self.reach(next, Reached { seconds: of.seconds.0 + seconds, steps, load, from });
        }
    }

    /// Makes the plan of a path to the end; returns whether it is what the path says. The bound is
    /// that of the path, if not.
    fn offer(&mut self, end: &Open) -> bool {
        let plan = self.plan(end.state);
        let seconds = self.measures.seconds(&plan);
        let fits = self.measures.peak_bytes_of(&plan, seconds) <= self.statements.capacity;
        if fits && seconds < self.best.seconds() {
            self.best.plan = Some((plan, seconds));
        }
        let is_same = fits && can_prune(end.bound_s.0, seconds);
        if !is_same {
            self.keep_bound(end.bound_s.0);
        }
        is_same
    }

    fn plan(&self, end: usize) -> Plan {
        let before = |&state: &usize| self.reached[state].from.as_ref().map(|(from, _)| *from);
        let mut path: Vec<usize> = std::iter::successors(Some(end), before).collect();
        path.reverse();
        let action = |&state: &usize| self.reached[state].from.as_ref().map(|(_, action)| action);
        path::plan(self.statements.problem, path.iter().filter_map(action))
    }
}
