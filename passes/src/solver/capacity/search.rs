//! The search on a network: moments added as they are exceeded, ascent at the root, and branch and
//! bound, which phases below guesses of the value ([`crate::solver::capacity::guesses`]) use.
//!
//! Of thousands of moments few are tight. The search starts with those that have a multiplier
//! after a short ascent over all of them, on a network that presolve has shrunk knowing only
//! these; everything found is checked at all moments, and where some are exceeded the search starts
//! again with them (and those nearly exceeded) added, and with the messages of tables that are the
//! same as before. Its bounds hold throughout, since moments left out only relax.

use std::collections::BTreeSet;

use crate::solver::capacity::branching::{Part, PseudoCosts};
use crate::solver::capacity::message_passing::Sent;
use crate::solver::capacity::network::{INFINITE, Network};
use crate::solver::capacity::node::{Node, State, take_over};
use crate::solver::capacity::open_nodes::OpenNodes;
use crate::solver::interrupt::Interrupt;

/// Moments up to which all are known from the start.
const FEW_MOMENTS: usize = 16;

/// Temperatures at the root, the ratio of each to the one before, and rounds at each.
const LEVELS: usize = 20;
const FIRST_LEVELS: usize = 8;
const COOLING: f64 = 0.6;
const ROUNDS: usize = 20;

/// How much hotter the root starts again after moments were added.
const REHEATING: f64 = 2.5;

/// The share of its slack that a moment leaves where it is added together with exceeded ones.
const NEAR: f64 = 0.02;

/// Levels that gain less than this share of the gap before the ascent at the root ends.
const IDLE: usize = 3;
const WORTHWHILE: f64 = 5e-3;

/// Values closer than this many of the smallest unit are equal; and rounding errors, as a share.
const UNIT: f64 = 0.999;
const ROUNDING: f64 = 1e-13;

/// Numbers that open nodes may hold together: a gigabyte.
pub(crate) const MOST_NUMBERS: usize = 1 << 27;

/// What a search may spend.
#[derive(Clone, Copy)]
pub(crate) struct Effort<'e> {
    /// Entries of tables to visit.
    pub(crate) work: usize,
    /// Nodes to branch.
    pub(crate) nodes: usize,
    /// Numbers that open nodes may hold together.
    pub(crate) numbers: usize,
    /// Whether neighbourhoods of the best assignment are searched.
    pub(crate) neighbourhoods: bool,
    pub(crate) interrupt: &'e Interrupt,
}

/// Accepts an assignment of this cost, with what it really costs, or refuses it.
pub(crate) type Accept<'a> = dyn FnMut(&[usize], f64) -> Option<f64> + 'a;

/// A search, and what it found.
pub(crate) struct Search<'s> {
    /// The network at all moments.
    pub(crate) whole: Network,
    pub(crate) effort: Effort<'s>,
    accept: &'s mut Accept<'s>,
    /// The best assignment of the whole network, and its cost.
    pub(crate) best: Option<Vec<usize>>,
    pub(crate) value: f64,
    pub(crate) bound: f64,
    /// What assignments must cost less than in this phase; infinite if that is the value alone.
    pub(crate) guess: f64,
    /// The moments of the whole network that are known, and those found to be exceeded since.
    known: BTreeSet<usize>,
    exceeded: BTreeSet<usize>,
    /// The network at the known moments, presolved, and its variables that are left.
    relaxed: Network,
    left: Vec<usize>,
    temperature: f64,
    multipliers: Vec<(usize, f64)>,
    /// The messages of the last root, by variables of the whole network.
    messages: Sent,
    /// The assignment rounded from them.
    pub(crate) rounded: Option<Vec<usize>>,
}

impl<'s> Search<'s> {
    /// A search for assignments of a network that cost less than `value`.
    pub(crate) fn new(
        whole: Network,
        value: f64,
        effort: Effort<'s>,
        accept: &'s mut Accept<'s>,
    ) -> Self {
        Self {
            relaxed: Network::default(),
            left: Vec::new(),
            whole,
            effort,
            accept,
            best: None,
            value,
            bound: f64::NEG_INFINITY,
            guess: INFINITE,
            known: BTreeSet::new(),
            exceeded: BTreeSet::new(),
            temperature: INFINITE,
            multipliers: Vec::new(),
            messages: Sent::default(),
            rounded: None,
        }
    }

