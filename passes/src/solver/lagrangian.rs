//! Minimisation under a capacity where trees are too large for tables: branch and bound over
//! choices, bounded by Lagrangian relaxation.
//!
//! The capacity couples all choices. Each moment gets a *multiplier*, the price of what choices
//! demand then (Everett 1963); the model without the capacity and with these prices in its unary
//! costs is the *Lagrangian subproblem*, solved exactly or from below ([`crate::solver::reprice`]).
//! For any multipliers its value, less the limits at these prices, is a lower bound of every
//! assignment that keeps the capacity (Held and Karp 1971; Fisher 1981). Multipliers change along
//! the subgradient, by Polyak's step. Every solution found is offered to the caller as an
//! incumbent; where the gap stays wide, so are the solutions at equal multipliers of all moments,
//! in decreasing order. A node is branched on the variable that demands most at the moment exceeded
//! most: its smaller choices, and the rest.
//!
//! Alternatives: a dynamic programme over the remaining capacity of each moment is exact, and its
//! number of states is exponential in the number of moments; a penalty without a bound proves
//! nothing. Where all terms have tables, [`crate::solver::capacity`] has better bounds.

use std::cell::Cell;
use std::sync::Arc;

use crate::solver::branch_and_bound::{OpenNode, Outcome, Subproblem, best_first, can_prune};
use crate::solver::dreyfus_wagner::Trees;
use crate::solver::interrupt::Interrupt;
use crate::solver::model::{Demand, Model, UnaryCosts};
use crate::solver::reprice::LagrangianSubproblem;
use crate::solver::weight::Weight;

/// Solutions of the Lagrangian subproblem in one search, for small models; fewer for larger, so
/// that the time stays within seconds.
pub(crate) const MOST_SOLUTIONS: usize = 500;

/// Variables times solutions, at most.
const MOST_WORK: usize = 20_000;

/// Combinations evaluated in one search: a second or two.
pub(crate) const MOST_EVALUATIONS: usize = 600_000_000;

/// Subgradient steps at the root, and at other nodes.
const STEPS: (usize, usize) = (40, 8);

/// The ratio of the best solution to the bound above which equal multipliers are tried; how many,
/// and the ratio of each to the previous one.
const WIDE: f64 = 1.02;
const MULTIPLIERS: usize = 14;
const DECREASE: f64 = 2.0;

/// Limits on the work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowLimits<'i> {
    /// Solutions of the Lagrangian subproblem at most.
    pub(crate) solutions: usize,
    /// Combinations that may still be evaluated, in this search and others.
    pub(crate) evaluations: &'i Cell<usize>,
    /// Only assignments that take less than these seconds are wanted.
    pub(crate) below_s: f64,
    /// What ends the work earlier.
    pub(crate) interrupt: &'i Interrupt,
}

/// The result of a search under a capacity, in seconds.
pub(crate) struct Bounded {
    /// The best value that the callback accepted; if it accepted none, the one to be below.
    pub(crate) best_s: f64,
    /// The lower bound of all assignments that keep the capacity.
    pub(crate) lower_bound_s: f64,
    /// Whether it ended because time or solutions ran out.
    pub(crate) was_cut_short: bool,
}

/// A lazy feasibility check and incumbent callback in one: the exact cost in seconds of an
/// assignment that may keep the capacity, if it is lower than the given value and the assignment is
/// feasible.
pub(crate) type Offer<'o> = dyn FnMut(&[usize], &mut [Trees<'_>], f64) -> Option<f64> + 'o;

/// Minimises a model under its capacity.
pub(crate) fn minimize_within<'m>(
    model: &'m Model,
    trees: &mut [Trees<'m>],
    limits: RowLimits<'_>,
    offer: &mut Offer<'_>,
) -> Bounded {
    if model.unary.iter().any(Vec::is_empty) {
        let none = f64::INFINITY;
        return Bounded { best_s: none, lower_bound_s: none, was_cut_short: false };
    }
    model.prepare_metrics();
    let subproblem = LagrangianSubproblem::new(model, trees, limits.interrupt);
    let most = (MOST_WORK / model.unary.len().max(1)).max(20).min(limits.solutions);
    let solutions = subproblem.solutions(most);
    let sizes = sizes(model);
    let best_s = limits.below_s;
    let evaluations = MOST_EVALUATIONS.min(limits.evaluations.get());
    let mut search = LagrangianSearch {
        model,
        sizes,
        subproblem,
        trees,
        offer,
        interrupt: limits.interrupt,
        solutions,
        evaluations,
        best_s,
    };
    let found = search.run();
    limits.evaluations.set(limits.evaluations.get() - (evaluations - search.evaluations));
    found
}

