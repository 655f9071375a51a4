//! The solver's entry: tries the methods in order, and reports solution, bound and stop reason.

use std::cell::Cell;

use crate::solver::anytime::{self, in_full};
use crate::solver::branch_and_bound::can_prune;
use crate::solver::capacity::{self, CapacityLimits};
use crate::solver::dreyfus_wagner::Trees;
use crate::solver::eliminate::{Minimum, TableLimits};
use crate::solver::interrupt::Interrupt;
use crate::solver::lagrangian::{self, MOST_EVALUATIONS, MOST_SOLUTIONS, RowLimits};
use crate::solver::model::{Model, UnaryCosts};
use crate::solver::tabulate::{Classified, TabulatedTerms};
use crate::solver::weight::Weight;

/// Limits on the work. All but the interrupt are counts, so that the same model has the same
/// solution on every machine.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Tables for elimination of the whole model, which is tried first.
    pub elimination: TableLimits,
    /// Tables for elimination over the few best choices, which finds solutions.
    pub heuristic: TableLimits,
    /// Tables for elimination over what reduced-cost fixing leaves, which is the proof.
    pub proof: TableLimits,
    /// Entries of tables to visit under a capacity.
    pub capacity: usize,
    /// A bound of so much ends the work: no solution is wanted that costs as much, nor its proof.
    pub below: Weight,
    /// The ratio of a solution to the bound, less one, at which the work ends.
    pub enough: f64,
    /// What ends the work earlier.
    pub interrupt: Interrupt,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            elimination: TableLimits { table: 1 << 18, term: 1 << 15, work: 1 << 20 },
            heuristic: TableLimits { table: 1 << 16, term: 1 << 13, work: 1 << 20 },
            proof: TableLimits { table: 1 << 24, term: 1 << 24, work: 1 << 30 },
            capacity: 1 << 32,
            below: Weight::INFINITE,
            enough: 0.0,
            interrupt: Interrupt::NEVER,
        }
    }
}

/// The share of the time for elimination of the whole model.
const FOR_ELIMINATION: f64 = 0.3;

/// The result of a minimisation.
pub struct Solution {
    /// A choice for each variable; nothing if no feasible assignment was found.
    pub assignment: Option<Vec<usize>>,
    /// What the assignment costs; infinite if there is none.
    pub value: Weight,
    /// The lower bound of all assignments.
    pub bound: Weight,
    /// Why the search ended.
    pub stop_reason: StopReason,
    pub(crate) reduced: Option<Reduced>,
}

/// Why a minimisation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// Elimination of the whole model was exact: the assignment is optimal.
    Eliminated,
    /// Elimination of what reduced-cost fixing left was exact: the assignment is optimal.
    Fixed,
    /// The bound reached the cost of a known solution, or is as near to it as was asked for.
    BoundReached,
    /// Neither the bound nor the solution nor the number of choices left improved.
    Stalled,
    /// The counts of [`Limits`] or of the method ran out.
    WorkLimit,
    /// The deadline passed, or the work was cancelled.
    Interrupted,
    /// Some variable has no choice left: there is no solution.
    Infeasible,
}

impl StopReason {
    /// Whether the assignment is proven to be optimal.
    pub fn is_proof(self) -> bool {
        matches!(self, Self::Eliminated | Self::Fixed)
    }
}

