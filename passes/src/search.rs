//! The cheapest plan there is, and the proof.
//!
//! The steps, each in its module: the book's plan first, as what must not be lost to ([`crate::textbook`]); every layout of every operation
//! ([`crate::layout`], [`crate::problem`]) less the dominated ones ([`crate::dominance`]); prices of shared reshard trees as functions of few
//! choices ([`crate::factor`]); exact elimination ([`crate::eliminate`]). If that closes, the plan is optimal and elimination is the proof. If a table
//! would outgrow the limits, elimination gives a lower bound, descent ([`crate::improve`]) a good plan, and the difference is the stated gap.
//!
//! Axes are not searched one at a time: a choice on one axis changes what is cheap on another (gathers over two axes are one collective with
//! twice the bandwidth, and an axis can serve one index only).
//!
//! Ties are broken by a total order: time, then number of steps, then the textbook plan, then the first in the order of enumeration (mesh
//! axes in declaration order, indices in order of appearance). Names play no part.

use std::time::{Duration, Instant};

use shardwise_ir::plan::{Materialization, Plan, StepKind};
use shardwise_ir::sharding::{AxisList, Sharding};

use crate::dominance;
use crate::eliminate::{Limits, Minimum};
use crate::extract;
use crate::improve;
use crate::limited;
use crate::memory::memory;
use crate::prices::{Prices, unary};
use crate::problem::{Choice, Decision, Objective, Problem, Variable};
use crate::report;
use crate::reshard::Trees;
use crate::room::fixed_bytes;
use crate::tables::Tables;
use crate::textbook::Infeasible;
use crate::weight::Weight;

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
    /// Other places for the open declarations from which the price is the same, an example for each.
    pub alternatives: Vec<Materialization>,
    /// Layouts looked at before and after the dominated ones were dropped.
    pub layouts: (usize, usize),
}

/// Tables of a few million entries and a few hundred million looks: about a second.
const LIMITS: Limits = Limits { table: 1 << 23, work: 1 << 28 };
/// What is left when time is short.
const HURRIED: Limits = Limits { table: 1 << 14, work: 1 << 18 };

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
    let found = unlimited(tables, textbook, request).map_err(Refusal::Infeasible)?;
    match request.capacity.filter(|&capacity| memory(&found.plan).peak_bytes > capacity) {
        None => Ok(found),
        Some(capacity) => within(tables, textbook, &found.plan, request, capacity),
    }
}

/// The cheapest plan, however much memory it takes.
fn unlimited(tables: &Tables<'_>, textbook: &Plan, Request { objective, timeout, .. }: Request) -> Result<Found, Infeasible> {
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let mut problem = Problem::new(tables, objective);
    prefer(&mut problem, textbook);
    let before = problem.variables.iter().map(|variable| variable.choices.len()).sum();
    dominance::prune(&mut problem);
    let after = problem.variables.iter().map(|variable| variable.choices.len()).sum();
    let mut impossible = problem.variables.iter().filter(|variable| variable.choices.is_empty());
    if let Some(op) = impossible.find_map(|variable| variable.decides.operation()) {
        return Err(Infeasible { op });
    }
    let mut trees: Vec<Trees<'_>> = tables.all.iter().map(Trees::new).collect();
    let limits = if timeout.is_some_and(|timeout| timeout < Duration::from_secs(1)) { HURRIED } else { LIMITS };
    let prices = Prices::new(&problem, &mut trees, limits);
    let mut minimum = prices.minimise(&unary(&problem));
    if !minimum.exact {
        improve::descend(&problem, &mut minimum.assignment, &mut trees, deadline);
    }
    let alternatives = if minimum.exact { alternatives(&problem, &prices, &minimum) } else { Vec::new() };
    let found = extract::plan(&problem, &minimum.assignment, &mut trees);
    let (price, known) = (plan_price(tables, &found, objective), plan_price(tables, textbook, objective));
    let plan = if price < known { found } else { textbook.clone() };
    let best = price.min(known);
    let closed = minimum.exact || minimum.bound >= best;
    let optimality = if closed { Optimality::Optimal } else { Optimality::Bounded { lower_bound_s: minimum.bound.as_seconds() } };
    Ok(Found { plan, optimality, alternatives, layouts: (before, after) })
}

/// The cheapest plan within `capacity`, which `too_large` is not.
fn within(tables: &Tables<'_>, textbook: &Plan, too_large: &Plan, request: Request, capacity: f64) -> Result<Found, Refusal> {
    let fitting = fit(tables, textbook, request, capacity);
    let Some((plan, seconds)) = fitting.plan else {
        let smallest = smallest(tables, textbook, too_large, request, capacity);
        let peak = memory(&smallest).peak_bytes;
        return Err(Refusal::NoRoom(Box::new(smallest), peak));
    };
    let closed = fitting.lower_bound_s >= seconds * (1.0 - 1e-9);
    let optimality = if closed { Optimality::Optimal } else { Optimality::Bounded { lower_bound_s: fitting.lower_bound_s } };
    Ok(Found { plan, optimality, alternatives: Vec::new(), layouts: (0, 0) })
}

