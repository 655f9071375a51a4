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

use crate::dominance;
use crate::eliminate::{Limits, Minimum, minimise};
use crate::extract;
use crate::factor::{Factor, Pricing, price_source};
use crate::improve;
use crate::problem::{Choice, Decision, Objective, Problem, Variable};
use crate::report;
use crate::reshard::Trees;
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

/// Searches; never worse than `textbook`.
pub fn search(tables: &Tables<'_>, textbook: &Plan, objective: Objective, timeout: Option<Duration>) -> Result<Found, Infeasible> {
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let mut problem = Problem::new(tables, objective);
    prefer(&mut problem, textbook);
    let before = problem.variables.iter().map(|variable| variable.choices.len()).sum();
    dominance::prune(&mut problem);
    let after = problem.variables.iter().map(|variable| variable.choices.len()).sum();
    let impossible = problem.variables.iter().filter(|variable| variable.choices.is_empty());
    if let Some(op) = impossible.filter_map(|variable| variable.decides.operation()).next() {
        return Err(Infeasible { op });
    }
    let mut trees: Vec<Trees<'_>> = tables.all.iter().map(Trees::new).collect();
    let limits = if timeout.is_some_and(|timeout| timeout < Duration::from_secs(1)) { HURRIED } else { LIMITS };
    let mut minimum = bound(&problem, unary(&problem), &mut trees, limits);
    if !minimum.exact {
        improve::descend(&problem, &mut minimum.assignment, &mut trees, deadline);
    }
    let alternatives = if minimum.exact { alternatives(&problem, &minimum, &mut trees, limits) } else { Vec::new() };
    let found = extract::plan(&problem, &minimum.assignment, &mut trees);
    let (price, known) = (plan_price(tables, &found, objective), plan_price(tables, textbook, objective));
    let plan = if price < known { found } else { textbook.clone() };
    let best = price.min(known);
    let closed = minimum.exact || minimum.bound >= best;
    let optimality = if closed { Optimality::Optimal } else { Optimality::Bounded { lower_bound_s: minimum.bound.as_seconds() } };
    Ok(Found { plan, optimality, alternatives, layouts: (before, after) })
}

/// More open declarations than this, and no alternatives are looked for.
const MOST_OPEN: usize = 8;

/// For each open declaration, another sharding that some equally cheap plan starts from: the same minimum without the one chosen.
fn alternatives(problem: &Problem<'_>, minimum: &Minimum, trees: &mut [Trees<'_>], limits: Limits) -> Vec<Materialization> {
    let is_open = |variable: &usize| problem.variables[*variable].decides.operation().is_none();
    let open: Vec<usize> = (0..problem.variables.len()).filter(is_open).take(MOST_OPEN + 1).collect();
    if open.len() > MOST_OPEN {
        return Vec::new();
    }
    let other = |variable: usize| {
        let mut without = unary(problem);
        without[variable][minimum.assignment[variable]] = Weight::INFINITE;
        let second = bound(problem, without, trees, limits);
        let Variable { gives, choices, .. } = &problem.variables[variable];
        let value = problem.sources[*gives].value;
        let sharding = || problem.table(value).space.sharding(choices[second.assignment[variable]].gives).clone();
        (second.exact && second.bound == minimum.bound).then(|| Materialization { value, sharding: sharding() })
    };
    open.into_iter().filter_map(other).collect()
}

/// The prices of all choices by themselves.
fn unary(problem: &Problem<'_>) -> Vec<Vec<Weight>> {
    problem.variables.iter().map(|variable| variable.choices.iter().map(|choice| choice.weight).collect()).collect()
}

/// The minimum over all assignments, or a bound of it.
fn bound(problem: &Problem<'_>, unary: Vec<Vec<Weight>>, trees: &mut [Trees<'_>], limits: Limits) -> Minimum {
    let mut factors: Vec<Factor> = Vec::new();
    let mut relaxed = false;
    for source in &problem.sources {
        match price_source(problem, source, &mut trees[problem.tables.number(source.value)], limits.table / 8) {
            Pricing::Exact(factor) => factors.push(factor),
            Pricing::Relaxed(parts) => {
                relaxed = true;
                factors.extend(parts);
            }
        }
    }
    let mut minimum = minimise(&unary, factors, limits);
    minimum.bound = minimum.bound + problem.fixed;
    minimum.exact &= !relaxed;
    minimum
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