    /// Searches until the bound reaches the value, or the effort is spent.
    pub(crate) fn run(&mut self) {
        if self.whole.is_infeasible {
            self.bound = INFINITE;
            return;
        }
        self.find_tight_moments();
        loop {
            self.known.append(&mut self.exceeded);
            self.relax();
            if self.relaxed.is_infeasible {
                self.bound = self.value;
                return;
            }
            let (network, left) = self.relaxed.compact();
            self.left = left;
            let multipliers = take_over(&network, &self.multipliers);
            let mut root = Node::root(network, multipliers, &self.messages, &self.left);
            root.temperature = root.temperature.min(REHEATING * self.temperature);
            self.guess = INFINITE;
            let is_open = self.ascend(&mut root);
            self.temperature = root.temperature;
            self.multipliers = root.multipliers();
            self.rounded =
                Some(self.in_whole(root.messages.network.decode(&root.messages.round())));
            self.messages = root.messages.by_variables(&self.left);
            if self.must_restart() {
                continue;
            }
            if is_open {
                self.close(&root);
            }
            if !self.must_restart() {
                return;
            }
        }
    }

    pub(crate) fn must_restart(&self) -> bool {
        !self.exceeded.is_empty() && !self.is_over()
    }

    /// What assignments must cost less than.
    pub(crate) fn limit(&self) -> f64 {
        self.value.min(self.guess)
    }

    /// Assignments that cost at least this much are of no use in this phase.
    pub(crate) fn cutoff(&self) -> f64 {
        below(self.limit())
    }

    /// Whether the effort is spent.
    pub(crate) fn is_over(&self) -> bool {
        self.effort.work == 0 || self.effort.interrupt.is_due()
    }

    /// Spends work.
    pub(crate) fn spend(&mut self, work: usize) {
        self.effort.work = self.effort.work.saturating_sub(work);
    }

    /// The moments with a multiplier after a short ascent over all.
    fn find_tight_moments(&mut self) {
        let moments = self.whole.moments.len();
        if moments <= FEW_MOMENTS {
            self.known.extend(0..moments);
            return;
        }
        let mut node = Node::root(self.whole.clone(), vec![0.0; moments], &Sent::default(), &[]);
        self.left = (0..self.whole.unary.len()).collect();
        self.relaxed = self.whole.clone();
        for _ in 0..FIRST_LEVELS {
            if self.is_over() {
                break;
            }
            node.ascend(ROUNDS);
            node.temperature *= COOLING;
        }
        self.take(node.messages.round());
        self.spend(node.messages.work);
        self.multipliers = node.multipliers();
        let priced = self.multipliers.iter().enumerate().filter(|(_, (_, price))| *price > 0.0);
        self.known.extend(priced.map(|(moment, _)| moment));
    }

    /// The network at the known moments.
    fn relax(&mut self) {
        let known: Vec<usize> = self.known.iter().copied().collect();
        let interrupt = self.effort.interrupt;
        self.relaxed = self.whole.at_moments(&known);
        self.relaxed.presolve(&|| interrupt.is_due());
    }

    /// Raises the bound at the root; `false` if it contains nothing below the cutoff.
    pub(crate) fn ascend(&mut self, root: &mut Node) -> bool {
        let mut idle = 0;
        for _ in 0..LEVELS {
            let (mut found, before) = (Vec::new(), root.bound);
            root.messages.work = 0;
            let state = root.work(ROUNDS, self.cutoff(), &mut found);
            self.spend(root.messages.work);
            for assignment in found {
                self.take(assignment);
            }
            match state {
                State::Closed => self.bound = self.bound.max(self.limit()),
                State::Open | State::Solved => self.bound = self.bound.max(root.bound),
            }
            if !matches!(state, State::Open) {
                return false;
            }
            let gap = self.limit() - root.bound;
            idle = if root.bound - before < WORTHWHILE * gap { idle + 1 } else { 0 };
            if !self.exceeded.is_empty() || self.is_over() || idle == IDLE {
                break;
            }
            root.temperature *= COOLING;
        }
        true
    }

