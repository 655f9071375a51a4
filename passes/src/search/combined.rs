//! Bounds of schedules by resources and chains together.
//!
//! No schedule is shorter than its plan's busiest resource, nor than a chain. For any shares of
//! resources and [chains](crate::search::chain) that add up to one, the sum of their times in a
//! plan, weighted by shares, is a bound of its schedule, and the least sum of all plans is a bound
//! of all schedules. The solver minimises it. Cutting planes find good shares, as for resources
//! alone. Plans with a small sum balance what they compute, move and wait for, and are scheduled.
//!
//! The chains of a program are too many to list. The best shares belong to shares of plans on whose
//! average what takes longest is shortest, and a chain is missing if it takes longer than that on
//! this average. So the longest chain of the average is added until none is missing (column
//! generation). Alternative: *the longest chain of each plan that is met* is mostly another one for
//! each plan, and the bound of `DeepSeek-V3`'s prefill stays 1% lower.

use shardwise_ir::plan::Plan;
use shardwise_ir::total;

use crate::cost::report::{alone_s, price_steps, waited_s};
use crate::insert_collectives::plan;
use crate::layouts::composite::ExpandedPlan;
use crate::problem::{Problem, dominance};
use crate::reshard::tables::Tables;
use crate::search::chain::{Chain, ChainWeights};
use crate::search::counterparts;
use crate::search::critical_path::CriticalPath;
use crate::search::known_plans::Known;
use crate::search::longest_chain::{Durations, choices_of};
use crate::search::serial::is_pruned;
use crate::search::shares::{self, Bound, MOST_IN_VAIN, ROUNDS, Shares};
use crate::solver::dreyfus_wagner::Trees;
use crate::solver::minimize::{Limits, minimize_with};
use crate::solver::weight::Weight;

/// The share of a time by which a bound has to rise, to be worth other shares.
const LITTLE: f64 = 1e-3;

/// Steps between shardings that are priced for all shares together, at most: some seconds.
const MOST_REPRICED: usize = 1 << 22;

/// The same where bounds by resources alone come before.
const MOST_REPRICED_AFTER_OTHERS: usize = 1 << 20;

/// Rounds of a program with however many steps between shardings.
const FEWEST: usize = 2;

/// How far a solution may be above its bound, as a share of the gap that is left.
const NEAR: f64 = 0.05;

/// What is added to the best share of an axis, for plans whose links are less busy: those of the
/// best shares have the least sum, in which what is longest may be long.
const MORE: [f64; 2] = [0.025, 0.1];

/// How far such a plan may be above the least sum.
const LOOSE: f64 = 0.01;

/// The bounds of schedules by resources and chains, from the best shares for the plans that are
/// known on; adds the plans that attain them. The choices of all of these plans.
pub(super) fn bounds<'t>(
    known: &mut Known<'t>,
    path: &CriticalPath<'t>,
    plans: &[Plan],
    least_s: f64,
) -> (Vec<Bound>, Vec<Vec<usize>>) {
    let rounds = rounds(known.tables).max(FEWEST);
    let mut search =
        Combined { path, chains: Vec::new(), met: Vec::new(), bounds: Vec::new(), least_s, rounds };
    for plan in plans {
        if let Some(assignment) = counterparts::assignment(path.problem(), plan) {
            search.meet(known, path.problem(), &assignment, plan);
        }
    }
    search.raise(known);
    search.move_less(known);
    search.raise(known);
    let choices = search.met.into_iter().map(|met| met.choices).collect();
    (search.bounds, choices)
}

/// How many shares may be tried, by the steps between shardings that are priced for each.
fn rounds(tables: &Tables<'_>) -> usize {
    ROUNDS.min(MOST_REPRICED / tables.ways().max(1))
}

/// Whether there is time for the bounds by resources alone as well, whose plans are others.
pub(super) fn has_time_for_others(tables: &Tables<'_>) -> bool {
    tables.ways() * ROUNDS <= MOST_REPRICED_AFTER_OTHERS
}

/// A search for shares.
struct Combined<'p, 't> {
    path: &'p CriticalPath<'t>,
    /// The longest chains of the plans met so far, and of their averages.
    chains: Vec<Chain>,
    /// The plans met so far.
    met: Vec<Met<'p, 't>>,
    /// The bounds so far.
    bounds: Vec<Bound>,
    /// What no plan takes less than, seconds.
    least_s: f64,
    /// How many shares may still be tried.
    rounds: usize,
}

/// How long everything takes in a plan, seconds.
struct Met<'p, 't> {
    /// Its choices.
    choices: Vec<usize>,
    /// Compute and every axis.
    busy: Vec<f64>,
    /// The steps that have nothing beside them, which no chain has.
    alone: f64,
    /// The parts of chains.
    durations: Durations<'p, 't>,
}

impl Met<'_, '_> {
    fn chain(&self, chain: &Chain) -> f64 {
        self.alone + self.durations.of(chain)
    }
}

