//! Bounds of schedules by resources and chains together.
//!
//! No schedule is shorter than its plan's busiest resource, nor than a chain. For any shares of
//! resources and [chains](crate::search::chain) that add up to one, the sum of their times in a
//! plan, weighted by shares, is a bound of its schedule, and the least sum of all plans is a bound
//! of all schedules. The solver minimises it. Cutting planes find good shares, as for resources
//! alone; the longest chain of each plan that is met on the way is one more that can have a share.
//! Plans with a small sum balance what they compute, move and wait for, and are scheduled.
//!
//! The chains of a program are too many to list, and few of them are the longest of a good plan.

use crate::insert_collectives::plan;
use crate::layouts::composite::ExpandedPlan;
use crate::problem::{Problem, dominance};
use crate::reshard::tables::Tables;
use crate::search::chain::{Chain, ChainWeights};
use crate::search::critical_path::CriticalPath;
use crate::search::known_plans::Known;
use crate::search::longest_chain::Assigned;
use crate::search::serial::is_pruned;
use crate::search::shares::{self, Bound, MOST_IN_VAIN, ROUNDS, Shares};
use crate::solver::dreyfus_wagner::Trees;
use crate::solver::minimize::{Limits, minimize_with};
use crate::solver::weight::Weight;

/// The share of a time by which a bound has to rise, to be worth other shares.
const LITTLE: f64 = 1e-3;

/// Steps between shardings that are priced for all shares together, at most: some seconds.
const MOST_REPRICED: usize = 1 << 20;

/// The share of a time by which a bound has to be below it for better ones to be looked for.
const WORTHWHILE: f64 = 0.005;

/// How far a solution may be above its bound, as a share of the gap that is left.
const NEAR: f64 = 0.05;

/// What is added to the best share of an axis, for plans whose links are less busy: those of the
/// best shares have the least sum, in which what is longest may be long.
const MORE: [f64; 2] = [0.025, 0.1];

/// How far such a plan may be above the least sum.
const LOOSE: f64 = 0.01;

/// The bounds of schedules by resources and chains, from the best shares of resources on; adds the
/// plans that attain them.
pub(super) fn bounds<'t>(
    known: &mut Known<'t>,
    path: &CriticalPath<'t>,
    of_resources: &[Bound],
    mut least_s: f64,
) -> Vec<Bound> {
    let equal = || Shares::of_resources(vec![1.0 / known.resources as f64; known.resources]);
    let first = shares::highest(of_resources).map_or_else(equal, |highest| highest.shares.clone());
    let mut search = Combined { path, chains: Vec::new(), met: Vec::new() };
    let mut bounds: Vec<Bound> = Vec::new();
    let (mut next, mut lowest_s, mut in_vain) = (first, f64::INFINITY, 0);
    let rounds = ROUNDS.min(MOST_REPRICED / known.tables.ways().max(1));
    while bounds.len() < rounds && in_vain < MOST_IN_VAIN {
        let (wanted_s, best_s) = (known.wanted_s(), known.best_s());
        if !is_worthwhile(known, least_s) {
            break;
        }
        let enough = NEAR * (1.0 - least_s / wanted_s);
        let seconds = search.minimize(known, &next, enough);
        let little_s = wanted_s * LITTLE;
        let raises = seconds > shares::least_s(&bounds) + little_s;
        least_s = least_s.max(seconds);
        bounds.push(Bound { seconds, shares: next });
        let (shares, most_s) = search.best_shares(known.resources);
        let lowers = most_s < lowest_s - little_s;
        lowest_s = lowest_s.min(most_s);
        in_vain = if raises || lowers || known.best_s() < best_s { 0 } else { in_vain + 1 };
        if most_s < least_s + little_s {
            break;
        }
        next = shares;
    }
    if rounds > 0 {
        search.move_less(known, &bounds);
    }
    bounds
}

/// Whether a bound leaves a gap that is worth more shares, and there is time for them.
fn is_worthwhile(known: &Known<'_>, least_s: f64) -> bool {
    let wanted_s = known.wanted_s();
    known.is_open(least_s) && wanted_s - least_s >= wanted_s * WORTHWHILE
}

/// A search for shares.
struct Combined<'p, 't> {
    path: &'p CriticalPath<'t>,
    /// The longest chains of the plans met so far.
    chains: Vec<Chain>,
    /// The plans met so far: how long resources are busy, and the shardings of values.
    met: Vec<(Vec<f64>, Assigned<'p, 't>)>,
}

impl<'t> Combined<'_, 't> {
    /// Adds plans that move less along each axis than those of the best shares.
    fn move_less(&mut self, known: &mut Known<'t>, bounds: &[Bound]) {
        let Some(Bound { seconds, shares }) = shares::highest(bounds) else { return };
        for axis in 1..known.resources {
            for more in MORE {
                if !is_worthwhile(known, *seconds) {
                    return;
                }
                let mut shares = shares.clone();
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
            let busy = known.busy_s(&ExpandedPlan::from(&plan));
            known.add(plan);
            let assigned = Assigned::new(self.path, &problem, assignment);
            let chain = assigned.longest();
            if !self.chains.contains(&chain) {
                self.chains.push(chain);
            }
            self.met.push((busy, assigned));
        }
        solution.bound.as_seconds()
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

    /// The best shares for the plans met so far, and the bound that they have at most.
    fn best_shares(&self, resources: usize) -> (Shares, f64) {
        let seconds = |(busy, assigned): &(Vec<f64>, Assigned<'_, '_>)| {
            let chains = self.chains.iter().map(|chain| assigned.seconds(chain));
            busy.iter().copied().chain(chains).collect::<Vec<f64>>()
        };
        let plans: Vec<Vec<f64>> = self.met.iter().map(seconds).collect();
        let (mut shares, most_s) = shares::best(&plans, resources + self.chains.len());
        let of_chains = shares.split_off(resources);
        let chains = ChainWeights::new(self.chains.iter().zip(of_chains));
        (Shares { resources: shares, chains }, most_s)
    }
}
