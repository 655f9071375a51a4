//! Minimises models that are too large for elimination: solutions and bounds are improved in rounds
//! until they meet or the work allowed is done.
//!
//! A round has three steps, each of which reduces the work of the others: the dual
//! ([`crate::solver::dual`]) raises the bound and computes a lower bound of the assignments with
//! each choice; elimination over the few best choices of every variable finds a solution;
//! reduced-cost fixing removes the choices whose bound exceeds its cost. When elimination over all
//! remaining choices is exact, the solution is proven optimal. If the rounds stop improving
//! anything, or the work allowed is done, the bound and the solution found so far are returned.
//!
//! Work is counted, never timed, so the same model has the same solution on every machine; a caller
//! may add a deadline.

mod branching;

use std::borrow::Cow;

use crate::solver::dreyfus_wagner::Trees;
use crate::solver::dual::Dual;
use crate::solver::eliminate::{Minimum, TableLimits};
use crate::solver::free_terminals;
use crate::solver::marginals::{UNREACHABLE, seconds};
use crate::solver::minimize::{Incumbents, Limits, Reduced, Solution, StopReason};
use crate::solver::model::Model;
use crate::solver::neighbourhoods::Neighbourhoods;
use crate::solver::primal_heuristic::PrimalHeuristic;
use crate::solver::tabulate::{Classified, TabulatedTerms};
use crate::solver::weight::Weight;

/// Evaluations of nodes for the tables of one restricted model: a tenth of a second; and for those
/// of all in which solutions are searched.
const MOST_EVALUATIONS: usize = 1 << 23;
const MOST_TABULATED: usize = 1 << 27;

/// Evaluations of nodes for the tables of a proof, and those that its elimination is worth: some
/// seconds.
const FOR_TABLES_OF_PROOF: usize = 1 << 32;
const FOR_ELIMINATION_OF_PROOF: usize = 1 << 31;

/// Evaluations that take as long as one combination.
const OF_A_COMBINATION: usize = 8;

/// Evaluations of nodes for the first attempt at a proof, and the bits by which that limit grows
/// from round to round: sweeps make tables smaller.
const FIRST_PROOF: usize = 1 << 18;
const GROWTH_OF_PROOFS: usize = 3;

/// Numbers that the dual may evaluate: a second or two; and how many times as many where the gap is
/// wide after that and the search is patient.
const MOST_WORK: usize = 1_500_000_000;
const MORE_WORK: usize = 3;

/// Sweeps in a round, and what each of the last few must add to the bound (as a share of it) for
/// the next.
const SWEEPS: &[usize] = &[4, 4, 8, 16, 32];
const WORTHWHILE: f64 = 1e-5;

/// The share of the time for the first bound.
const FOR_FIRST_BOUND: f64 = 0.5;

/// Rounds after which a search goes on only where its gap is wide, and the limit of those.
const ROUNDS: usize = 8;
const MORE_ROUNDS: usize = 200;

/// A gap that is worth more rounds, and what each of them must take from it.
const WIDE: f64 = 0.01;
const PROGRESS: f64 = 2e-3;

/// How many choices of every variable are tried, as long as tables stay small.
const WIDTHS: [usize; 7] = [2, 3, 5, 8, 12, 20, 32];

/// How many choices of a variable are tried together with its neighbours'.
const NEAR_CHOICES: usize = 8;

/// The state after a round: the bound and the cost of the best solution in seconds, and the number
/// of remaining choices.
type Progress = (f64, f64, usize);

struct Rounds<'r, 'm, 'g> {
    model: &'m Model,
    trees: &'r mut [Trees<'g>],
    limits: Limits,
    cutoff: Weight,
    incumbents: &'r mut dyn Incumbents,
    dual: Dual<'m>,
    best: Option<(Weight, Vec<usize>)>,
    /// Evaluations for the tables in which solutions were searched.
    tabulated: usize,
    /// How often what elimination takes was estimated where parts were searched.
    estimated: usize,
}

