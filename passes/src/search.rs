//! Searches for the cheapest plan and a proof that it is: the step of the pipeline after the
//! textbook plan.
//!
//! The sharding problem ([`crate::problem`]) is a model of the generic solver ([`crate::solver`]);
//! this folder minimises it, selects among equally good plans (`tie_break`), and turns the
//! assignment into a plan ([`crate::insert_collectives`]). There are three clients:
//!
//! * [`serial`] adds up all steps, or all collectives: one minimisation;
//! * [`bottleneck`] minimises the time of the busiest resource: minimisations under weights of the
//!   resources, by cutting planes and then by branch and bound;
//! * [`memory`] enforces the memory limit of a device: capacity rows, and Lagrangian relaxation.
//!
//! `bottleneck` and `memory` call `serial`; this file selects one of the three.
//!
//! The textbook's plan ([`crate::propagate::textbook`]) is the first known solution, so that the
//! search is never worse. Axes are not searched one at a time: a choice on one axis changes what is
//! cheap on another (gathers over two axes are one collective with twice the bandwidth, and an axis
//! can serve one index only).

pub(crate) mod bottleneck;
pub(crate) mod memory;
mod objective;
mod outcome;
pub(crate) mod serial;
mod tie_break;

use shardwise_ir::plan::Plan;

use crate::cost::liveness::memory as memory_of;
use crate::layouts::composite::ExpandedPlan;
use crate::reshard::tables::Tables;
use crate::search::memory::limit::Limit;
use crate::search::objective::objective_s;
use crate::solver::branch_and_bound::can_prune;

pub use objective::Objective;
pub use outcome::{Found, Optimality, Refusal, Request};

/// The cheapest plan that fits into the capacity; never worse than `textbook`, if that fits.
pub fn search(tables: &Tables<'_>, textbook: &Plan, request: Request) -> Result<Found, Refusal> {
    let found = match request.objective {
        Objective::Overlap => bottleneck::search(tables, textbook, request.timeout),
        Objective::Serial | Objective::Comm => serial::search(tables, textbook, request),
    };
    let found = found.map_err(Refusal::Infeasible)?;
    match request
        .capacity
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
    request: Request,
    capacity: f64,
) -> Result<Found, Refusal> {
    let limit = Limit::new(tables, textbook, request, capacity);
    let feasible = limit.feasible();
    let Some((plan, seconds)) = feasible.plan else {
        let smallest = limit.smallest(&found.plan);
        let peak = memory_of(&ExpandedPlan::from(&smallest)).peak_bytes;
        return Err(Refusal::OverCapacity(Box::new(smallest), peak));
    };
    // The limited search minimises the sum of steps; the bound of the busiest resource is the one
    // without a limit.
    let lower_bound_s = match (request.objective, found.optimality) {
        (Objective::Overlap, Optimality::Optimal) => {
            objective_s(tables, &found.plan, request.objective)
        }
        (Objective::Overlap, Optimality::Bounded { lower_bound_s }) => lower_bound_s,
        _ => feasible.lower_bound_s,
    };
    let optimality = if can_prune(lower_bound_s, seconds) {
        Optimality::Optimal
    } else {
        Optimality::Bounded { lower_bound_s }
    };
    Ok(Found { plan, optimality, alternatives: Vec::new(), layouts: found.layouts })
}