impl<'t> Combined<'_, 't> {
    /// Raises the bound by the best shares for the plans met so far, again and again, until they
    /// lead to no others.
    fn raise(&mut self, known: &mut Known<'t>) {
        let (mut lowest_s, mut in_vain) = (f64::INFINITY, 0);
        while self.rounds > 0 && in_vain < MOST_IN_VAIN && known.is_worthwhile(self.least_s) {
            let (wanted_s, best_s) = (known.wanted_s(), known.best_s());
            let little_s = wanted_s * LITTLE;
            let (shares, most_s) = self.best_shares(known.resources);
            if most_s < self.least_s + little_s {
                break;
            }
            let enough = NEAR * (1.0 - self.least_s / wanted_s);
            let met = self.met.len();
            let seconds = self.minimize(known, &shares, enough);
            let raises = seconds > shares::least_s(&self.bounds) + little_s;
            let lowers = most_s < lowest_s - little_s;
            lowest_s = lowest_s.min(most_s);
            self.least_s = self.least_s.max(seconds);
            self.bounds.push(Bound { seconds, shares });
            self.rounds -= 1;
            if self.met.len() == met {
                break;
            }
            in_vain = if raises || lowers || known.best_s() < best_s { 0 } else { in_vain + 1 };
        }
    }

    /// Adds plans that move less along each axis than those of the best shares.
    fn move_less(&mut self, known: &mut Known<'t>) {
        let Some(highest) = shares::highest(&self.bounds) else { return };
        let (seconds, highest) = (highest.seconds, highest.shares.clone());
        for axis in 1..known.resources {
            for more in MORE {
                if !known.is_worthwhile(seconds) {
                    return;
                }
                let mut shares = highest.clone();
                shares.resources[axis] += more;
                self.minimize(known, &shares, LOOSE);
            }
        }
    }

    /// What the weighted sum is at least, seconds; adds a plan in which it is within a ratio of
    /// that.
    fn minimize(&mut self, known: &mut Known<'t>, shares: &Shares, enough: f64) -> f64 {
        let tables = known.weighted(shares);
        let problem = self.problem(known, &tables, shares);
        let model = shares.chains.model(&problem, self.path);
        let mut trees = model.tree_tables();
        let limits = Limits { interrupt: known.little_work(), enough, ..Limits::default() };
        let mut cost =
            |assignment: &[usize], trees: &mut [Trees<'_>]| model.cost(assignment, trees);
        let solution = minimize_with(&model, &mut trees, &limits, Weight::INFINITE, &mut cost);
        if let Some(assignment) = &solution.assignment {
            let plan = plan::plan(&problem, assignment, &mut trees);
            self.meet(known, &problem, assignment, &plan);
            known.add(plan);
        }
        solution.bound.as_seconds()
    }

    /// Notes what a plan takes, if it is not known.
    fn meet(
        &mut self,
        known: &Known<'t>,
        problem: &Problem<'_>,
        assignment: &[usize],
        plan: &Plan,
    ) {
        let expanded = ExpandedPlan::from(plan);
        let steps = price_steps(&expanded, known.tables.cost_model.refinement);
        let choices = choices_of(self.path, problem, assignment);
        let busy = waited_s(&expanded, &steps);
        if self.met.iter().any(|met| met.choices == choices && met.busy == busy) {
            return;
        }
        let durations = Durations::new(self.path, &choices);
        self.met.push(Met { choices, busy, alone: alone_s(&expanded, &steps), durations });
    }

    /// The problem in which shares are weights, without dominated layouts.
    fn problem<'a>(
        &self,
        known: &Known<'t>,
        tables: &'a Tables<'a>,
        shares: &Shares,
    ) -> Problem<'a> {
        let mut problem = known.problem(tables, shares, Some(self.path));
        if is_pruned(tables) {
            let detour =
                |definition, from, to| shares.chains.detour(self.path, definition, from, to);
            dominance::prune_beside(&mut problem, &known.request.interrupt, &detour);
        }
        problem
    }

    /// The best shares for the plans met so far, and the bound that they have at most: with every
    /// chain that raises it.
    fn best_shares(&mut self, resources: usize) -> (Shares, f64) {
        let mut plans: Vec<Vec<f64>> = self.met.iter().map(|met| self.seconds(met)).collect();
        loop {
            let (mut shares, most_s) = shares::best(&plans, resources + self.chains.len());
            let Some(chain) = self.missing_chain(&plans, most_s) else {
                let of_chains = shares.split_off(resources);
                let chains = ChainWeights::new(self.chains.iter().zip(of_chains));
                return (Shares { resources: shares, chains }, most_s);
            };
            for (seconds, met) in plans.iter_mut().zip(&self.met) {
                seconds.push(met.chain(&chain));
            }
            self.chains.push(chain);
        }
    }

    /// What everything that has a share takes in a plan.
    fn seconds(&self, met: &Met<'_, '_>) -> Vec<f64> {
        let chains = self.chains.iter().map(|chain| met.chain(chain));
        met.busy.iter().copied().chain(chains).collect()
    }

    /// The chain that takes longest on the average of the plans for which the best shares are best,
    /// if that is longer than their bound.
    fn missing_chain(&self, plans: &[Vec<f64>], most_s: f64) -> Option<Chain> {
        let shares = shares::of_plans(plans);
        let weighted = self.met.iter().zip(shares).filter(|(_, share)| *share > 0.0);
        let weighted: Vec<(&Met<'_, '_>, f64)> = weighted.collect();
        let alone_s = total(weighted.iter().map(|(met, share)| share * met.alone));
        let of_chains: Vec<_> =
            weighted.iter().map(|(met, share)| (&met.durations, *share)).collect();
        let average = Durations::average(&of_chains)?;
        let chain = average.longest();
        let raises = alone_s + average.of(&chain) > most_s * (1.0 + LITTLE);
        (raises && !self.chains.contains(&chain)).then_some(chain)
    }
}
