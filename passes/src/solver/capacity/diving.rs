//! Diving: the variables whose choice is the surest are fixed, a share of all at a time, with work
//! on the bound between; nothing is tried twice but what failed.
//!
//! One dive takes about as long as the ascent at the root, and ends within a few parts in a
//! thousand of the bound where roundings are a tenth above it, since multipliers and messages adapt
//! to what was fixed (Danna, Rothberg and Le Pape 2005 compare such heuristics).

use crate::solver::capacity::network::least_index;
use crate::solver::capacity::node::{Node, State};
use crate::solver::capacity::search::Search;

/// The shares of the open variables that are fixed at a time, and how they change after a success
/// and after a failure.
const MOST: f64 = 0.2;
const FIRST: f64 = 0.1;
const RISE: f64 = 2.0;
const FALL: f64 = 0.25;

/// The share of the gap that the bound may rise by, for each variable's share and beside it.
const TOLERATED: (f64, f64) = (1.5, 0.03);

/// Choices up to which the rest is branched, also after too many failures; and how many nodes.
const FEW_CHOICES: usize = 100;
const NODES: usize = 20;

/// A choice of at least this probability is fixed in any case.
const SURE: f64 = 0.98;

/// Rounds between, and steps and failures until a dive is given up.
const ROUNDS: usize = 6;
const STEPS: usize = 200;
const FAILURES: usize = 16;

impl Search<'_> {
    /// Dives from a node, for assignments below the cutoff.
    pub(crate) fn dive(&mut self, mut node: Node) {
        node.messages.work = 0;
        node.warm(ROUNDS, self.cutoff());
        self.spend(node.messages.work);
        let (mut share, mut failures) = (FIRST, 0);
        for _ in 0..STEPS {
            if self.is_over() {
                return;
            }
            if failures == FAILURES || node.choices() <= FEW_CHOICES {
                self.branch_and_bound(node, NODES);
                return;
            }
            let open = node.open_variables();
            let surest = surest(&node, share);
            if surest.is_empty() {
                return;
            }
            let mut next = node.clone();
            next.messages.work = 0;
            let mut found = Vec::new();
            let is_left = next.fix(&surest);
            let mut state =
                if is_left { next.work(ROUNDS, self.cutoff(), &mut found) } else { State::Closed };
            let gap = self.limit() - node.bound;
            let part = surest.len() as f64 / open as f64;
            if next.bound - node.bound > (TOLERATED.0 * part + TOLERATED.1) * gap {
                state = State::Closed;
            }
            self.spend(next.messages.work);
            for assignment in found {
                self.take(assignment);
            }
            match state {
                State::Solved => return,
                State::Open => {
                    node = next;
                    share = (share * RISE).min(MOST);
                }
                State::Closed => {
                    failures += 1;
                    share *= FALL;
                    if let [(variable, choice)] = surest[..]
                        && !node.exclude(variable, choice)
                    {
                        return;
                    }
                }
            }
        }
    }
}

/// The surest choices of a share of the open variables.
fn surest(node: &Node, share: f64) -> Vec<(usize, usize)> {
    let network = &node.messages.network;
    let open = network.variables().filter(|&v| network.size(v) > 1);
    let likeliest = open.map(|variable| {
        let probabilities = node.messages.probabilities(variable, node.temperature);
        let choice = least_index(probabilities.iter().map(|probability| -probability));
        (probabilities[choice], variable, choice)
    });
    let mut likeliest: Vec<(f64, usize, usize)> = likeliest.collect();
    likeliest.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let sure = likeliest.iter().take_while(|(probability, ..)| *probability >= SURE).count();
    let count = (likeliest.len() as f64 * share).ceil() as usize;
    let count = if share < FIRST { count } else { count.max(sure) };
    likeliest.truncate(count);
    likeliest.into_iter().map(|(_, variable, choice)| (variable, choice)).collect()
}
