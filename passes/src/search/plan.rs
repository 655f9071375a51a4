//! The cheapest plan there is, and the proof.
//!
//! The steps, each in its module: the book's plan first, as what must not be lost to
//! ([`crate::propagate::textbook`]); every layout of every operation ([`crate::propagate::op_layouts`], [`crate::search::problem`])
//! less the dominated ones ([`crate::solver::dominance`]); prices of shared reshard trees as functions of
//! few choices ([`crate::solver::factor`]); exact elimination ([`crate::solver::eliminate`]). If that closes, the
//! plan is optimal and elimination is the proof. If a table would outgrow the limits,
//! [`crate::solver::anytime`] raises a bound ([`crate::solver::dual`]), drops what must be dearer than a known
//! plan, and eliminates the rest; what it cannot close is stated as a gap, with the plan that the
//! dual leads to (`decode`).
//!
//! Axes are not searched one at a time: a choice on one axis changes what is cheap on another
//! (gathers over two axes are one collective with twice the bandwidth, and an axis can serve one
//! index only).
//!
//! Ties are broken by a total order (`ties`). Under a limit on memory the search is `capacity`'s,
//! for the busiest resource [`crate::search::bottleneck`]'s; both solve this one again and again at other
//! prices.

use std::time::{Duration, Instant};

use shardwise_ir::plan::{Materialization, Plan};

use crate::cost::collective::CostModel;
use crate::cost::liveness::memory;
use crate::cost::report;
use crate::insert_collectives::plan;
use crate::propagate::composite::ExpandedPlan;
use crate::propagate::textbook::Infeasible;
use crate::reshard::tables::Tables;
use crate::search::bottleneck;
use crate::search::memory::limit::Limit;
use crate::search::problem::{Objective, Problem};
use crate::search::tie_break::{alternatives, prefer};
use crate::solver::anytime::{self, Proof};
use crate::solver::branch_and_bound::is_beaten;
use crate::solver::dominance;
use crate::solver::dreyfus_wagner::Trees;
use crate::solver::eliminate::Limits;
use crate::solver::tabulate::{Prices, unary};
use crate::solver::weight::Weight;

/// How good the plan is known to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Optimality {
    /// Nothing is cheaper: the search closed.
    Optimal,
    /// Nothing is cheaper than `lower_bound_s` seconds.
    Bounded {
        /// A true lower bound, in seconds of the objective.
        lower_bound_s: f64,
    },
}

/// A plan and what is known of it.
#[derive(Clone, Debug)]
pub struct Found {
    /// The plan.
    pub plan: Plan,
    /// How good it is.
    pub optimality: Optimality,
    /// Other places for the open declarations from which the price is the same, an example for
    /// each.
    pub alternatives: Vec<Materialization>,
    /// Layouts looked at before and after the dominated ones were dropped.
    pub layouts: (usize, usize),
}

/// Tables for elimination as it is: tens of milliseconds. What takes more is closed faster by
/// [`crate::solver::anytime`].
const LIMITS: Limits = Limits { table: 1 << 18, work: 1 << 20 };

/// States of one value up to which layouts are compared with each other: that takes the distances
/// between all of them. Beyond, the dual alone says which are too dear.
const PRUNED: usize = 500;

/// Why there is no plan.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// No layout of an operation fits its brackets.
    Infeasible(Infeasible),
    /// No plan that was found fits into the memory; the smallest one, and its peak in bytes.
    NoRoom(Box<Plan>, f64),
}

/// What a search is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request {
    /// What is made small.
    pub objective: Objective,
    /// How long it may take; without it, until the proof or the limits of work.
    pub timeout: Option<Duration>,
    /// Bytes that a device may hold.
    pub capacity: Option<f64>,
}

/// The cheapest plan that fits into the capacity; never worse than `textbook`, if that fits.
pub fn search(tables: &Tables<'_>, textbook: &Plan, request: Request) -> Result<Found, Refusal> {
    let found = match request.objective {
        Objective::Overlap => bottleneck::search(tables, textbook, request.timeout),
        Objective::Serial | Objective::Comm => unlimited(tables, textbook, request),
    };
    let found = found.map_err(Refusal::Infeasible)?;
    match request
        .capacity
        .filter(|&capacity| memory(&ExpandedPlan::from(&found.plan)).peak_bytes > capacity)
    {
        None => Ok(found),
        Some(capacity) => within(tables, textbook, found, request, capacity),
    }
}

/// The cheapest plan, however much memory it takes.
fn unlimited(
    tables: &Tables<'_>,
    textbook: &Plan,
    Request { objective, timeout, .. }: Request,
) -> Result<Found, Infeasible> {
    let problem = Problem::new(tables, objective.compute());
    let Solved { plan: found, bound, exact, alternatives, layouts } =
        solve(problem, textbook, timeout)?;
    let (price, known) =
        (plan_price(tables, &found, objective), plan_price(tables, textbook, objective));
    let plan = if price < known { found } else { textbook.clone() };
    let closed = exact || bound >= price.min(known);
    let optimality = if closed {
        Optimality::Optimal
    } else {
        Optimality::Bounded { lower_bound_s: bound.as_seconds() }
    };
    Ok(Found { plan, optimality, alternatives, layouts })
}

