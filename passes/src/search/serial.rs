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
use crate::solver::minimize::{Limits, minimize_with};
use crate::solver::weight::Weight;

/// States of one value up to which layouts are compared with each other: that takes the distances
/// between all of them. Above that, only the solver's bounds remove costly ones.
const PRUNED: usize = 500;

/// The share of the time for that.
const FOR_DOMINANCE: f64 = 0.3;

/// The cheapest plan, however much memory it takes.
pub(crate) fn search(
    tables: &Tables<'_>,
    textbook: &Plan,
    request: &Request,
) -> Result<Found, Infeasible> {
    let objective = request.objective;
    let problem = Problem::new(tables, objective.compute());
    let cutoff =
        request.goal.as_ref().map_or(Weight::INFINITE, |goal| Weight::seconds(goal.below_s));
    let Solved { plan: found, bound, exact, alternatives, layouts } =
        solve_below(problem, textbook, cutoff, &request.interrupt)?;
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
    solve_below(problem, textbook, Weight::INFINITE, interrupt)
}

/// The same where only solutions below `cutoff` are wanted: the bound reaches it at most.
fn solve_below(
    mut problem: Problem<'_>,
    textbook: &Plan,
    cutoff: Weight,
    interrupt: &Interrupt,
) -> Result<Solved, Infeasible> {
    prefer(&mut problem, textbook);
    let solved = solve_from(problem, Some(textbook), cutoff, interrupt)?;
    solved.ok_or(Infeasible::Operation(OpId::new(0)))
}

/// A plan for a program for which the textbook's rules find none, if there is one.
pub(crate) fn without_textbook(tables: &Tables<'_>, interrupt: &Interrupt) -> Option<Plan> {
    let problem = Problem::new(tables, Objective::Serial.compute());
    solve_from(problem, None, Weight::INFINITE, interrupt).ok().flatten().map(|solved| solved.plan)
}

/// The same from a known plan, if there is one; `None` where none is known or found.
fn solve_from(
    mut problem: Problem<'_>,
    known: Option<&Plan>,
    cutoff: Weight,
    interrupt: &Interrupt,
) -> Result<Option<Solved>, Infeasible> {
    let (tables, compute) = (problem.tables, problem.compute);
    if interrupt.is_cancelled() || interrupt.is_due() && known.is_some() {
        return Ok(known.map(Solved::unproven));
    }
    let before = problem.variables.iter().map(|variable| variable.choices.len()).sum();
    if tables.all.iter().all(|table| table.space.len() <= PRUNED) {
        dominance::prune(&mut problem, &interrupt.part(FOR_DOMINANCE));
    }
    let after = problem.variables.iter().map(|variable| variable.choices.len()).sum();
    let mut impossible = problem.variables.iter().filter(|variable| variable.choices.is_empty());
    if let Some(op) = impossible.find_map(|variable| variable.decides.operation()) {
        return Err(Infeasible::Operation(op));
    }
    if interrupt.is_cancelled() || interrupt.is_due() && known.is_some() {
        return Ok(known.map(Solved::unproven));
    }
    let model = problem.model();
    let mut trees = model.tree_tables();
    let weight = |plan: &Plan| report::weight(&plan.into(), compute, &tables.cost_model);
    let mut evaluate = |assignment: &[usize], trees: &mut [Trees<'_>]| {
        weight(&plan::plan(&problem, assignment, trees))
    };
    let limits = Limits { interrupt: interrupt.clone(), ..Limits::default() };
    let cutoff = known.map_or(Weight::INFINITE, weight).min(cutoff);
    let solution = minimize_with(&model, &mut trees, &limits, cutoff, &mut evaluate);
    let found = solution.assignment.as_ref().map(|found| plan::plan(&problem, found, &mut trees));
    let Some(plan) = found.or_else(|| known.cloned()) else { return Ok(None) };
    Ok(Some(Solved {
        plan,
        bound: solution.bound,
        exact: solution.stop_reason.is_proof(),
        alternatives: alternatives(&problem, &solution),
        layouts: (before, after),
    }))
}
