//! One part of the space: its network with messages, and the work that bounds it, finds
//! assignments in it, and removes choices from it.

use std::sync::Arc;

use crate::solver::capacity::consistency::{fitting, supported};
use crate::solver::capacity::frontier::{self, WithinGap};
use crate::solver::capacity::message_passing::{Messages, Sent};
use crate::solver::capacity::multipliers::LONGEST;
use crate::solver::capacity::network::{INFINITE, Network, Table};

/// The first temperature, as a share of the bound for each variable; and that of a node below the
/// root, as a share of the gap for each open variable.
const FIRST_TEMPERATURE: f64 = 0.3;
const TEMPERATURE: f64 = 0.3;

/// The least temperature, in femtoseconds.
const COLDEST: f64 = 1e-3;

/// Hard passes before the bound is taken, and those that start the messages.
const HARD: usize = 2;
const START: usize = 5;

/// The share of choices below which a network is presolved again.
const FEWER: f64 = 0.7;

/// Choices up to which the frontier's programme is tried, and its partial assignments: at the root,
/// and below.
const FEW_CHOICES: usize = 400;
const MOST_PARTIAL: (usize, usize) = (20_000, 3_000);

/// A part of the space.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) messages: Messages,
    /// The lower bound of all assignments in this part.
    pub(crate) bound: f64,
    pub(crate) temperature: f64,
    /// The factor of the multipliers' steps.
    factor: f64,
    pub(crate) depth: usize,
    /// Choices left when the network was presolved.
    presolved: usize,
}

/// The state of a node after work on it.
pub(crate) enum State {
    /// It may contain better assignments.
    Open,
    /// It contains none below the cutoff.
    Closed,
    /// The last assignment found is the best one that it contains.
    Solved,
}

impl Node {
    /// The whole space of a network, at these multipliers.
    /// `sent` has the messages of an earlier root, by the variables' `numbers` there.
    pub(crate) fn root(
        network: Network,
        multipliers: Vec<f64>,
        sent: &Sent,
        numbers: &[usize],
    ) -> Self {
        let mut messages = Messages::new(network, multipliers);
        messages.resume(sent, numbers);
        messages.harden(START);
        let variables = messages.network.variables().count().max(1) as f64;
        let rise = (messages.bound - messages.network.constant).abs();
        let mut root = Self {
            temperature: (FIRST_TEMPERATURE * rise / variables).max(COLDEST),
            bound: f64::NEG_INFINITY,
            factor: LONGEST / 2.0,
            depth: 0,
            presolved: 0,
            messages,
        };
        root.presolved = root.choices();
        root
    }

    /// The part of it in which a variable has these choices, if that is not empty.
    pub(crate) fn child(&self, variable: usize, kept: Vec<usize>) -> Option<Self> {
        let mut child = self.clone();
        child.depth += 1;
        child.messages.work = 0;
        child.messages.restrict(variable, kept);
        child.propagate().then_some(child)
    }

    /// Fixes choices of variables; `false` if nothing is left.
    pub(crate) fn fix(&mut self, choices: &[(usize, usize)]) -> bool {
        self.depth += 1;
        for &(variable, choice) in choices {
            self.messages.restrict(variable, vec![choice]);
        }
        self.propagate()
    }

    /// Removes a choice of a variable; `false` if nothing is left.
    pub(crate) fn exclude(&mut self, variable: usize, choice: usize) -> bool {
        let others = (0..self.messages.network.size(variable)).filter(|&other| other != choice);
        self.messages.restrict(variable, others.collect());
        self.propagate()
    }

    /// The number of choices beyond one for each variable.
    pub(crate) fn choices(&self) -> usize {
        let network = &self.messages.network;
        network.variables().map(|v| network.size(v).saturating_sub(1)).sum()
    }

    /// The numbers that it holds alone, without tables that it shares with other nodes.
    pub(crate) fn numbers(&self) -> usize {
        let network = &self.messages.network;
        let own = |table: &&Table| Arc::strong_count(&table.costs) == 1;
        let tables: usize = network.tables.iter().filter(own).map(|table| table.costs.len()).sum();
        let of_variable = |v: usize| network.size(v) * (4 + self.messages.links[v].len());
        tables + network.variables().map(of_variable).sum::<usize>()
    }

    /// The number of variables with more than one choice.
    pub(crate) fn open_variables(&self) -> usize {
        let network = &self.messages.network;
        network.variables().filter(|&v| network.size(v) > 1).count()
    }

    /// The multipliers by the moments' places in the model.
    pub(crate) fn multipliers(&self) -> Vec<(usize, f64)> {
        let moments = self.messages.network.moments.iter().map(|moment| moment.id);
        moments.zip(self.messages.multipliers.iter().copied()).collect()
    }

    /// Raises the bound in rounds.
    pub(crate) fn ascend(&mut self, rounds: usize) {
        self.messages.ascend(rounds, self.temperature, &mut self.factor);
    }

