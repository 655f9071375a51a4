//! Searches for the cheapest plan and a proof that it is: the step of the pipeline after the
//! textbook plan.
//!
//! The sharding problem ([`crate::problem`]) is a model of the generic solver ([`crate::solver`]);
//! this folder minimises it, selects among equally good plans (`tie_break`), and turns the
//! assignment into a plan ([`crate::insert_collectives`]). There are three clients:
//!
//! * [`serial`] adds up all steps, or all collectives: one minimisation;
//! * [`balanced`] minimises the time of the busiest resource, or the schedule: minimisations under
//!   weights of the resources, and for schedules of chains of statements (`combined`), by cutting
//!   planes and then by branch and bound;
//! * [`memory`] enforces the memory limit of a device: capacity rows, and Lagrangian relaxation.
//!
//! `balanced` and `memory` call `serial`; this file selects one of the three. [`parts`] does so for
//! one part of the shardings after another, where a value has too many of them.
//!
//! The textbook's plan ([`crate::propagate::textbook`]) is the first known solution, so that the
//! search is never worse. Axes are not searched one at a time: a choice on one axis changes what is
//! cheap on another (gathers over two axes are one collective with twice the bandwidth, and an axis
//! can serve one index only).

pub(crate) mod balanced;
mod chain;
mod combined;
mod counterparts;
mod critical_path;
mod crossing;
mod known_plans;
mod longer_schedule;
mod longest_chain;
pub(crate) mod memory;
mod objective;
mod outcome;
mod parts;
mod rival;
pub(crate) mod serial;
mod shares;
mod starts;
mod tie_break;

use shardwise_ir::plan::Plan;

use crate::cost::liveness::memory as memory_of;
use crate::layouts::composite::ExpandedPlan;
use crate::propagate::textbook::Infeasible;
use crate::reshard::tables::Tables;
use crate::search::memory::feasible::FeasiblePlan;
use crate::search::memory::limit::Limit;
use crate::solver::branch_and_bound::can_prune;
use crate::solver::interrupt::Interrupt;

pub use objective::Objective;
use objective::objective_s;
pub use outcome::{Effort, Found, Goal, Optimality, Refusal, Request};
pub use rival::Rival;
use rival::unlimited_s;
pub(crate) use serial::without_textbook;

/// The cheapest plan that fits into the capacity; never worse than `textbook`, if that fits, and
/// never worse than the plan of another objective that the search starts from.
pub fn search(tables: &Tables<'_>, textbook: &Plan, request: &Request) -> Result<Found, Refusal> {
    let share = request.goal.as_ref().map_or(1.0, |goal| goal.work);
    let interrupt = request.interrupt.with_work(request.effort.work() * share);
    let rival = request.goal.as_ref().and_then(|goal| goal.rival.as_ref());
    if rival.is_some_and(|rival| !rival.may_be_beaten(tables, request)) {
        return Err(Refusal::NotBelow(None));
    }
    if request.is_bound_enough() && !tables.part.is_whole {
        let lower_bound_s = parts::on_all_devices_s(tables.program, request.objective);
        return Err(Refusal::NotBelow(Some(lower_bound_s)));
    }
    let goal = request.goal.clone().filter(|_| tables.part.is_whole);
    let request = &Request { interrupt, goal, ..request.clone() };
    let found = if tables.part.is_whole {
        within_tables(tables, textbook, request)
    } else {
        parts::search(tables, textbook, request)
    };
    let found = found.map(|found| longer_schedule::priced(tables, textbook, found, request));
    found.map(|found| at_least_on_all_devices(tables, found, request))
}

/// The same with a bound that is always known, where the time was over before there was a better
/// one.
fn at_least_on_all_devices(tables: &Tables<'_>, found: Found, request: &Request) -> Found {
    let on_all_s = || parts::on_all_devices_s(tables.program, request.objective);
    let seconds = || objective_s(tables, &found.plan, request.objective);
    debug_assert!(on_all_s() <= seconds() * (1.0 + ROUNDING) + 1e-12, "no plan costs less");
    let Optimality::Bounded { lower_bound_s } = found.optimality else { return found };
    let on_all_s = on_all_s().min(seconds());
    let optimality = Optimality::Bounded { lower_bound_s: lower_bound_s.max(on_all_s) };
    Found { optimality, ..found }
}

/// The same for plans whose shardings the tables have.
fn within_tables(
    tables: &Tables<'_>,
    textbook: &Plan,
    request: &Request,
) -> Result<Found, Refusal> {
    if request.objective.is_sum() {
        return match summed(tables, textbook, &within_a_part(request)) {
            Ok(found) => Ok(at_most_of_all_steps(tables, textbook, found, request)),
            Err(refusal) => of_all_steps(tables, textbook, refusal, request),
        };
    }
    let mut known = Vec::new();
    let found = balanced::search(tables, textbook, request, |least_s| {
        known = starts::plans(tables, textbook, request, least_s)?;
        Ok(known.clone())
    })?;
    known.push(found.plan.clone());
    Ok(shortest_of_equally_busy(tables, textbook, (found, &known), request))
}

