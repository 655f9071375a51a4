//! Minimises the sum of the steps of a plan: all of them, or the collectives alone.
//!
//! One minimisation of the sharding problem, without the dominated layouts unless a value has too
//! many shardings to compare them. Where the solver cannot close the gap, the bound says how much
//! cheaper a plan could be at most.

use shardwise_ir::ids::OpId;
use shardwise_ir::plan::{Materialization, Plan};

use crate::cost::report;
use crate::insert_collectives::plan;
use crate::problem::{Problem, dominance};
use crate::propagate::textbook::Infeasible;
use crate::reshard::tables::Tables;
use crate::search::objective::{Objective, plan_price};
use crate::search::outcome::{Found, Optimality, Request};
use crate::search::tie_break::{alternatives, prefer};
use crate::solver::dreyfus_wagner::Trees;
use crate::solver::interrupt::Interrupt;
use crate::solver::minimize::{Incumbents, Limits, minimize_with};
use crate::solver::weight::Weight;

/// States of one value up to which layouts are compared with each other: that takes the distances
/// between all of them. Above that, only the solver's bounds remove costly ones.
const PRUNED: usize = 500;

/// The share of the time for that.
const FOR_DOMINANCE: f64 = 0.3;

/// What ends a search while a plan is the best that it knows.
pub(crate) type EndsWith<'e> = dyn Fn(&Plan) -> Interrupt + 'e;

/// The cheapest plan, however much memory it takes.
pub(crate) fn search(
    tables: &Tables<'_>,
    textbook: &Plan,
    request: &Request,
    ends_with: Option<&EndsWith<'_>>,
) -> Result<Found, Infeasible> {
    let objective = request.objective;
    let interrupt =
        ends_with.map_or_else(|| request.interrupt.clone(), |ends_with| ends_with(textbook));
    let Some(problem) = Problem::in_time(tables, objective.compute(), &interrupt) else {
        return Ok(Found::of(textbook, Optimality::Bounded { lower_bound_s: 0.0 }));
    };
    let enough = request.goal.as_ref().map_or(0.0, |goal| goal.enough);
    let limits = Limits { interrupt, below: wanted(request), enough, ..Limits::default() };
    let is_shown = request.goal.as_ref().is_none_or(|goal| !goal.is_compared);
    let Solved { plan: found, bound, exact, alternatives, layouts } =
        solve_below(problem, textbook, limits, ends_with, is_shown)?;
    let (price, known) =
        (plan_price(tables, &found, objective), plan_price(tables, textbook, objective));
    let plan = if price < known { found } else { textbook.clone() };
    let closed = exact || bound >= price.min(known);
    let optimality = if closed {
        Optimality::Optimal
    } else {
        Optimality::Bounded { lower_bound_s: bound.as_seconds() }
    };
    Ok(Found { plan, optimality, alternatives, layouts, unlimited_s: None })
}

/// A plan with a small weighted sum of seconds, and a lower bound of that sum.
pub(crate) struct Solved {
    pub(crate) plan: Plan,
    pub(crate) bound: Weight,
    /// Whether the plan attains the bound.
    pub(crate) exact: bool,
    alternatives: Vec<Materialization>,
    layouts: (usize, usize),
}

impl Solved {
    /// A plan of which nothing is known.
    fn unproven(plan: &Plan) -> Self {
        Self {
            plan: plan.clone(),
            bound: Weight::ZERO,
            exact: false,
            alternatives: Vec::new(),
            layouts: (0, 0),
        }
    }
}

/// Minimises the sum of the weighted seconds of reshards and of operations.
pub(crate) fn solve(
    problem: Problem<'_>,
    textbook: &Plan,
    interrupt: &Interrupt,
) -> Result<Solved, Infeasible> {
    solve_near(problem, textbook, 0.0, interrupt)
}

/// The same until a solution is within this ratio of the bound.
pub(crate) fn solve_near(
    problem: Problem<'_>,
    textbook: &Plan,
    enough: f64,
    interrupt: &Interrupt,
) -> Result<Solved, Infeasible> {
    let limits = Limits { interrupt: interrupt.clone(), enough, ..Limits::default() };
    solve_below(problem, textbook, limits, None, false)
}

/// Whether layouts are compared with each other.
pub(crate) fn is_pruned(tables: &Tables<'_>) -> bool {
    tables.all.iter().all(|table| table.space.len() <= PRUNED)
}

/// What plans have to be below.
fn wanted(request: &Request) -> Weight {
    request.goal.as_ref().map_or(Weight::INFINITE, |goal| Weight::seconds(goal.below_s))
}

/// The same where only the solutions that the limits say are wanted: the bound reaches them at
/// most. Of a plan that is shown the alternatives are, too.
fn solve_below(
    mut problem: Problem<'_>,
    textbook: &Plan,
    limits: Limits,
    ends_with: Option<&EndsWith<'_>>,
    is_shown: bool,
) -> Result<Solved, Infeasible> {
    prefer(&mut problem, textbook);
    match solve_from(problem, Some(textbook), limits, ends_with, is_shown)? {
        Outcome::Solved(solved) => Ok(*solved),
        Outcome::Nothing(_) => Err(Infeasible::Operation(OpId::new(0))),
    }
}