/// Minimises a model without rows, where an assignment of cost `cutoff` is known already.
pub(crate) fn solve(
    model: &Model,
    trees: &mut [Trees<'_>],
    limits: &Limits,
    cutoff: Weight,
    incumbents: &mut dyn Incumbents,
) -> Solution {
    let reduced = free_terminals::removed(model);
    reduced.prepare_metrics();
    let mut dual = Dual::new(&reduced, &limits.interrupt);
    dual.upper_bound = seconds(cutoff);
    let limits = limits.clone();
    let rounds = Rounds {
        model: &reduced,
        trees: &mut *trees,
        limits,
        cutoff,
        incumbents,
        dual,
        best: None,
        tabulated: 0,
        estimated: 0,
    };
    let solution = rounds.run();
    match (&reduced, &solution.assignment) {
        (Cow::Owned(_), Some(assignment)) => {
            // With the steps that choices share.
            let value = model.cost(assignment, trees).min(solution.value);
            Solution { value, bound: solution.bound.min(value), ..solution }
        }
        _ => solution,
    }
}

impl Rounds<'_, '_, '_> {
    /// Rounds with even shares of edges, then, if a gap is left, with shares of each edge, and with
    /// these from prices of zero and solutions of their own on.
    fn run(mut self) -> Solution {
        let mut bound = 0.0_f64;
        let mut first = None;
        let mut is_restarted = false;
        loop {
            let (stop_reason, reduced) = self.rounds(&mut bound);
            if let Some(reduced) = reduced {
                return Solution::proven(stop_reason, reduced);
            }
            let is_over = matches!(stop_reason, StopReason::Stalled | StopReason::WorkLimit);
            if is_over && self.has_work_left(0) {
                if self.dual.share_edges() {
                    continue;
                }
                if !is_restarted && !self.dual.shares.is_empty() {
                    is_restarted = true;
                    first = self.best.take();
                    self.dual.restart();
                    continue;
                }
            }
            let is_open = bound * (1.0 + self.limits.enough) < self.dual.upper_bound;
            let branched = if is_over && is_open && self.limits.interrupt.is_patient {
                self.branch(&mut bound)
            } else {
                None
            };
            let stop_reason = branched.unwrap_or(stop_reason);
            let is_closed = bound >= self.dual.upper_bound;
            let found = first.into_iter().chain(self.best);
            let (value, assignment) = found.min_by_key(|(value, _)| *value).unzip();
            let value = value.unwrap_or(Weight::INFINITE);
            // Exactly, without the rounding to seconds.
            let bound = if is_closed { value.min(self.cutoff) } else { Weight::seconds(bound) };
            return Solution { assignment, value, bound, stop_reason, reduced: None };
        }
    }

    /// Rounds until nothing improves; why they ended, and the proof if there is one.
    fn rounds(&mut self, bound: &mut f64) -> (StopReason, Option<Reduced>) {
        let mut before: Progress = (0.0, UNREACHABLE, usize::MAX);
        let mut number = 0;
        loop {
            if self.best.is_none() {
                // Time is left to find a solution.
                self.dual.interrupt = self.limits.interrupt.part(FOR_FIRST_BOUND);
            }
            self.ascend(SWEEPS[number.min(SWEEPS.len() - 1)]);
            self.dual.interrupt = self.limits.interrupt.clone();
            if self.limits.interrupt.is_cancelled() {
                return (StopReason::Interrupted, None);
            }
            self.find_incumbents();
            // Removes choices above the upper bound, and those left without a compatible choice
            // elsewhere.
            self.dual.sweep();
            let left = left(&self.dual);
            let now = (self.dual.bound(), self.dual.upper_bound, left.iter().map(Vec::len).sum());
            let mut stop = self.stop(number, before, now);
            let is_over = matches!(stop, Some(StopReason::Stalled | StopReason::WorkLimit));
            if is_over && self.search_neighbourhoods() && self.has_work_left(number) {
                stop = None;
            }
            let most = if stop.is_some() {
                usize::MAX
            } else {
                FIRST_PROOF << (GROWTH_OF_PROOFS * number.min(ROUNDS))
            };
            // What is near enough to the bound needs no proof.
            let is_near = stop == Some(StopReason::BoundReached) && now.0 < now.1;
            let is_wanted = now.0 < seconds(self.limits.below) && !is_near;
            if is_wanted && let Some(reduced) = self.proof(&left, most).filter(Reduced::is_feasible)
            {
                return (StopReason::Fixed, Some(reduced));
            }
            *bound = bound.max(now.0.min(now.1));
            if let Some(reason) = stop {
                return (reason, None);
            }
            (before, number) = (now, number + 1);
        }
    }

    /// The reason why this round is the last, if it is.
    fn stop(&self, number: usize, before: Progress, now: Progress) -> Option<StopReason> {
        let stalled =
            now.0 <= before.0 * (1.0 + WORTHWHILE) && now.1 >= before.1 && now.2 == before.2;
        if now.0.min(now.1) == UNREACHABLE {
            Some(StopReason::Infeasible)
        } else if now.0 * (1.0 + self.limits.enough) >= now.1 {
            Some(StopReason::BoundReached)
        } else if self.limits.interrupt.is_due() {
            Some(StopReason::Interrupted)
        } else if stalled {
            Some(StopReason::Stalled)
        } else if !self.has_work_left(number)
            || number + 1 >= ROUNDS && !self.is_worth_more(before, now)
        {
            Some(StopReason::WorkLimit)
        } else {
            None
        }
    }

    /// Whether the gap is wide after the first rounds, and the last round made it smaller.
    fn is_worth_more(&self, before: Progress, now: Progress) -> bool {
        let gap = |(bound, best, _): Progress| best / bound - 1.0;
        let progress = PROGRESS / self.limits.interrupt.work;
        gap(now) > WIDE && gap(before) - gap(now) > progress * gap(before)
    }

    /// Whether another round is within the counts of work.
    fn has_work_left(&self, number: usize) -> bool {
        self.dual.work <= self.most_work() && number < MORE_ROUNDS
    }

    /// The work that the dual may do.
    fn most_work(&self) -> usize {
        let Limits { interrupt, .. } = &self.limits;
        let is_wide = self.dual.upper_bound > self.dual.bound() * (1.0 + WIDE);
        let more = if is_wide && interrupt.is_patient { MOST_WORK * MORE_WORK } else { 0 };
        interrupt.allowed(MOST_WORK).max(more)
    }

    /// Sweeps until the bound hardly grows.
    fn ascend(&mut self, most: usize) {
        let mut bound = self.dual.bound();
        let mut idle = 0;
        for _ in 0..most {
            let raised = self.dual.sweep();
            idle = if raised > bound * (1.0 + WORTHWHILE) { 0 } else { idle + 1 };
            bound = raised;
            self.limits.interrupt.report(self.dual.upper_bound, bound);
            if idle >= 3
                || self.dual.interrupt.is_due()
                || self.dual.work > self.most_work()
                || !bound.is_finite()
            {
                return;
            }
        }
    }

    /// Rounds the dual to assignments, and updates the incumbent.
    fn find_incumbents(&mut self) {
        let rounded = PrimalHeuristic::new(&mut self.dual).run();
        let descended =
            self.eliminated().and_then(|found| PrimalHeuristic::from(&mut self.dual, &found).run());
        for found in rounded.into_iter().chain(descended) {
            self.offer(found);
        }
    }

    /// Updates the incumbent if an assignment is feasible and cheaper.
    fn offer(&mut self, found: Vec<usize>) {
        if !self.model.is_feasible(&found, self.trees) {
            return;
        }
        let cost = self.incumbents.cost(&found, self.trees);
        if self.best.as_ref().is_none_or(|(least, _)| cost < *least) {
            self.adopt(cost, found);
        }
        self.dual.upper_bound = self.dual.upper_bound.min(seconds(cost));
    }

    /// Makes an assignment the best one.
    fn adopt(&mut self, cost: Weight, found: Vec<usize>) {
        if let Some(interrupt) = self.incumbents.interrupt(&found, self.trees) {
            self.limits.interrupt = interrupt;
        }
        self.best = Some((cost, found));
    }

    /// Improves the best solution in one neighbourhood after another, where the gap is wide.
    /// Returns whether it became better. With a part of the work there are none: they take as long
    /// as everything else, and mostly gain less than a percent.
    fn search_neighbourhoods(&mut self) -> bool {
        if self.limits.interrupt.work < 1.0 {
            return false;
        }
        let Some((before, mut best)) = self.best.take() else { return false };
        let mut least = before;
        let neighbourhoods = Neighbourhoods::new(self.model);
        let ranked: Vec<Vec<usize>> =
            self.dual.reduced_cost.iter().map(|reduced_cost| ranked(reduced_cost)).collect();
        for mut largest_first in neighbourhoods.iter() {
            let is_closed = seconds(least) <= self.dual.bound() * (1.0 + WIDE);
            if is_closed || self.limits.interrupt.is_due() {
                break;
            }
            let found = largest_first
                .find_map(|near| self.best_near(near, &neighbourhoods, &ranked, &best));
            let Some(found) = found.filter(|found| *found != best) else { continue };
            if self.model.is_feasible(&found, self.trees) {
                let cost = self.incumbents.cost(&found, self.trees);
                if cost < least {
                    (least, best) = (cost, found);
                }
            }
        }
        self.dual.upper_bound = self.dual.upper_bound.min(seconds(least));
        self.adopt(least, best);
        least < before
    }

    /// The best assignment with other choices of some variables, among their first few; `None` if
    /// tables over these would be too large.
    fn best_near(
        &mut self,
        variables: &[usize],
        neighbourhoods: &Neighbourhoods,
        ranked: &[Vec<usize>],
        best: &[usize],
    ) -> Option<Vec<usize>> {
        let mut kept: Vec<Vec<usize>> = best.iter().map(|&choice| vec![choice]).collect();
        for &variable in variables {
            kept[variable] = nearest(&ranked[variable], NEAR_CHOICES, Some(best[variable]));
        }
        // All other terms are the same for all of these choices.
        let terms = neighbourhoods.terms(variables);
        let terms = terms.iter().map(|&term| &self.model.terms[term]);
        let restricted = self.model.restricted_to(&kept, terms);
        let restricted = Classified::new(&restricted);
        if restricted.evaluations() > MOST_EVALUATIONS {
            return None;
        }
        let minimum = eliminate(&restricted, self.trees, &self.limits)?;
        Some(in_full(&kept, &minimum.assignment))
    }

    /// The minimum over all remaining choices, if exact elimination is within the limits.
    fn proof(&mut self, left: &[Vec<usize>], most_evaluations: usize) -> Option<Reduced> {
        if left.iter().any(Vec::is_empty) || self.limits.interrupt.is_due() {
            return None;
        }
        let Limits { proof, interrupt, .. } = &self.limits;
        let model = self.model.restricted(left);
        let model = Classified::new(&model);
        let most = |count: usize| interrupt.allowed(count).min(most_evaluations);
        let elimination = || model.combinations(interrupt).saturating_mul(OF_A_COMBINATION);
        if model.evaluations() > most(FOR_TABLES_OF_PROOF)
            || elimination() > most(FOR_ELIMINATION_OF_PROOF)
        {
            return None;
        }
        let proof = TableLimits { work: interrupt.allowed(proof.work), ..*proof };
        Reduced::eliminate(&model, Some(left), self.trees, proof, interrupt)
    }

    /// The best assignment over the choices with the least reduced costs, with ever more of them as
    /// long as tables stay small.
    fn eliminated(&mut self) -> Option<Vec<usize>> {
        let best = self.best.as_ref().map(|(_, assignment)| assignment.clone());
        let best = best.as_deref();
        let ranked: Vec<Vec<usize>> =
            self.dual.reduced_cost.iter().map(|reduced_cost| ranked(reduced_cost)).collect();
        let mut found = None;
        for width in WIDTHS {
            if self.limits.interrupt.is_due() {
                break;
            }
            let kept: Vec<Vec<usize>> = ranked
                .iter()
                .enumerate()
                .map(|(v, ranked)| nearest(ranked, width, best.map(|best| best[v])))
                .collect();
            let restricted = self.model.restricted(&kept);
            let restricted = Classified::new(&restricted);
            let more = restricted.evaluations();
            let interrupt = &self.limits.interrupt;
            let is_too_much = more > interrupt.allowed(MOST_EVALUATIONS)
                || self.tabulated > interrupt.allowed(MOST_TABULATED);
            if is_too_much {
                break;
            }
            self.tabulated += more;
            let Some(minimum) = eliminate(&restricted, self.trees, &self.limits) else {
                break;
            };
            found = Some(in_full(&kept, &minimum.assignment));
        }
        found
    }
}