/// For each variable, the numbers by which branching calls its choices smaller.
fn sizes(model: &Model) -> Vec<Option<Arc<[f64]>>> {
    let mut sizes = vec![None; model.unary.len()];
    for Demand { variable, numbers, .. } in &model.capacity.demands {
        sizes[*variable].get_or_insert_with(|| Arc::clone(numbers));
    }
    sizes
}

struct LagrangianSearch<'s, 'm> {
    model: &'m Model,
    sizes: Vec<Option<Arc<[f64]>>>,
    subproblem: LagrangianSubproblem<'m>,
    trees: &'s mut [Trees<'m>],
    offer: &'s mut Offer<'s>,
    interrupt: &'s Interrupt,
    /// How many Lagrangian subproblems may still be solved.
    solutions: usize,
    /// How many combinations may still be evaluated.
    evaluations: usize,
    best_s: f64,
}

/// The lower bound of a node, and the assignment it was found at.
struct NodeBound {
    lower_s: f64,
    assignment: Vec<usize>,
}

impl LagrangianSearch<'_, '_> {
    fn run(&mut self) -> Bounded {
        let unrefuted_s = best_first(self, |search| search.best_s, Self::is_over, Self::evaluate);
        if self.best_s > unrefuted_s * WIDE && unrefuted_s.is_finite() {
            self.multiplier_sweep(unrefuted_s);
        }
        Bounded {
            best_s: self.best_s,
            lower_bound_s: unrefuted_s.min(self.best_s),
            was_cut_short: self.is_over(),
        }
    }

    /// Tries equal multipliers for all moments, in decreasing order: solutions from small demand to
    /// large.
    fn multiplier_sweep(&mut self, lower_s: f64) {
        let mut multiplier = lower_s / self.model.capacity.limit.max(f64::MIN_POSITIVE);
        for _ in 0..MULTIPLIERS {
            if self.interrupt.is_due() || self.evaluations == 0 {
                return;
            }
            let multipliers = vec![multiplier; self.model.capacity.constants.len()];
            let solved = self.subproblem.minimize(&self.charged(&self.model.unary, &multipliers));
            self.evaluations = self.evaluations.saturating_sub(solved.evaluations);
            self.update_incumbent(&solved.assignment);
            multiplier /= DECREASE;
        }
    }

    fn evaluate(&mut self, node: &OpenNode) -> Outcome {
        let Some(bound) = self.bound(node) else { return Outcome::Empty };
        if can_prune(bound.lower_s, self.best_s) {
            return Outcome::Closed(bound.lower_s);
        }
        match self.branch(&node.subproblem, &bound.assignment) {
            None => Outcome::Closed(bound.lower_s),
            Some(subproblems) => Outcome::Branched(bound.lower_s, subproblems),
        }
    }

    fn is_over(&self) -> bool {
        self.solutions == 0 || self.evaluations == 0 || self.interrupt.is_due()
    }

    /// The best bound found by subgradient steps, with its assignment; `None` if the node is
    /// infeasible.
    fn bound(&mut self, node: &OpenNode) -> Option<NodeBound> {
        let allowed = node.subproblem.allowed(&self.model.unary);
        let mut multipliers = vec![0.0; self.model.capacity.constants.len()];
        let mut best = NodeBound { lower_s: node.bound_s, assignment: Vec::new() };
        let steps = if node.number == 0 { STEPS.0 } else { STEPS.1 };
        for _ in 0..steps {
            if !best.assignment.is_empty() && self.is_over() {
                break;
            }
            self.solutions = self.solutions.saturating_sub(1);
            let solved = self.subproblem.minimize(&self.charged(&allowed, &multipliers));
            self.evaluations = self.evaluations.saturating_sub(solved.evaluations);
            if !solved.bound.is_finite() {
                return None;
            }
            let lower_s = solved.bound.as_seconds() - self.worth(&multipliers);
            self.update_incumbent(&solved.assignment);
            if best.assignment.is_empty() || lower_s > best.lower_s {
                best = NodeBound {
                    lower_s: lower_s.max(best.lower_s),
                    assignment: solved.assignment.clone(),
                };
            }
            if can_prune(best.lower_s, self.best_s)
                || !self.subgradient_step(&mut multipliers, &solved.assignment, lower_s)
            {
                break;
            }
        }
        Some(best)
    }