/// What a caller knows of the feasible assignments that are found; a closure knows their costs.
pub(crate) trait Incumbents {
    /// The exact cost of an assignment, which is at most its cost in the model.
    fn cost(&mut self, assignment: &[usize], trees: &mut [Trees<'_>]) -> Weight;

    /// What ends the search while this assignment is the best one, where that depends on it.
    fn interrupt(&mut self, _: &[usize], _: &mut [Trees<'_>]) -> Option<Interrupt> {
        None
    }
}

impl<Cost: FnMut(&[usize], &mut [Trees<'_>]) -> Weight> Incumbents for Cost {
    fn cost(&mut self, assignment: &[usize], trees: &mut [Trees<'_>]) -> Weight {
        self(assignment, trees)
    }
}

/// Minimises a model; see [`crate::solver`].
pub fn minimize(model: &Model, limits: &Limits) -> Solution {
    let mut trees = model.tree_tables();
    if !model.capacity.constants.is_empty() {
        return minimize_within_capacity(model, &mut trees, limits);
    }
    let mut cost = |assignment: &[usize], trees: &mut [Trees<'_>]| model.cost(assignment, trees);
    minimize_with(model, &mut trees, limits, Weight::INFINITE, &mut cost)
}

fn minimize_within_capacity<'m>(
    model: &'m Model,
    trees: &mut [Trees<'m>],
    limits: &Limits,
) -> Solution {
    let mut best = None;
    let mut offer = |assignment: &[usize], trees: &mut [Trees<'_>], best_s: f64| {
        let value = model.capacity.holds(assignment).then(|| model.cost(assignment, trees))?;
        (value.is_finite() && value.as_seconds() < best_s).then(|| {
            best = Some((value, assignment.to_vec()));
            value.as_seconds()
        })
    };
    let by_tables = CapacityLimits { work: limits.capacity, interrupt: &limits.interrupt };
    let evaluations = Cell::new(MOST_EVALUATIONS);
    let row_limits = RowLimits {
        evaluations: &evaluations,
        solutions: MOST_SOLUTIONS,
        below_s: f64::INFINITY,
        interrupt: &limits.interrupt,
    };
    let found = capacity::minimize_within(model, trees, by_tables, &mut offer)
        .unwrap_or_else(|| lagrangian::minimize_within(model, trees, row_limits, &mut offer));
    let bound = if found.lower_bound_s.is_finite() {
        Weight::seconds(found.lower_bound_s)
    } else {
        Weight::INFINITE
    };
    let stop_reason = if !bound.is_finite() {
        StopReason::Infeasible
    } else if can_prune(found.lower_bound_s, found.best_s) {
        StopReason::BoundReached
    } else if limits.interrupt.is_due() {
        StopReason::Interrupted
    } else if found.was_cut_short {
        StopReason::WorkLimit
    } else {
        StopReason::Stalled
    };
    let (value, assignment) = best.unzip();
    let value = value.unwrap_or(Weight::INFINITE);
    Solution { assignment, value, bound, stop_reason, reduced: None }
}

/// The same with incumbent callbacks and a *cutoff*, the cost of a solution that is known
/// already. The caller may use `trees` afterwards.
pub(crate) fn minimize_with(
    model: &Model,
    trees: &mut [Trees<'_>],
    limits: &Limits,
    cutoff: Weight,
    incumbents: &mut dyn Incumbents,
) -> Solution {
    if model.unary.iter().any(Vec::is_empty) {
        return Solution::infeasible();
    }
    let first = limits.interrupt.part(FOR_ELIMINATION);
    match Reduced::eliminate(&Classified::new(model), None, trees, limits.elimination, &first) {
        Some(reduced) if !reduced.is_feasible() => Solution::infeasible(),
        Some(reduced) => Solution::proven(StopReason::Eliminated, reduced),
        None => anytime::solve(model, trees, limits, cutoff, incumbents),
    }
}

impl Solution {
    fn infeasible() -> Self {
        Self {
            assignment: None,
            value: Weight::INFINITE,
            bound: Weight::INFINITE,
            stop_reason: StopReason::Infeasible,
            reduced: None,
        }
    }

    /// The choice of `variable` in an assignment of the same cost that makes none of the `excluded`
    /// ones, if there is one and the solution is proven to be optimal.
    pub(crate) fn alternative(
        &self,
        variable: usize,
        excluded: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        self.reduced.as_ref()?.alternative(variable, excluded)
    }

    pub(crate) fn proven(stop_reason: StopReason, reduced: Reduced) -> Self {
        let Minimum { bound, assignment, .. } = &reduced.minimum;
        Self {
            assignment: Some(reduced.in_full(assignment)),
            value: *bound,
            bound: *bound,
            stop_reason,
            reduced: Some(reduced),
        }
    }
}

/// A model's terms over choices among which all optimal assignments are, and its exact minimum.
pub(crate) struct Reduced {
    unary: UnaryCosts,
    /// The remaining choices, if not all are.
    kept: Option<Vec<Vec<usize>>>,
    terms: TabulatedTerms,
    minimum: Minimum,
}

impl Reduced {
    /// Eliminates a model of the choices `kept`, if that is exact within the limits.
    pub(crate) fn eliminate(
        of: &Classified<'_>,
        kept: Option<&[Vec<usize>]>,
        trees: &mut [Trees<'_>],
        limits: TableLimits,
        interrupt: &Interrupt,
    ) -> Option<Self> {
        let terms = TabulatedTerms::to_eliminate(of, trees, limits, interrupt)?;
        let minimum = terms.minimize_exactly(&of.model.unary)?;
        let kept = kept.map(<[_]>::to_vec);
        Some(Self { unary: of.model.unary.clone(), kept, terms, minimum })
    }

    /// Whether some assignment is feasible.
    pub(crate) fn is_feasible(&self) -> bool {
        self.minimum.bound.is_finite()
    }

    fn in_full(&self, assignment: &[usize]) -> Vec<usize> {
        match &self.kept {
            Some(kept) => in_full(kept, assignment),
            None => assignment.to_vec(),
        }
    }

    /// The least assignment, in choices of the whole model.
    pub(crate) fn assignment(&self) -> Vec<usize> {
        self.in_full(&self.minimum.assignment)
    }

    /// See [`Solution::alternative`].
    fn alternative(&self, variable: usize, excluded: impl Fn(usize) -> bool) -> Option<usize> {
        let number =
            |choice: usize| self.kept.as_ref().map_or(choice, |kept| kept[variable][choice]);
        let mut unary = self.unary.clone();
        for (choice, cost) in unary[variable].iter_mut().enumerate() {
            if excluded(number(choice)) {
                *cost = Weight::INFINITE;
            }
        }
        let second = self.terms.minimize(&unary);
        (second.exact && second.bound == self.minimum.bound)
            .then(|| number(second.assignment[variable]))
    }
}
