//! Minimisation under capacity rows: branch and bound over choices, bounded by Lagrangian
//! relaxation.
//!
//! Rows couple all choices. Each row gets a *multiplier*, the price of what choices contribute to
//! it (Everett 1963); the model without rows and with these prices in its unary costs is the
//! *Lagrangian subproblem*, solved exactly or from below ([`crate::solver::reprice`]). For any
//! multipliers its value, less the limits at these prices, is a lower bound of every assignment
//! that keeps the rows (Held and Karp 1971; Fisher 1981). Multipliers change along the subgradient,
//! by Polyak's step. Every solution found is offered to the caller as an incumbent; where the gap
//! stays wide, so are the solutions at equal multipliers of all rows, in decreasing order. A node
//! is branched on the variable that contributes most to the row exceeded most: its smaller choices,
//! and the rest.
//!
//! Alternatives: a dynamic programme over the remaining capacity of each row is exact, and its
//! number of states is exponential in the number of rows; a penalty without a bound proves nothing.

use std::sync::Arc;

use crate::solver::branch_and_bound::{OpenNode, Outcome, Subproblem, best_first, can_prune};
use crate::solver::dreyfus_wagner::Trees;
use crate::solver::interrupt::Interrupt;
use crate::solver::model::{CapacityRow, Model, UnaryCosts};
use crate::solver::reprice::LagrangianSubproblem;
use crate::solver::weight::Weight;

/// Solutions of the Lagrangian subproblem in one search, for small models; fewer for larger, so
/// that the time stays within seconds.
pub(crate) const MOST_SOLUTIONS: usize = 500;

/// Variables times solutions, at most.
const MOST_WORK: usize = 20_000;

/// Combinations evaluated in one search: a second or two.
const MOST_EVALUATIONS: usize = 600_000_000;

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
    /// What ends the work earlier.
    pub(crate) interrupt: &'i Interrupt,
}

/// The result of a search under rows, in seconds.
pub(crate) struct Bounded {
    /// The best value that the callback accepted; infinite if it accepted none.
    pub(crate) best_s: f64,
    /// The lower bound of all assignments that keep the rows.
    pub(crate) lower_bound_s: f64,
    /// Whether it ended because time or solutions ran out.
    pub(crate) was_cut_short: bool,
}

/// A lazy feasibility check and incumbent callback in one: the exact cost in seconds of an
/// assignment that may keep the rows, if it is lower than the given value and the assignment is
/// feasible.
pub(crate) type Offer<'o> = dyn FnMut(&[usize], &mut [Trees<'_>], f64) -> Option<f64> + 'o;

/// Minimises a model under its rows.
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
    let columns = Columns::new(model);
    let best_s = f64::INFINITY;
    let evaluations = MOST_EVALUATIONS;
    LagrangianSearch {
        model,
        columns,
        subproblem,
        trees,
        offer,
        interrupt: limits.interrupt,
        solutions,
        evaluations,
        best_s,
    }
    .run()
}

/// The contributions of a variable's choices to the rows.
struct Column {
    variable: usize,
    numbers: Arc<[f64]>,
    rows: Vec<usize>,
}

/// The rows of a model by variables.
struct Columns {
    /// One for each row's own variable, after them one for each variable that rows share.
    all: Vec<Column>,
    /// The variables that rows share, ascending.
    shared: Vec<usize>,
    /// For each variable, the numbers by which branching calls its choices smaller.
    sizes: Vec<Option<Arc<[f64]>>>,
}

impl Columns {
    fn new(model: &Model) -> Self {
        let mut sizes = vec![None; model.unary.len()];
        let mut all = Vec::new();
        for (row, CapacityRow { own: (variable, numbers), .. }) in model.rows.iter().enumerate() {
            sizes[*variable].get_or_insert_with(|| Arc::clone(numbers));
            all.push(Column { variable: *variable, numbers: Arc::clone(numbers), rows: vec![row] });
        }
        let mut shared: Vec<Column> = Vec::new();
        for (row, (variable, numbers)) in model
            .rows
            .iter()
            .enumerate()
            .flat_map(|(row, of)| of.shared.iter().map(move |entry| (row, entry)))
        {
            sizes[*variable].get_or_insert_with(|| Arc::clone(numbers));
            let is_same = |column: &&mut Column| {
                column.variable == *variable && Arc::ptr_eq(&column.numbers, numbers)
            };
            match shared.iter_mut().find(is_same) {
                Some(column) => column.rows.push(row),
                None => shared.push(Column {
                    variable: *variable,
                    numbers: Arc::clone(numbers),
                    rows: vec![row],
                }),
            }
        }
        shared.sort_by_key(|column| column.variable);
        let mut variables: Vec<usize> = shared.iter().map(|column| column.variable).collect();
        variables.dedup();
        all.extend(shared);
        Self { all, shared: variables, sizes }
    }
}

