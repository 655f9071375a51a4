//! Searches for the cheapest plan and a proof that it is: the step of the pipeline after the
//! textbook plan.
//!
//! The sharding problem ([`crate::problem`]) is a model of the generic solver ([`crate::solver`]);
//! this folder minimises it, selects among equally good plans (`tie_break`), and turns the
//! assignment into a plan ([`crate::insert_collectives`]). There are three clients:
//!
//! * [`serial`] adds up all steps, or all collectives: one minimisation;
//! * [`balanced`] minimises the time of the busiest resource, or the schedule: minimisations under
//!   weights of the resources, by cutting planes and then by branch and bound;
//! * [`memory`] enforces the memory limit of a device: capacity rows, and Lagrangian relaxation.
//!
//! `balanced` and `memory` call `serial`; this file selects one of the three.
//!
//! The textbook's plan ([`crate::propagate::textbook`]) is the first known solution, so that the
//! search is never worse. Axes are not searched one at a time: a choice on one axis changes what is
//! cheap on another (gathers over two axes are one collective with twice the bandwidth, and an axis
//! can serve one index only).

pub(crate) mod balanced;
mod critical_path;
pub(crate) mod memory;
mod objective;
mod outcome;
pub(crate) mod serial;
mod tie_break;

use shardwise_ir::plan::Plan;

use crate::cost::liveness::memory as memory_of;
use crate::layouts::composite::ExpandedPlan;
use crate::reshard::tables::Tables;
use crate::search::memory::feasible::FeasiblePlan;
use crate::search::memory::limit::Limit;
use crate::solver::branch_and_bound::can_prune;

pub use objective::Objective;
pub use outcome::{Effort, Found, Optimality, Refusal, Request};
pub(crate) use serial::without_textbook;

/// The cheapest plan that fits into the capacity; never worse than `textbook`, if that fits, and
/// never worse than the plan of another objective that the search starts from.
pub fn search(tables: &Tables<'_>, textbook: &Plan, request: &Request) -> Result<Found, Refusal> {
    if request.objective.starts().is_empty() {
        return summed(tables, textbook, request);
    }
    let (mut starts, mut refusal) = (Vec::new(), None);
    for &objective in request.objective.starts() {
        match search(tables, textbook, &Request { objective, ..request.clone() }) {
            Ok(found) => starts.push(found.plan),
            Err(refused) => refusal = refusal.or(Some(refused)),
        }
        if request.interrupt.is_cancelled() {
            break;
        }
    }
    match refusal {
        Some(refusal) if starts.is_empty() => Err(refusal),
        _ => balanced::search(tables, textbook, starts, request).map_err(Refusal::Infeasible),
    }
}

/// The plan with the least sum of steps.
fn summed(tables: &Tables<'_>, textbook: &Plan, request: &Request) -> Result<Found, Refusal> {
    let found = serial::search(tables, textbook, request).map_err(Refusal::Infeasible)?;
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
    let limit = Limit::new(tables, textbook, request, capacity);
    let FeasiblePlan { plan, lower_bound_s } = limit.feasible_or_tighter();
    let Some((plan, seconds)) = plan else {
        let smallest = match request.effort {
            Effort::Full => limit.smallest(&found.plan),
            Effort::Quick => found.plan,
        };
        let peak = memory_of(&ExpandedPlan::from(&smallest)).peak_bytes;
        return Err(Refusal::OverCapacity(Box::new(smallest), peak));
    };
    let optimality = if can_prune(lower_bound_s, seconds) {
        Optimality::Optimal
    } else {
        Optimality::Bounded { lower_bound_s }
    };
    Ok(Found { plan, optimality, alternatives: Vec::new(), layouts: found.layouts })
}