/// The limited search, with the textbook's plan as one of those found if it fits.
fn fit(tables: &Tables<'_>, textbook: &Plan, request: Request, capacity: f64) -> limited::Fitting {
    let left = capacity - fixed_bytes(tables.program);
    let within = Tables::within(tables.program, tables.refinement, left);
    let mut problem = Problem::new(&within, request.objective);
    prefer(&mut problem, textbook);
    let deadline = request.timeout.map(|timeout| Instant::now() + timeout);
    let price = |plan: &Plan| plan_price(tables, plan, request.objective).as_seconds();
    let mut fitting = limited::search(&mut problem, capacity, deadline, &price);
    let known = price(textbook);
    let is_better = fitting.plan.as_ref().is_none_or(|(_, seconds)| known <= *seconds);
    if is_better && memory(textbook).peak_bytes <= capacity {
        fitting.plan = Some((textbook.clone(), known));
        fitting.lower_bound_s = fitting.lower_bound_s.min(known);
    }
    fitting
}

/// Halvings of the gap between what is too little and what is enough.
const HALVINGS: usize = 8;

/// The plan with the smallest peak that can be found, where `capacity` is too little and `enough` is not limited.
fn smallest(tables: &Tables<'_>, textbook: &Plan, enough: &Plan, request: Request, capacity: f64) -> Plan {
    let peak = |plan: &Plan| memory(plan).peak_bytes;
    let mut best = if peak(textbook) < peak(enough) { textbook.clone() } else { enough.clone() };
    let mut too_little = capacity;
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(too_little, peak(&best));
        match fit(tables, textbook, request, middle).plan {
            Some((plan, _)) => best = plan,
            None => too_little = middle,
        }
    }
    best
}

/// More open declarations than this, and no alternatives are looked for.
const MOST_OPEN: usize = 8;

/// For each open declaration, another sharding that some equally cheap plan starts from: the same minimum without the one chosen.
fn alternatives(problem: &Problem<'_>, prices: &Prices, minimum: &Minimum) -> Vec<Materialization> {
    let is_open = |variable: &usize| problem.variables[*variable].decides.operation().is_none();
    let open: Vec<usize> = (0..problem.variables.len()).filter(is_open).take(MOST_OPEN + 1).collect();
    if open.len() > MOST_OPEN {
        return Vec::new();
    }
    let other = |variable: usize| {
        let Variable { gives, choices, .. } = &problem.variables[variable];
        let value = problem.sources[*gives].value;
        let sharding = |choice: usize| problem.table(value).space.sharding(choices[choice].gives);
        let taken = sharding(minimum.assignment[variable]);
        let mut without = unary(problem);
        let same = without[variable].iter_mut().enumerate().filter(|(choice, _)| is_reordering(sharding(*choice), taken));
        same.for_each(|(_, weight)| *weight = Weight::INFINITE);
        let second = prices.minimise(&without);
        let other = second.assignment[variable];
        (second.exact && second.bound == minimum.bound).then(|| Materialization { value, sharding: sharding(other).clone() })
    };
    open.into_iter().filter_map(other).collect()
}

/// Whether two shardings split the same dimensions over the same axes, in whatever order.
fn is_reordering(a: &Sharding, b: &Sharding) -> bool {
    let same = |a: &AxisList, b: &AxisList| a.len() == b.len() && a.iter().all(|axis| b.contains(axis));
    a.dims.iter().zip(&b.dims).all(|(a, b)| same(a, b))
}

/// Puts the textbook's layout of every operation first, so that it wins ties.
fn prefer(problem: &mut Problem<'_>, textbook: &Plan) {
    let program = problem.program;
    let tables = problem.tables;
    let mut layouts = vec![None; program.ops.len()];
    for step in &textbook.steps {
        if let StepKind::Local(op) = step.kind {
            let needs: Option<Vec<_>> = step.operands.iter().map(|m| tables.of(m.value).space.find(&m.sharding)).collect();
            let gives = tables.of(step.result.value).space.find(&step.result.sharding);
            layouts[op.index()] = needs.zip(gives);
        }
    }
    for variable in &mut problem.variables {
        let preferred = match variable.decides {
            Decision::Operation(op) => layouts[op.index()].clone(),
            Decision::Declaration(value) => Some((Vec::new(), tables.declared(value))),
        };
        let is_preferred =
            |choice: &Choice| preferred.as_ref().is_some_and(|(needs, gives)| choice.needs == *needs && choice.gives == *gives);
        if let Some(i) = variable.choices.iter().position(is_preferred) {
            variable.choices[..=i].rotate_right(1);
        }
    }
}

/// What a plan costs, step by step as it stands.
fn plan_price(tables: &Tables<'_>, plan: &Plan, objective: Objective) -> Weight {
    let steps = report::price_steps(plan, tables.refinement);
    plan.steps
        .iter()
        .zip(&steps)
        .map(|(step, cost)| match (&step.kind, objective) {
            (StepKind::Local(_), Objective::Serial) => Weight::seconds(cost.seconds),
            (StepKind::Local(_), Objective::Comm) => Weight::ZERO,
            (StepKind::Collective(collective, _), _) => Weight::collective(&collective.kind, cost.seconds),
        })
        .sum()
}