    /// Converts an assignment of the relaxed network to one of the whole, and offers it if it is
    /// better and keeps within the slack of all moments; otherwise the exceeded ones are noted.
    pub(crate) fn take(&mut self, assignment: Vec<usize>) {
        self.offer(self.in_whole(assignment));
    }

    fn in_whole(&self, assignment: Vec<usize>) -> Vec<usize> {
        let mut all = vec![0; self.relaxed.unary.len()];
        for (&variable, choice) in self.left.iter().zip(assignment) {
            all[variable] = choice;
        }
        self.relaxed.decode(&all)
    }

    /// The same for an assignment of the whole network.
    pub(crate) fn offer(&mut self, assignment: Vec<usize>) {
        let cost = self.whole.cost(&assignment);
        if cost >= below(self.value) {
            return;
        }
        let excess = self.whole.excess(&assignment);
        let exceeded = exceeded(&self.whole, &excess);
        if !exceeded.is_empty() {
            if cost >= self.cutoff() {
                return;
            }
            self.exceeded
                .extend(exceeded.into_iter().filter(|moment| !self.known.contains(moment)));
        } else if let Some(value) = (self.accept)(&assignment, cost) {
            self.value = value;
            self.best = Some(assignment);
        }
    }

    /// Branches the open node with the least bound, and then the better of its parts, as long as
    /// there is one; returns a bound of what the root contains below the limit. Where open nodes
    /// take too much memory, those with the highest bounds are given up.
    pub(crate) fn branch_and_bound(&mut self, root: Node, mut nodes: usize) -> f64 {
        let mut pseudo_costs = PseudoCosts::new(root.messages.network.unary.len());
        let mut open = OpenNodes::default();
        let mut refused = INFINITE;
        let mut next = Some(root);
        loop {
            let cutoff = self.cutoff();
            open.close(cutoff);
            let least =
                next.iter().map(|node| node.bound).fold(refused.min(open.bound()), f64::min);
            let bound = least.min(self.limit());
            let node = next.take().filter(|node| node.bound < cutoff).or_else(|| open.pop());
            let Some(node) = node else { return bound };
            if self.is_over() || !self.exceeded.is_empty() || nodes.min(self.effort.nodes) == 0 {
                return bound;
            }
            nodes -= 1;
            self.effort.nodes -= 1;
            let branches = pseudo_costs.branch(&node, cutoff);
            let is_single = branches.parts.is_empty();
            for part in branches.tried {
                self.spend(part.work);
                for assignment in part.found {
                    self.take(assignment);
                }
            }
            let mut parts: Vec<Node> = Vec::new();
            for part in branches.parts {
                parts.extend(self.take_part(part, &mut refused));
            }
            if is_single {
                let single = vec![0; node.messages.network.unary.len()];
                refused = refused.min(node.messages.network.cost(&single).max(node.bound));
                self.take(node.messages.network.decode(&single));
            }
            parts.sort_by(|a, b| b.bound.total_cmp(&a.bound));
            next = parts.pop();
            refused = refused.min(open.extend(parts, self.effort.numbers));
        }
    }

    /// Takes what was found in a part; returns its node if it is still open.
    fn take_part(&mut self, part: Part, refused: &mut f64) -> Option<Node> {
        self.spend(part.work);
        for assignment in part.found {
            self.take(assignment);
        }
        let node = part.node?;
        if part.is_solved {
            *refused = refused.min(node.bound);
            return None;
        }
        Some(node)
    }
}

/// What cheaper assignments cost at most.
fn below(value: f64) -> f64 {
    if value.is_finite() { value - UNIT - ROUNDING * value.abs() } else { INFINITE }
}