fn eliminate(of: &Classified<'_>, trees: &mut [Trees<'_>], limits: &Limits) -> Option<Minimum> {
    TabulatedTerms::to_eliminate(of, trees, limits.heuristic, &limits.interrupt)?
        .minimize_exactly(&of.model.unary)
}

/// The remaining choices, in their order.
fn left(dual: &Dual<'_>) -> Vec<Vec<usize>> {
    let finite = |costs: &Vec<f64>| (0..costs.len()).filter(|&c| costs[c] < UNREACHABLE).collect();
    dual.reduced_cost.iter().map(finite).collect()
}

/// Converts choices of a restricted model to those of the full one.
pub(crate) fn in_full(kept: &[Vec<usize>], assignment: &[usize]) -> Vec<usize> {
    kept.iter().zip(assignment).map(|(kept, &choice)| kept[choice]).collect()
}

/// The choices by their reduced costs.
fn ranked(reduced_cost: &[f64]) -> Vec<usize> {
    let mut ranked: Vec<usize> = (0..reduced_cost.len()).collect();
    ranked.sort_by(|&a, &b| reduced_cost[a].total_cmp(&reduced_cost[b]).then(a.cmp(&b)));
    ranked
}

/// For every variable, the choice with the least reduced cost.
pub(crate) fn nearest_to_the_bound(reduced_cost: &[Vec<f64>]) -> Vec<usize> {
    let nearest = |costs: &Vec<f64>| {
        (0..costs.len()).min_by(|&a, &b| costs[a].total_cmp(&costs[b])).unwrap_or(0)
    };
    reduced_cost.iter().map(nearest).collect()
}

/// The first few choices and those of the incumbent, in ascending order.
fn nearest(ranked: &[usize], width: usize, best: Option<usize>) -> Vec<usize> {
    let mut kept: Vec<usize> = ranked.iter().copied().take(width).collect();
    kept.extend(best.filter(|best| !kept.contains(best)));
    kept.sort_unstable();
    kept
}