    /// The limits times their multipliers.
    fn worth(&self, multipliers: &[f64]) -> f64 {
        let capacity = &self.model.capacity;
        let moments = capacity.constants.iter().zip(multipliers);
        moments.map(|(constant, multiplier)| multiplier * (capacity.limit - constant)).sum()
    }

    /// The unary costs plus the demands at moments times their multipliers.
    fn charged(&self, allowed: &UnaryCosts, multipliers: &[f64]) -> UnaryCosts {
        let mut sums = vec![0.0; multipliers.len() + 1];
        for (moment, multiplier) in multipliers.iter().enumerate() {
            sums[moment + 1] = sums[moment] + multiplier;
        }
        let mut charged = allowed.clone();
        for Demand { variable, live, numbers } in &self.model.capacity.demands {
            let charge = sums[live.end] - sums[live.start];
            for (weight, number) in charged[*variable].iter_mut().zip(&**numbers) {
                *weight = *weight + Weight::seconds(charge * number);
            }
        }
        charged
    }

    /// Polyak's step: towards the moments that are exceeded, by the distance to the best known
    /// value; `false` where none is exceeded and all multipliers are zero.
    fn subgradient_step(
        &self,
        multipliers: &mut [f64],
        assignment: &[usize],
        lower_s: f64,
    ) -> bool {
        let excess = self.model.capacity.excess(assignment);
        let moving: Vec<usize> = (0..multipliers.len())
            .filter(|&moment| excess[moment] > 0.0 || multipliers[moment] > 0.0)
            .collect();
        let length: f64 = moving.iter().map(|&moment| excess[moment] * excess[moment]).sum();
        if length == 0.0 {
            return false;
        }
        let target_s = if self.best_s.is_finite() { self.best_s } else { 1.5 * lower_s.max(1e-9) };
        let step = (target_s - lower_s).max(lower_s.abs() * 1e-3) / length;
        for moment in moving {
            multipliers[moment] = (multipliers[moment] + step * excess[moment]).max(0.0);
        }
        true
    }

    /// Offers a feasible assignment to the caller.
    fn update_incumbent(&mut self, assignment: &[usize]) {
        if self.model.is_feasible(assignment, self.trees)
            && let Some(value_s) = (self.offer)(assignment, self.trees, self.best_s)
        {
            self.best_s = value_s;
        }
    }

    /// Branches the node in two. Of the variables that are live at the moment exceeded most, the
    /// one with the largest demand is split into its smaller choices and the rest; if there is
    /// none, some variable into the choice taken and the rest. `None` if all variables are fixed.
    fn branch(&self, node: &Subproblem, assignment: &[usize]) -> Option<[Subproblem; 2]> {
        let excess = self.model.capacity.excess(assignment);
        let worst = (0..excess.len()).max_by(|&a, &b| excess[a].total_cmp(&excess[b]));
        let is_live = |demand: &&Demand| worst.is_some_and(|worst| demand.live.contains(&worst));
        let numbers = |variable: usize| self.sizes[variable].as_deref();
        let size = |variable: usize| {
            numbers(variable).map_or(0.0, |numbers| numbers[assignment[variable]])
        };
        let largest = |among: &mut dyn Iterator<Item = usize>| {
            among.max_by(|&a, &b| size(a).total_cmp(&size(b)).then(b.cmp(&a)))
        };
        let left = |v: usize, wanted: &dyn Fn(usize) -> bool| {
            node.choices(v, self.model.unary[v].len(), wanted)
        };
        let smaller = |v: usize| {
            left(v, &|choice| numbers(v).is_some_and(|numbers| numbers[choice] < size(v)))
        };
        let live = self.model.capacity.demands.iter().filter(is_live);
        let mut candidates = live.map(|demand| demand.variable);
        let in_the_way = largest(&mut candidates.by_ref().filter(|&v| smaller(v).contains(&true)));
        let is_open = |&v: &usize| left(v, &|choice| choice != assignment[v]).contains(&true);
        let open = || largest(&mut (0..assignment.len()).filter(is_open));
        let taken = |v: usize| left(v, &|choice| choice == assignment[v]);
        let (variable, first) =
            in_the_way.map(|v| (v, smaller(v))).or_else(|| open().map(|v| (v, taken(v))))?;
        Some(node.branch(variable, first))
    }
}