/// A plan for a program for which the textbook's rules find none, if there is one that reaches the
/// goal; else the seconds that all take, or nothing.
pub(crate) fn without_textbook(
    tables: &Tables<'_>,
    request: &Request,
) -> Result<Plan, Option<f64>> {
    let problem = Problem::new(tables, Objective::Serial.compute());
    let is_goal = request.objective == Objective::Serial && tables.part.is_whole;
    let below = if is_goal { wanted(request) } else { Weight::INFINITE };
    let limits = Limits { interrupt: request.interrupt.clone(), below, ..Limits::default() };
    match solve_from(problem, None, limits, None, false) {
        Ok(Outcome::Solved(solved)) => Ok(solved.plan),
        Ok(Outcome::Nothing(bound)) if bound.is_finite() => {
            Err(Some(bound.as_seconds()).filter(|&bound_s| request.is_out_of_reach(bound_s)))
        }
        Ok(Outcome::Nothing(_)) | Err(_) => Err(None),
    }
}

/// What a search without a limit ends with.
enum Outcome {
    Solved(Box<Solved>),
    /// No plan is known or found; the bound.
    Nothing(Weight),
}

/// The same from a known plan, if there is one.
fn solve_from(
    mut problem: Problem<'_>,
    known: Option<&Plan>,
    limits: Limits,
    ends_with: Option<&EndsWith<'_>>,
    is_shown: bool,
) -> Result<Outcome, Infeasible> {
    let interrupt = limits.interrupt.clone();
    let unproven = || {
        let solved = known.map(|plan| Outcome::Solved(Box::new(Solved::unproven(plan))));
        solved.unwrap_or(Outcome::Nothing(Weight::ZERO))
    };
    let tables = problem.tables;
    if interrupt.is_cancelled() || interrupt.is_due() && known.is_some() {
        return Ok(unproven());
    }
    let before = problem.variables.iter().map(|variable| variable.choices.len()).sum();
    if is_pruned(tables) {
        dominance::prune(&mut problem, &interrupt.part(FOR_DOMINANCE));
    }
    let after = problem.variables.iter().map(|variable| variable.choices.len()).sum();
    let mut impossible = problem.variables.iter().filter(|variable| variable.choices.is_empty());
    if let Some(op) = impossible.find_map(|variable| variable.decides.operation()) {
        return Err(Infeasible::Operation(op));
    }
    if interrupt.is_cancelled() || interrupt.is_due() && known.is_some() {
        return Ok(unproven());
    }
    let model = problem.model();
    let mut trees = model.tree_tables();
    let mut plans = Plans { problem: &problem, ends_with };
    let weight = |plan: &Plan| weight(&problem, plan);
    let cutoff = known.map_or(Weight::INFINITE, weight).min(limits.below);
    let solution = minimize_with(&model, &mut trees, &limits, cutoff, &mut plans);
    let found = solution.assignment.as_ref().map(|found| plan::plan(&problem, found, &mut trees));
    debug_assert!(
        found.iter().all(|plan| is_bound(solution.bound, weight(plan))),
        "tables price a plan higher than the plan itself does"
    );
    let Some(plan) = found.or_else(|| known.cloned()) else {
        return Ok(Outcome::Nothing(solution.bound));
    };
    // Tables leave out what many operations of a kernel read of one value, and price no pass of a
    // cast whose result is resharded.
    let is_exact = is_bound(weight(&plan), solution.bound);
    Ok(Outcome::Solved(Box::new(Solved {
        plan,
        bound: solution.bound,
        exact: solution.stop_reason.is_proof() && is_exact,
        alternatives: if is_shown { alternatives(&problem, &solution) } else { Vec::new() },
        layouts: (before, after),
    })))
}

/// What is known of assignments: the plans that they make.
struct Plans<'p, 't> {
    problem: &'p Problem<'t>,
    ends_with: Option<&'p EndsWith<'p>>,
}

impl Incumbents for Plans<'_, '_> {
    fn cost(&mut self, assignment: &[usize], trees: &mut [Trees<'_>]) -> Weight {
        weight(self.problem, &plan::plan(self.problem, assignment, trees))
    }

    fn interrupt(&mut self, assignment: &[usize], trees: &mut [Trees<'_>]) -> Option<Interrupt> {
        let ends_with = self.ends_with?;
        Some(ends_with(&plan::plan(self.problem, assignment, trees)))
    }
}

/// The price of a plan, as a problem weights its steps.
fn weight(problem: &Problem<'_>, plan: &Plan) -> Weight {
    report::weight(&plan.into(), problem.compute, &problem.tables.cost_model)
}

/// Whether a bound is below the price of a plan, but for rounding.
fn is_bound(bound: Weight, price: Weight) -> bool {
    bound.as_seconds() <= price.as_seconds() * (1.0 + 1e-9)
}