/// If an assignment exceeds some moment: of every run of moments at which it leaves little slack,
/// the one with the least; those that are near will be tight next.
fn exceeded(network: &Network, excess: &[f64]) -> Vec<usize> {
    let above = |number: usize, margin: f64| {
        let moment = &network.moments[number];
        excess[number] > moment.tolerance() - margin * moment.slack
    };
    if !(0..excess.len()).any(|moment| above(moment, 0.0)) {
        return Vec::new();
    }
    let is_near = |moment: usize| above(moment, NEAR);
    let mut worst: Vec<usize> = Vec::new();
    for moment in (0..excess.len()).filter(|&moment| is_near(moment)) {
        match worst.last_mut() {
            Some(last) if (*last..moment).all(is_near) => {
                if excess[moment] > excess[*last] {
                    *last = moment;
                }
            }
            _ => worst.push(moment),
        }
    }
    worst
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solver::capacity::network::{Demand, Moment};

    /// Pseudo-random numbers.
    fn draw(state: &mut u64, limit: u64) -> f64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        ((*state >> 33) % limit) as f64
    }

    /// A ring of variables with chords, and two moments that are tight.
    fn network(state: &mut u64) -> Network {
        let (variables, choices) = (7, 3);
        let unary = (0..variables).map(|_| (0..choices).map(|_| draw(state, 50)).collect());
        let unary: Vec<Vec<f64>> = unary.collect();
        let slack = 10.0 + draw(state, 20);
        let moments = vec![Moment { id: 0, slack }, Moment { id: 1, slack: slack + 3.0 }];
        let mut network = Network::new(unary, moments, 5.0);
        for variable in 0..variables {
            for other in [variable + 1, variable + 3] {
                let costs = (0..choices * choices).map(|_| draw(state, 40)).collect();
                network.add_table(variable, other % variables, costs);
            }
            let numbers = (0..choices).map(|_| draw(state, 12)).collect();
            let live = variable % 2..2;
            network.add_demand(variable, Demand { live, numbers });
        }
        network
    }

    fn by_enumeration(network: &Network) -> f64 {
        let fits = |assignment: &Vec<usize>| {
            network.excess(assignment).into_iter().all(|excess| excess <= 0.0)
        };
        let all = (0..3_usize.pow(7)).map(|n| (0..7).map(|i| n / 3_usize.pow(i) % 3).collect());
        let costs = all.filter(fits).map(|assignment| network.cost(&assignment));
        costs.fold(INFINITE, f64::min)
    }

    /// A search of the network as it is, without the presolve and ascent that solve small ones.
    fn closed(network: &Network, numbers: usize) -> (f64, f64, f64) {
        let interrupt = Interrupt::NEVER;
        let effort = Effort {
            work: usize::MAX,
            nodes: usize::MAX,
            numbers,
            neighbourhoods: true,
            interrupt: &interrupt,
        };
        let mut accept = |_: &[usize], cost: f64| Some(cost);
        let mut search = Search::new(network.clone(), INFINITE, effort, &mut accept);
        search.relaxed = network.clone();
        search.left = (0..network.unary.len()).collect();
        search.known = (0..network.moments.len()).collect();
        let mut root = Node::root(network.clone(), vec![0.0; 2], &Sent::default(), &[]);
        root.ascend(4);
        root.messages.harden(2);
        root.bound = root.messages.bound;
        search.dive(root.clone());
        let dived = search.value;
        search.close(&root);
        (dived, search.value, search.bound)
    }

    #[test]
    fn phases_below_guesses_prove_the_minimum_of_enumeration() {
        let mut state = 7;
        let mut feasible = 0;
        for number in 0..60 {
            let network = network(&mut state);
            let least = by_enumeration(&network);
            let (dived, value, bound) = closed(&network, usize::MAX);
            assert!(dived >= least, "network {number}: a dive below the minimum");
            for found in [value, bound] {
                assert!(found.total_cmp(&least).is_eq(), "network {number}: {found}, not {least}");
            }
            let (_, value, bound) = closed(&network, 0);
            assert!(bound <= least && least <= value, "network {number}: {bound}, {value}");
            feasible += usize::from(least < INFINITE);
        }
        assert!(feasible >= 20, "{feasible} have an assignment within their slack");
    }
}