/// A plan whose sum of counted seconds is small, and a bound of that sum.
pub(crate) struct Solved {
    pub(crate) plan: Plan,
    pub(crate) bound: Weight,
    /// Whether the plan attains the bound.
    pub(crate) exact: bool,
    alternatives: Vec<Materialization>,
    layouts: (usize, usize),
}

/// Minimises the sum of what the problem's tables count for reshards and of its operations'
/// seconds.
pub(crate) fn solve(
    mut problem: Problem<'_>,
    textbook: &Plan,
    timeout: Option<Duration>,
) -> Result<Solved, Infeasible> {
    let (tables, compute) = (problem.tables, problem.compute);
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    prefer(&mut problem, textbook);
    let before = problem.variables.iter().map(|variable| variable.choices.len()).sum();
    if tables.all.iter().all(|table| table.space.len() <= PRUNED) {
        dominance::prune(&mut problem);
    }
    let after = problem.variables.iter().map(|variable| variable.choices.len()).sum();
    let mut impossible = problem.variables.iter().filter(|variable| variable.choices.is_empty());
    if let Some(op) = impossible.find_map(|variable| variable.decides.operation()) {
        return Err(Infeasible { op });
    }
    let mut trees: Vec<Trees<'_>> =
        tables.all.iter().map(|table| Trees::new(table.graph())).collect();
    let prices = Prices::whole(&problem, &mut trees, LIMITS);
    let minimum = prices
        .as_ref()
        .and_then(|prices| Some((prices, prices.minimise_exactly(&unary(&problem))?)));
    if let Some((prices, minimum)) = minimum {
        let alternatives = alternatives(&problem, prices, &minimum);
        let plan = plan::plan(&problem, &minimum.assignment, &mut trees);
        return Ok(Solved {
            plan,
            bound: minimum.bound,
            exact: true,
            alternatives,
            layouts: (before, after),
        });
    }
    drop(prices);
    let weight = |plan: &Plan| report::weight(&plan.into(), compute, &tables.cost_model);
    let mut price = |assignment: &[usize], trees: &mut [Trees<'_>]| {
        weight(&plan::plan(&problem, assignment, trees))
    };
    let closed = anytime::close(&problem, &mut trees, weight(textbook), deadline, &mut price);
    let found =
        closed.assignment.as_ref().map(|assignment| plan::plan(&problem, assignment, &mut trees));
    let plan = found.unwrap_or_else(|| textbook.clone());
    let alternatives = closed
        .proof
        .as_ref()
        .map(|Proof { problem, prices, minimum }| alternatives(problem, prices, minimum));
    Ok(Solved {
        plan,
        bound: closed.bound,
        exact: closed.proof.is_some(),
        alternatives: alternatives.unwrap_or_default(),
        layouts: (before, after),
    })
}

/// The cheapest plan within `capacity`, in which `found` does not fit.
fn within(
    tables: &Tables<'_>,
    textbook: &Plan,
    found: Found,
    request: Request,
    capacity: f64,
) -> Result<Found, Refusal> {
    let limit = Limit::new(tables, textbook, request, capacity);
    let fitting = limit.fitting();
    let Some((plan, seconds)) = fitting.plan else {
        let smallest = limit.smallest(&found.plan);
        let peak = memory(&ExpandedPlan::from(&smallest)).peak_bytes;
        return Err(Refusal::NoRoom(Box::new(smallest), peak));
    };
    // The limited search adds up steps; what it says of the busiest resource is only what is so
    // without a limit.
    let lower_bound_s = match (request.objective, found.optimality) {
        (Objective::Overlap, Optimality::Optimal) => {
            objective_s(tables, &found.plan, request.objective)
        }
        (Objective::Overlap, Optimality::Bounded { lower_bound_s }) => lower_bound_s,
        _ => fitting.lower_bound_s,
    };
    let optimality = if is_beaten(lower_bound_s, seconds) {
        Optimality::Optimal
    } else {
        Optimality::Bounded { lower_bound_s }
    };
    Ok(Found { plan, optimality, alternatives: Vec::new(), layouts: found.layouts })
}

/// What a plan costs by the objective, in seconds.
pub(crate) fn objective_s(tables: &Tables<'_>, plan: &Plan, objective: Objective) -> f64 {
    match objective {
        Objective::Overlap => report::report(&plan.into(), tables.cost_model.refinement).overlap_s,
        Objective::Serial | Objective::Comm => plan_price(tables, plan, objective).as_seconds(),
    }
}

/// What the steps of a plan cost together.
fn plan_price(tables: &Tables<'_>, plan: &Plan, objective: Objective) -> Weight {
    report::weight(
        &plan.into(),
        objective.compute(),
        &CostModel::time(tables.cost_model.refinement),
    )
}
