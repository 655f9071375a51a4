//! Pipelines whose simulated schedule is longer than the sum of their steps, in which the bubble is
//! a formula: what is longer counts as bubble in the price of a plan, and is in no sum.
//!
//! The search minimises sums, which are bounds of such prices, and not their minimum. So a plan
//! that is longer is called optimal no more, and the textbook's is taken where it is cheaper then:
//! no search is worse than where it starts. The alternative, to simulate every candidate, takes a
//! simulation where sums take additions.

use shardwise_ir::plan::Plan;

use crate::cost::liveness::memory;
use crate::cost::report;
use crate::layouts::composite::ExpandedPlan;
use crate::reshard::tables::Tables;
use crate::search::objective::{Objective, objective_s};
use crate::search::outcome::{Found, Optimality, Request};

/// The share of a time that is rounding.
const ROUNDING: f64 = 1e-9;

/// What was found, with the bound that it has if its schedule is longer than the sum.
pub(super) fn priced(
    tables: &Tables<'_>,
    textbook: &Plan,
    found: Found,
    request: &Request,
) -> Found {
    let has_pipelines = tables.program.pipelines().next().is_some();
    if request.objective != Objective::Serial || !has_pipelines {
        return found;
    }
    let sum_s = objective_s(tables, &found.plan, request.objective);
    let price_s = |plan: &Plan| report::report(&plan.into(), tables.cost_model.refinement).serial_s;
    let found_s = price_s(&found.plan);
    if found_s <= sum_s * (1.0 + ROUNDING) {
        return found;
    }
    let lower_bound_s = match found.optimality {
        Optimality::Optimal => sum_s,
        Optimality::Bounded { lower_bound_s } => lower_bound_s,
    };
    let fits = |plan: &Plan| {
        let peak_bytes = || memory(&ExpandedPlan::from(plan)).peak_bytes;
        request.capacity.is_none_or(|capacity| peak_bytes() <= capacity)
    };
    let optimality = Optimality::Bounded { lower_bound_s };
    if price_s(textbook) < found_s && fits(textbook) {
        let layouts = found.layouts;
        return Found { layouts, ..Found::of(textbook, optimality) };
    }
    Found { optimality, alternatives: Vec::new(), ..found }
}