/// The plan with the shortest schedule that is met of those that keep the busiest resource busy for
/// no longer, where that is what is minimised.
fn shortest_of_equally_busy(
    tables: &Tables<'_>,
    textbook: &Plan,
    (found, known): (Found, &[Plan]),
    request: &Request,
) -> Found {
    let is_over = request.interrupt.is_due() || request.effort == Effort::Quick;
    if request.objective != Objective::Overlap || is_over {
        return found;
    }
    let busy_s = objective_s(tables, &found.plan, request.objective);
    let scheduled = Request {
        objective: Objective::Scheduled,
        interrupt: request.interrupt.unheard(),
        goal: None,
        most_busy_s: Some(busy_s * (1.0 + ROUNDING)),
        ..request.clone()
    };
    let equal = balanced::search(tables, textbook, &scheduled, |_| {
        starts::beside(tables, textbook, &scheduled, known)
    });
    Found { plan: equal.map_or(found.plan, |equal| equal.plan), ..found }
}

/// Relative differences below this are rounding.
const ROUNDING: f64 = 1e-9;

/// The share of the time for the sum of collectives within memory; the rest is for that of all
/// steps, whose plans are others.
const FOR_COLLECTIVES: f64 = 0.6;

/// The request in the part of its time that leaves some for the plan of all steps.
fn within_a_part(request: &Request) -> Request {
    let is_shared = request.objective == Objective::Comm && request.capacity.is_some();
    let whole = &request.interrupt;
    let interrupt = if is_shared { whole.part(FOR_COLLECTIVES) } else { whole.clone() };
    Request { interrupt, ..request.clone() }
}

/// The plan of the sum of all steps, where the search for that of collectives is refused: within
/// memory neither finds every plan.
fn of_all_steps(
    tables: &Tables<'_>,
    textbook: &Plan,
    refusal: Refusal,
    request: &Request,
) -> Result<Found, Refusal> {
    let is_open = request.objective == Objective::Comm
        && request.effort != Effort::Quick
        && !request.interrupt.is_due();
    let Refusal::OverCapacity(..) = refusal else { return Err(refusal) };
    if !is_open {
        return Err(refusal);
    }
    let of_all = Request { objective: Objective::Serial, goal: None, ..request.clone() };
    let Ok(found) = summed(tables, textbook, &of_all) else { return Err(refusal) };
    let unlimited = Request { capacity: None, goal: None, ..request.clone() };
    let unlimited = serial::search(tables, textbook, &unlimited, None);
    let lower_bound_s = unlimited.map_or(0.0, |unlimited| least_s(tables, &unlimited, request));
    let optimality =
        if can_prune(lower_bound_s, objective_s(tables, &found.plan, request.objective)) {
            Optimality::Optimal
        } else {
            Optimality::Bounded { lower_bound_s }
        };
    let unlimited_s = Some(unlimited_s(tables, &found.plan, request.objective));
    Ok(Found { optimality, unlimited_s, ..found })
}

/// The same, or the plan of the sum of all steps where its collectives take less: within memory the
/// search does not find every plan.
fn at_most_of_all_steps(
    tables: &Tables<'_>,
    textbook: &Plan,
    found: Found,
    request: &Request,
) -> Found {
    let Optimality::Bounded { lower_bound_s } = found.optimality else { return found };
    let is_open = request.objective == Objective::Comm
        && found.unlimited_s.is_some()
        && !request.is_bound_enough()
        && !request.interrupt.is_due();
    if !is_open {
        return found;
    }
    let of_all = Request { objective: Objective::Serial, goal: None, ..request.clone() };
    let seconds = |plan: &Plan| objective_s(tables, plan, request.objective);
    match summed(tables, textbook, &of_all) {
        Ok(other) if seconds(&other.plan) < seconds(&found.plan) => {
            let is_proven = can_prune(lower_bound_s, seconds(&other.plan));
            let optimality = if is_proven { Optimality::Optimal } else { found.optimality };
            let unlimited_s = Some(unlimited_s(tables, &other.plan, request.objective));
            Found { plan: other.plan, optimality, unlimited_s, ..found }
        }
        _ => found,
    }
}

/// The share of the time for the plan without a limit on memory, where there is one.
const BEFORE_MEMORY: f64 = 0.4;

/// How many times the capacity a plan may take for one that fits to be near.
const NEAR: f64 = 1.5;

/// The plan with the least sum of steps, however much memory it takes. Where there is a limit on
/// memory, a part of the time is left for plans within it, until the best plan so far is one; and a
/// wide gap has more work while that is near.
fn unlimited(tables: &Tables<'_>, textbook: &Plan, request: &Request) -> Result<Found, Infeasible> {
    let may_take_more = request.effort != Effort::Quick && request.interrupt.work >= 1.0;
    let with_more = |interrupt: &Interrupt| {
        if may_take_more { interrupt.patient() } else { interrupt.clone() }
    };
    let whole = &request.interrupt;
    let Some(capacity) = request.capacity else {
        let request = Request { interrupt: with_more(whole), ..request.clone() };
        return serial::search(tables, textbook, &request, None);
    };
    let part = whole.part(BEFORE_MEMORY);
    let ends_with = |plan: &Plan| {
        let peak_bytes = memory_of(&ExpandedPlan::from(plan)).peak_bytes;
        let time = if peak_bytes <= capacity { whole } else { &part };
        if peak_bytes <= NEAR * capacity { with_more(time) } else { time.clone() }
    };
    serial::search(tables, textbook, request, Some(&ends_with))
}