struct LagrangianSearch<'s, 'm> {
    model: &'m Model,
    columns: Columns,
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
    fn run(mut self) -> Bounded {
        let unrefuted_s =
            best_first(&mut self, |search| search.best_s, Self::is_over, Self::evaluate);
        if self.best_s > unrefuted_s * WIDE && unrefuted_s.is_finite() {
            self.multiplier_sweep(unrefuted_s);
        }
        Bounded {
            best_s: self.best_s,
            lower_bound_s: unrefuted_s.min(self.best_s),
            was_cut_short: self.is_over(),
        }
    }

    /// Tries equal multipliers for all rows, in decreasing order: solutions from small demand to
    /// large.
    fn multiplier_sweep(&mut self, lower_s: f64) {
        let limits = self.model.rows.iter().map(|row| row.limit).filter(|limit| limit.is_finite());
        let mut multiplier = lower_s / limits.fold(f64::MIN_POSITIVE, f64::max);
        for _ in 0..MULTIPLIERS {
            if self.interrupt.is_due() {
                return;
            }
            let multipliers = vec![multiplier; self.model.rows.len()];
            let solved = self.subproblem.minimize(&self.charged(&self.model.unary, &multipliers));
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
        let mut multipliers = vec![0.0; self.model.rows.len()];
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
        let rows = self.model.rows.iter().zip(multipliers).filter(|(_, of_row)| **of_row > 0.0);
        rows.map(|(row, of_row)| of_row * (row.limit - row.constant)).sum()
    }

    /// The unary costs plus the contributions to rows times their multipliers.
    fn charged(&self, allowed: &UnaryCosts, multipliers: &[f64]) -> UnaryCosts {
        let mut charged = allowed.clone();
        for Column { variable, numbers, rows } in &self.columns.all {
            let charge: f64 = rows.iter().map(|&row| multipliers[row]).sum();
            for (weight, number) in charged[*variable].iter_mut().zip(&**numbers) {
                *weight = *weight + Weight::seconds(charge * number);
            }
        }
        charged
    }

    /// Polyak's step: towards the rows that are exceeded, by the distance to the best known value;
    /// `false` where no row is exceeded and all multipliers are zero.
    fn subgradient_step(
        &self,
        multipliers: &mut [f64],
        assignment: &[usize],
        lower_s: f64,
    ) -> bool {
        let excess: Vec<f64> = self.model.rows.iter().map(|row| row.excess(assignment)).collect();
        let moving: Vec<usize> = (0..multipliers.len())
            .filter(|&row| excess[row] > 0.0 || multipliers[row] > 0.0)
            .collect();
        let length: f64 = moving.iter().map(|&row| excess[row] * excess[row]).sum();
        if length == 0.0 {
            return false;
        }
        let target_s = if self.best_s.is_finite() { self.best_s } else { 1.5 * lower_s.max(1e-9) };
        let step = (target_s - lower_s).max(lower_s.abs() * 1e-3) / length;
        for row in moving {
            multipliers[row] = (multipliers[row] + step * excess[row]).max(0.0);
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

    /// Branches the node in two. Of the variables that rows share and the own variable of the row
    /// exceeded most, the largest contributor is split into its smaller choices and the rest; if it
    /// has none, some variable into the choice taken and the rest. `None` if all variables are
    /// fixed.
    fn branch(&self, node: &Subproblem, assignment: &[usize]) -> Option<[Subproblem; 2]> {
        let binding = self.model.rows.iter().filter(|row| row.limit.is_finite());
        let worst = binding.max_by(|a, b| a.excess(assignment).total_cmp(&b.excess(assignment)));
        let numbers = |variable: usize| self.columns.sizes[variable].as_deref();
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
        let candidates = self.columns.shared.iter().copied().chain(worst.map(|row| row.own.0));
        let in_the_way = largest(&mut candidates.filter(|&v| smaller(v).contains(&true)));
        let is_open = |&v: &usize| left(v, &|choice| choice != assignment[v]).contains(&true);
        let open = || largest(&mut (0..assignment.len()).filter(is_open));
        let taken = |v: usize| left(v, &|choice| choice == assignment[v]);
        let (variable, first) =
            in_the_way.map(|v| (v, smaller(v))).or_else(|| open().map(|v| (v, taken(v))))?;
        Some(node.branch(variable, first))
    }
}
