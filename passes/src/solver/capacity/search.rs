//! The search on a network: moments added as they are exceeded, ascent at the root,
//! neighbourhoods, branch and bound.
//!
//! Of thousands of moments few are tight. The search starts with those that have a multiplier
//! after a short ascent over all of them, on a network that presolve has shrunk knowing only
//! these; everything found is checked at all moments, and where some are exceeded the search starts
//! again with them added. Its bounds hold throughout, since moments left out only relax.

use std::collections::BTreeSet;

use crate::solver::capacity::branching::{Part, PseudoCosts};
use crate::solver::capacity::neighbourhoods;
use crate::solver::capacity::network::{INFINITE, Network};
use crate::solver::capacity::node::{Node, State, take_over};
use crate::solver::interrupt::Interrupt;

/// Moments up to which all are known from the start.
const FEW_MOMENTS: usize = 16;

/// Temperatures at the root, the ratio of each to the one before, and rounds at each.
const LEVELS: usize = 20;
const FIRST_LEVELS: usize = 8;
const COOLING: f64 = 0.6;
const ROUNDS: usize = 20;

/// How much hotter the root starts again after moments were added.
const REHEATING: f64 = 4.0;

/// Levels that gain less than this share of the gap before the ascent at the root ends.
const IDLE: usize = 3;
const WORTHWHILE: f64 = 5e-3;

/// Values closer than this many of the smallest unit are equal; and rounding errors, as a share.
const UNIT: f64 = 0.999;
const ROUNDING: f64 = 1e-13;

/// What a search may spend.
#[derive(Clone, Copy)]
pub(crate) struct Effort<'e> {
    /// Entries of tables to visit.
    pub(crate) work: usize,
    /// Nodes to branch.
    pub(crate) nodes: usize,
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
    /// The moments of the whole network that are known, and those found to be exceeded since.
    known: BTreeSet<usize>,
    exceeded: BTreeSet<usize>,
    /// The network at the known moments, presolved, and its variables that are left.
    relaxed: Network,
    left: Vec<usize>,
    temperature: f64,
    multipliers: Vec<(usize, f64)>,
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
            known: BTreeSet::new(),
            exceeded: BTreeSet::new(),
            temperature: INFINITE,
            multipliers: Vec::new(),
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
            let mut root = Node::root(network, multipliers);
            root.temperature = root.temperature.min(REHEATING * self.temperature);
            let is_open = self.ascend(&mut root);
            if self.must_restart() {
                continue;
            }
            if is_open {
                neighbourhoods::improve(self);
                self.branch_and_bound(root);
            }
            if !self.must_restart() {
                return;
            }
        }
    }

    fn must_restart(&self) -> bool {
        !self.exceeded.is_empty() && !self.is_over()
    }

    /// Assignments that cost at least this much are of no use.
    pub(crate) fn cutoff(&self) -> f64 {
        if self.value.is_finite() {
            self.value - UNIT - ROUNDING * self.value.abs()
        } else {
            INFINITE
        }
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
        let mut node = Node::root(self.whole.clone(), vec![0.0; moments]);
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
    fn ascend(&mut self, root: &mut Node) -> bool {
        let mut idle = 0;
        for _ in 0..LEVELS {
            let (mut found, before) = (Vec::new(), root.bound);
            root.messages.work = 0;
            let state = root.work(ROUNDS, self.cutoff(), &mut found);
            self.spend(root.messages.work);
            for assignment in found {
                self.take(assignment);
            }
            self.temperature = root.temperature;
            self.multipliers = root.multipliers();
            match state {
                State::Closed => self.bound = self.value,
                State::Open | State::Solved => self.bound = self.bound.max(root.bound),
            }
            if !matches!(state, State::Open) {
                return false;
            }
            let gap = self.value - root.bound;
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
        let mut all = vec![0; self.relaxed.unary.len()];
        for (&variable, choice) in self.left.iter().zip(assignment) {
            all[variable] = choice;
        }
        self.offer(self.relaxed.decode(&all));
    }

    /// The same for an assignment of the whole network.
    pub(crate) fn offer(&mut self, assignment: Vec<usize>) {
        let cost = self.whole.cost(&assignment);
        if cost >= self.cutoff() {
            return;
        }
        let excess = self.whole.excess(&assignment);
        let exceeded = exceeded(&self.whole, &excess);
        if !exceeded.is_empty() {
            self.exceeded
                .extend(exceeded.into_iter().filter(|moment| !self.known.contains(moment)));
        } else if let Some(value) = (self.accept)(&assignment, cost) {
            self.value = value;
            self.best = Some(assignment);
        }
    }

    /// Branches the open node with the least bound, and then the better of its parts, as long as
    /// there is one.
    fn branch_and_bound(&mut self, root: Node) {
        let mut pseudo_costs = PseudoCosts::new(root.messages.network.unary.len());
        let mut open = vec![root];
        let mut refused = INFINITE;
        let mut next: Option<Node> = None;
        loop {
            let cutoff = self.cutoff();
            open.retain(|node| node.bound < cutoff);
            let least = open.iter().chain(&next).map(|node| node.bound).fold(refused, f64::min);
            self.bound = self.bound.max(least.min(self.value));
            let node = next.take().filter(|node| node.bound < cutoff).or_else(|| {
                let bounds = open.iter().enumerate();
                let least = bounds.min_by(|(_, a), (_, b)| a.bound.total_cmp(&b.bound))?.0;
                Some(open.swap_remove(least))
            });
            let Some(node) = node else { return };
            if self.is_over() || !self.exceeded.is_empty() || self.effort.nodes == 0 {
                return;
            }
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
            open.extend(parts);
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

/// Of every run of moments without slack for an assignment, the one exceeded most.
fn exceeded(network: &Network, excess: &[f64]) -> Vec<usize> {
    let is_exceeded = |moment: usize| excess[moment] > network.moments[moment].tolerance();
    let mut worst: Vec<usize> = Vec::new();
    for moment in (0..excess.len()).filter(|&moment| is_exceeded(moment)) {
        match worst.last_mut() {
            Some(last) if (*last..moment).all(is_exceeded) => {
                if excess[moment] > excess[*last] {
                    *last = moment;
                }
            }
            _ => worst.push(moment),
        }
    }
    worst
}