    /// Raises the bound, looks for assignments below the cutoff (in terms of the root's network),
    /// and removes choices.
    pub(crate) fn work(
        &mut self,
        rounds: usize,
        cutoff: f64,
        found: &mut Vec<Vec<usize>>,
    ) -> State {
        self.ascend(rounds);
        self.round(cutoff, found);
        let sent = self.messages.sent();
        self.messages.harden(HARD);
        self.bound = self.bound.max(self.messages.bound);
        if self.bound >= cutoff {
            return State::Closed;
        }
        self.round(cutoff, found);
        if self.choices() <= FEW_CHOICES {
            let most = if self.depth == 0 { MOST_PARTIAL.0 } else { MOST_PARTIAL.1 };
            match frontier::minimize(&self.messages, cutoff, most) {
                WithinGap::Best(assignment) => {
                    let cost = self.messages.network.cost(&assignment);
                    found.push(self.messages.network.decode(&assignment));
                    if cost >= cutoff {
                        // Those dropped cost as much as the cutoff, but maybe less than this one.
                        return State::Closed;
                    }
                    self.bound = self.bound.max(cost);
                    return State::Solved;
                }
                WithinGap::Nothing => return State::Closed,
                WithinGap::TooMany => {}
            }
        }
        self.messages.restore(sent);
        self.cool(cutoff);
        let is_left = self.remove_costly(cutoff) && self.propagate() && self.shrink();
        if is_left { State::Open } else { State::Closed }
    }

    /// Raises the temperature to that of a node below the root, and the bound at it.
    pub(crate) fn warm(&mut self, rounds: usize, cutoff: f64) {
        if cutoff - self.bound < INFINITE {
            let gap = (cutoff - self.bound) / self.open_variables().max(1) as f64;
            self.temperature = self.temperature.max(TEMPERATURE * gap);
        }
        self.ascend(rounds);
    }

    /// Adapts the temperature to the gap.
    fn cool(&mut self, cutoff: f64) {
        if cutoff < INFINITE {
            let gap = (cutoff - self.bound) / self.open_variables().max(1) as f64;
            let wanted = (TEMPERATURE * gap).max(COLDEST);
            self.temperature = if self.depth > 0 { wanted } else { self.temperature.min(wanted) };
        }
    }

    /// Adds the roundings that cost less than the cutoff and keep within the slack.
    fn round(&self, cutoff: f64, found: &mut Vec<Vec<usize>>) {
        let roundings = [Some(self.messages.round()), self.messages.round_within_slack()];
        let network = &self.messages.network;
        let fits = |assignment: &[usize]| {
            let moments = network.excess(assignment).into_iter().zip(&network.moments);
            moments.into_iter().all(|(excess, moment)| excess <= moment.tolerance())
        };
        let good = roundings.into_iter().flatten();
        let good = good.filter(|of| network.cost(of) < cutoff && fits(of));
        found.extend(good.map(|assignment| network.decode(&assignment)));
    }

    /// Reduced-cost fixing; `false` if nothing is left.
    fn remove_costly(&mut self, cutoff: f64) -> bool {
        let gap = cutoff - self.messages.base();
        for variable in 0..self.messages.network.unary.len() {
            let size = self.messages.network.size(variable);
            let reduced = self.messages.reduced_costs(variable).enumerate();
            let kept: Vec<usize> =
                reduced.filter(|(_, cost)| *cost <= gap).map(|(choice, _)| choice).collect();
            if kept.is_empty() && size > 0 {
                return false;
            }
            if kept.len() < size {
                self.messages.restrict(variable, kept);
            }
        }
        true
    }

    /// Removes choices without support, and those that do not fit; `false` if nothing is left.
    fn propagate(&mut self) -> bool {
        loop {
            let without = supported(&self.messages.network);
            let is_stable = without.is_empty();
            for (variable, kept) in without {
                self.messages.restrict(variable, kept);
            }
            if self.messages.network.is_infeasible {
                return false;
            }
            let Some(fitting) = fitting(&self.messages.network) else { return false };
            if is_stable && fitting.is_empty() {
                return true;
            }
            for (variable, kept) in fitting {
                self.messages.restrict(variable, kept);
            }
        }
    }

    /// Presolves the network again where many choices are gone; `false` if nothing is left.
    fn shrink(&mut self) -> bool {
        if self.choices() as f64 > FEWER * self.presolved as f64 {
            return true;
        }
        let mut network = self.messages.network.clone();
        network.presolve(&|| false);
        if network.is_infeasible {
            return false;
        }
        let multipliers = take_over(&network, &self.multipliers());
        let work = self.messages.work;
        self.messages = Messages::new(network, multipliers);
        self.messages.harden(START);
        self.messages.work += work;
        self.presolved = self.choices();
        true
    }
}

/// The multipliers of a network's moments, from those of the same moments elsewhere.
pub(crate) fn take_over(network: &Network, known: &[(usize, f64)]) -> Vec<f64> {
    let mut multipliers = vec![0.0; network.moments.len()];
    for (id, multiplier) in known {
        if let Some(place) = network.place_of_moment(*id) {
            multipliers[place] = *multiplier;
        }
    }
    multipliers
}
