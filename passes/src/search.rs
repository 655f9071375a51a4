//! The cheapest plan there is, and the proof.
//!
//! The steps, each in its module: the book's plan first, as what must not be lost to ([`crate::textbook`]); every layout of every operation
//! ([`crate::layout`], [`crate::problem`]) less the dominated ones ([`crate::dominance`]); prices of shared reshard trees as functions of few
//! choices ([`crate::factor`]); exact elimination ([`crate::eliminate`]). If that closes, the plan is optimal and elimination is the proof. If a table
//! would outgrow the limits, [`crate::anytime`] raises a bound ([`crate::dual`]), drops what must be dearer than a known plan, and eliminates the
//! rest; what it cannot close is stated as a gap, with descent's ([`crate::improve`]) plan.
//!
//! Axes are not searched one at a time: a choice on one axis changes what is cheap on another (gathers over two axes are one collective with
//! twice the bandwidth, and an axis can serve one index only).
//!
//! Ties are broken by a total order (`ties`). Under a limit on memory the search is [`crate::limited`]'s, for the busiest resource
//! [`crate::overlap`]'s; both solve this one again and again at other prices.

use std::time::{Duration, Instant};

use indexmap::{IndexMap, IndexSet};
use shardwise_ir::ids::{RepeatId, ValueId};
use shardwise_ir::plan::{Materialization, Plan};
use shardwise_ir::program::{Op, Phase, Program};
use shardwise_ir::sharding::Sharding;
use shardwise_ir::unroll::takes_out;

use crate::anytime::{self, Proof};
use crate::cost::Terms;
use crate::dominance;
use crate::eliminate::Limits;
use crate::extract;
use crate::limited;
use crate::local;
use crate::memory::memory;
use crate::overlap;
use crate::prices::{Prices, unary};
use crate::problem::{Objective, Problem};
use crate::report;
use crate::reshard::Trees;
use crate::room::fixed_bytes;
use crate::tables::Tables;
use crate::textbook::Infeasible;
use crate::ties::{alternatives, prefer};
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

/// Tables for elimination as it is: tens of milliseconds. What takes more is closed faster by [`crate::anytime`].
const LIMITS: Limits = Limits { table: 1 << 18, work: 1 << 20 };

/// States of one value up to which layouts are compared with each other: that takes the distances between all of them. Beyond, the dual alone says which are too dear.
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
        Objective::Overlap => overlap::search(tables, textbook, request.timeout),
        Objective::Serial | Objective::Comm => unlimited(tables, textbook, request),
    };
    let found = found.map_err(Refusal::Infeasible)?;
    match request.capacity.filter(|&capacity| memory(&found.plan).peak_bytes > capacity) {
        None => Ok(found),
        Some(capacity) => within(tables, textbook, found, request, capacity),
    }
}