/// The plan with the least sum of steps.
fn summed(tables: &Tables<'_>, textbook: &Plan, request: &Request) -> Result<Found, Refusal> {
    let known_s = request.goal.as_ref().and_then(|goal| goal.unlimited_s);
    if let (Some(lower_bound_s), Some(capacity)) = (known_s, request.capacity) {
        let optimality = Optimality::Bounded { lower_bound_s };
        return within(tables, textbook, Found::of(textbook, optimality), request, capacity);
    }
    let found = unlimited(tables, textbook, request).map_err(Refusal::Infeasible)?;
    let lower_bound_s = least_s(tables, &found, request);
    if request.is_out_of_reach(lower_bound_s) {
        return Err(Refusal::NotBelow(Some(lower_bound_s)));
    }
    match request
        .capacity
        .filter(|_| !request.interrupt.is_cancelled())
        .filter(|&capacity| memory_of(&ExpandedPlan::from(&found.plan)).peak_bytes > capacity)
    {
        None => Ok(found),
        Some(capacity) => within(tables, textbook, found, request, capacity),
    }
}

/// The cheapest plan within `capacity`, in which `found` does not fit.
fn within(
    tables: &Tables<'_>,
    textbook: &Plan,
    found: Found,
    request: &Request,
    capacity: f64,
) -> Result<Found, Refusal> {
    if request.interrupt.is_due() {
        return in_time(textbook, found, capacity);
    }
    // What fits costs no less than what need not.
    let limits = (capacity, least_s(tables, &found, request));
    let limit = Limit::new(tables, textbook, request, limits);
    let is_open = !request.below_s().is_finite();
    let least_bytes = if is_open { limit.least_bytes(&found.plan) } else { capacity };
    let FeasiblePlan { plan, lower_bound_s, .. } = if least_bytes > capacity {
        FeasiblePlan { plan: None, lower_bound_s: f64::INFINITY, below_s: f64::INFINITY }
    } else {
        limit.feasible_or_tighter(&found.plan)
    };
    let (plan, seconds) = match plan {
        Some(plan) => plan,
        None if !is_open => {
            return Err(Refusal::NotBelow(Some(lower_bound_s.min(request.below_s()))));
        }
        None => cheapest_or_refusal(&limit, found.plan, least_bytes, request.effort)?,
    };
    debug_assert!(lower_bound_s <= seconds * (1.0 + 1e-9), "a plan costs less than its bound");
    let optimality = if can_prune(lower_bound_s, seconds) {
        Optimality::Optimal
    } else {
        Optimality::Bounded { lower_bound_s }
    };
    let unlimited_s = Some(unlimited_s(tables, &plan, request.objective));
    Ok(Found { plan, optimality, alternatives: Vec::new(), layouts: found.layouts, unlimited_s })
}

/// A plan that fits and that the search for the smallest plan meets, where no other search has one;
/// else the refusal with the smallest. `enough` is the plan without a limit, which does not fit.
fn cheapest_or_refusal(
    limit: &Limit<'_, '_>,
    enough: Plan,
    least_bytes: f64,
    effort: Effort,
) -> Result<(Plan, f64), Refusal> {
    let found = match effort {
        Effort::Normal | Effort::High => limit.cheapest_or_smallest(&enough, least_bytes),
        Effort::Quick => Err(Box::new(enough)),
    };
    found.map_err(|smallest| {
        let peak = memory_of(&ExpandedPlan::from(&*smallest)).peak_bytes;
        Refusal::OverCapacity(smallest, peak)
    })
}

/// The bound of a search that has found a plan.
fn least_s(tables: &Tables<'_>, found: &Found, request: &Request) -> f64 {
    match found.optimality {
        Optimality::Optimal => objective_s(tables, &found.plan, request.objective),
        Optimality::Bounded { lower_bound_s } => lower_bound_s,
    }
}

/// The textbook's plan, if it fits: what is known within `capacity` when the time is over.
fn in_time(textbook: &Plan, found: Found, capacity: f64) -> Result<Found, Refusal> {
    let peak = |plan: &Plan| memory_of(&plan.into()).peak_bytes;
    if peak(textbook) <= capacity {
        let optimality = Optimality::Bounded { lower_bound_s: 0.0 };
        return Ok(Found { plan: textbook.clone(), optimality, ..found });
    }
    let smaller = if peak(textbook) < peak(&found.plan) { textbook.clone() } else { found.plan };
    let bytes = peak(&smaller);
    Err(Refusal::OverCapacity(Box::new(smaller), bytes))
}
