//! The cheapest plan that a device's memory has capacity for, where it is decided which values are
//! kept.
//!
//! Memory couples all choices: what is resident counts everywhere, what is live long counts at
//! every step. What each operation demands ([`crate::search::memory::demand`]) is a capacity row,
//! and the solver minimises under rows ([`crate::solver::lagrangian`]). Every assignment that it
//! comes by is made a plan, and the cheapest that really fits is kept: the rows are below the real
//! peak, so this callback is a lazy constraint, and the bound is one of all plans that fit.
//!
//! Choices that cannot fit by themselves are dropped beforehand: reshards to blocks larger than
//! what is left beside the fixed resident bytes, and operations whose operands and result are. The
//! order of steps and the rule that each value's reshard tree is the cheapest for its ends are the
//! unlimited search's; where only another tree could fit, the bound stays below the plan and the
//! gap is stated. Dominated layouts stay, for they may be the smaller ones.

use shardwise_ir::plan::Plan;

use crate::cost::liveness::memory;
use crate::insert_collectives::plan;
use crate::layouts::composite::ExpandedPlan;
use crate::problem::Problem;
use crate::search::memory::demand::MemoryDemand;
use crate::solver::dreyfus_wagner::Trees;
use crate::solver::lagrangian::{RowLimits, minimize_within};
use crate::solver::model::Model;

/// What was found.
pub(crate) struct FeasiblePlan {
    /// The cheapest plan found that fits, and its price in seconds.
    pub(crate) plan: Option<(Plan, f64)>,
    /// No plan that fits is cheaper, in seconds.
    pub(crate) lower_bound_s: f64,
}

impl FeasiblePlan {
    /// What the plan costs; infinite if there is none.
    pub(crate) fn seconds(&self) -> f64 {
        self.plan.as_ref().map_or(f64::INFINITY, |(_, seconds)| *seconds)
    }
}

/// Searches for the cheapest plan whose peak is at most `capacity` bytes; `price` says what a plan
/// costs.
pub(crate) fn search(
    problem: &mut Problem<'_>,
    capacity: f64,
    limits: RowLimits,
    price: &dyn Fn(&Plan) -> f64,
) -> FeasiblePlan {
    let demand = prune_infeasible(problem, capacity);
    let problem = &*problem;
    let model = Model { rows: demand.rows(capacity), ..problem.model() };
    let mut best = None;
    let mut update_incumbent = |assignment: &[usize], trees: &mut [Trees<'_>], best_s: f64| {
        let plan = plan::plan(problem, assignment, trees);
        let seconds = price(&plan);
        (seconds < best_s && memory(&ExpandedPlan::from(&plan)).peak_bytes <= capacity).then(|| {
            best = Some((plan, seconds));
            seconds
        })
    };
    let found = minimize_within(&model, &mut model.tree_tables(), limits, &mut update_incumbent);
    FeasiblePlan { plan: best, lower_bound_s: found.lower_bound_s }
}

/// Drops choices that demand more than the capacity whatever else is chosen; the demand of the
/// others.
fn prune_infeasible(problem: &mut Problem<'_>, capacity: f64) -> MemoryDemand {
    let demand = MemoryDemand::new(problem);
    for (number, variable) in problem.variables.iter_mut().enumerate() {
        let mut choice = 0;
        variable.choices.retain(|_| {
            choice += 1;
            demand.least(number, choice - 1) <= capacity
        });
    }
    MemoryDemand::new(problem)
}