/// The cheapest plan, however much memory it takes.
fn unlimited(tables: &Tables<'_>, textbook: &Plan, Request { objective, timeout, .. }: Request) -> Result<Found, Infeasible> {
    let Solved { plan: found, bound, exact, alternatives, layouts } = solve(tables, textbook, objective.compute(), timeout)?;
    let (price, known) = (plan_price(tables, &found, objective), plan_price(tables, textbook, objective));
    let plan = if price < known { found } else { textbook.clone() };
    let closed = exact || bound >= price.min(known);
    let optimality = if closed { Optimality::Optimal } else { Optimality::Bounded { lower_bound_s: bound.as_seconds() } };
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

/// Minimises the sum of what the tables count for reshards and of `compute` times the operations' seconds.
pub(crate) fn solve(tables: &Tables<'_>, textbook: &Plan, compute: f64, timeout: Option<Duration>) -> Result<Solved, Infeasible> {
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let mut problem = Problem::new(tables, compute);
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
    let mut trees: Vec<Trees<'_>> = tables.all.iter().map(Trees::new).collect();
    let prices = Prices::whole(&problem, &mut trees, LIMITS);
    let minimum = prices.as_ref().and_then(|prices| Some((prices, prices.minimise_exactly(&unary(&problem))?)));
    if let Some((prices, minimum)) = minimum {
        let alternatives = alternatives(&problem, prices, &minimum);
        let plan = extract::plan(&problem, &minimum.assignment, &mut trees);
        return Ok(Solved { plan, bound: minimum.bound, exact: true, alternatives, layouts: (before, after) });
    }
    drop(prices);
    let weight = |plan: &Plan| report::weight(plan, compute, &tables.terms);
    let mut price = |assignment: &[usize], trees: &mut [Trees<'_>]| weight(&extract::plan(&problem, assignment, trees));
    let closed = anytime::close(&problem, &mut trees, weight(textbook), deadline, &mut price);
    let found = closed.assignment.as_ref().map(|assignment| extract::plan(&problem, assignment, &mut trees));
    let plan = found.unwrap_or_else(|| textbook.clone());
    let alternatives = closed.proof.as_ref().map(|Proof { problem, prices, minimum }| alternatives(problem, prices, minimum));
    Ok(Solved {
        plan,
        bound: closed.bound,
        exact: closed.proof.is_some(),
        alternatives: alternatives.unwrap_or_default(),
        layouts: (before, after),
    })
}

/// The cheapest plan within `capacity`, in which `found` does not fit.
fn within(tables: &Tables<'_>, textbook: &Plan, found: Found, request: Request, capacity: f64) -> Result<Found, Refusal> {
    let fitting = fit_dropping(tables, textbook, request, capacity);
    let Some((plan, seconds)) = fitting.plan else {
        let smallest = smallest(tables, textbook, &found.plan, request, capacity);
        let peak = memory(&smallest).peak_bytes;
        return Err(Refusal::NoRoom(Box::new(smallest), peak));
    };
    // The limited search adds up steps; what it says of the busiest resource is only what is so without a limit.
    let lower_bound_s = match (request.objective, found.optimality) {
        (Objective::Overlap, Optimality::Optimal) => objective_s(tables, &found.plan, request.objective),
        (Objective::Overlap, Optimality::Bounded { lower_bound_s }) => lower_bound_s,
        _ => fitting.lower_bound_s,
    };
    let closed = lower_bound_s >= seconds * (1.0 - 1e-9);
    let optimality = if closed { Optimality::Optimal } else { Optimality::Bounded { lower_bound_s } };
    Ok(Found { plan, optimality, alternatives: Vec::new(), layouts: found.layouts })
}

/// Values that are held again, one after another, where there is room.
const MOST_HELD_AGAIN: usize = 8;

/// The limited search, where holding what was gathered between its uses is a choice too: held as long as there is room, else all dropped and
/// as many held again as fit, the largest first. Dropping never saves time, so the bound of the first is one for all.
fn fit_dropping(tables: &Tables<'_>, textbook: &Plan, request: Request, capacity: f64) -> limited::Fitting {
    let seconds = |fitting: &limited::Fitting| fitting.plan.as_ref().map_or(f64::INFINITY, |(_, seconds)| *seconds);
    let mut best = fit(tables, textbook, request, capacity, (&IndexSet::default(), limited::MOST_SOLUTIONS));
    let lower_bound_s = best.lower_bound_s;
    let parts = drop_candidates(tables.program);
    if parts.is_empty() || seconds(&best) <= lower_bound_s * (1.0 + 1e-9) {
        return best;
    }
    let mut dropped: IndexSet<ValueId> = parts.iter().copied().collect();
    let mut keep = |fitting: limited::Fitting| {
        let better = seconds(&fitting) < seconds(&best);
        if better {
            best = fitting;
        }
        better
    };
    keep(fit(tables, textbook, request, capacity, (&dropped, limited::MOST_SOLUTIONS)));
    for value in parts.into_iter().take(MOST_HELD_AGAIN) {
        dropped.shift_remove(&value);
        if !keep(fit(tables, textbook, request, capacity, (&dropped, 1))) {
            dropped.insert(value);
        }
    }
    best.lower_bound_s = best.lower_bound_s.min(lower_bound_s);
    best
}

/// Values that more than one part of the program uses, or more than one microbatch, the largest first.
fn drop_candidates(program: &Program) -> Vec<ValueId> {
    let mut parts: IndexMap<ValueId, IndexSet<(Option<RepeatId>, bool)>> = IndexMap::new();
    let part = |op: &Op| (op.repeat, op.phase == Phase::Backward);
    for op in program.ops.iter().filter(|op| !takes_out(op)) {
        for operand in &op.operands {
            let value = &program.values[operand.value];
            let given = value.producer.map_or((value.repeat, false), |producer| part(&program.ops[producer]));
            parts.entry(operand.value).or_default().extend([given, part(op)]);
        }
    }
    let comes_again = |value: ValueId| program.is_shared(value) && program.is_revisited(program.values[value].repeat);
    parts.retain(|&value, parts| parts.len() > 1 || comes_again(value));
    let mut values: Vec<ValueId> = parts.into_keys().collect();
    let bytes = |value: ValueId| local::local_bytes(program, value, &Sharding::replicated(program.values[value].dims.len()));
    values.sort_by(|&a, &b| bytes(b).total_cmp(&bytes(a)));
    values
}

/// The limited search, with the textbook's plan as one of those found if it fits.
fn fit(
    tables: &Tables<'_>,
    textbook: &Plan,
    request: Request,
    capacity: f64,
    (dropped, most_solutions): (&IndexSet<ValueId>, usize),
) -> limited::Fitting {
    let left = capacity - fixed_bytes(tables.program);
    let within = Tables::on(tables.program, Terms { most_bytes: left, ..tables.terms.clone() });
    let mut problem = Problem::dropping(&within, request.objective.compute(), dropped);
    prefer(&mut problem, textbook);
    let deadline = request.timeout.map(|timeout| Instant::now() + timeout);
    let price = |plan: &Plan| objective_s(tables, plan, request.objective);
    let mut fitting = limited::search(&mut problem, capacity, deadline, &price, most_solutions);
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

/// Solutions for each of them.
const FEW_SOLUTIONS: usize = 40;

/// The plan with the smallest peak that can be found, where `capacity` is too little and `enough` is not limited.
fn smallest(tables: &Tables<'_>, textbook: &Plan, enough: &Plan, request: Request, capacity: f64) -> Plan {
    let peak = |plan: &Plan| memory(plan).peak_bytes;
    let mut best = if peak(textbook) < peak(enough) { textbook.clone() } else { enough.clone() };
    let mut too_little = capacity;
    let dropped = drop_candidates(tables.program).into_iter().collect();
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(too_little, peak(&best));
        match fit(tables, textbook, request, middle, (&dropped, FEW_SOLUTIONS)).plan {
            Some((plan, _)) => best = plan,
            None => too_little = middle,
        }
    }
    best
}

/// What a plan costs by the objective, in seconds.
pub(crate) fn objective_s(tables: &Tables<'_>, plan: &Plan, objective: Objective) -> f64 {
    match objective {
        Objective::Overlap => report::report(plan, tables.terms.refinement).overlap_s,
        Objective::Serial | Objective::Comm => plan_price(tables, plan, objective).as_seconds(),
    }
}

/// What the steps of a plan cost together.
fn plan_price(tables: &Tables<'_>, plan: &Plan, objective: Objective) -> Weight {
    report::weight(plan, objective.compute(), &Terms::time(tables.terms.refinement))
}
