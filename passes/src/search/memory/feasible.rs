//! Searches for the cheapest plan that fits into memory, given which values are kept and which are
//! rematerialised.
//!
//! Memory couples all choices: resident values count at every step, live values at every step of
//! their live range. What is demanded while each operation runs
//! ([`crate::search::memory::demand`]) is the capacity of the model, and the solver minimises
//! under it ([`crate::solver::lagrangian`]). Every assignment that it finds is turned into a plan,
//! and the cheapest plan that fits becomes the incumbent: the demands are lower bounds of the
//! actual peak, so this callback is a lazy constraint, and the bound holds for all plans that fit.
//!
//! Choices that cannot fit by themselves are removed beforehand: reshards whose blocks are too
//! large together ([`crate::search::memory::blocks`]), and operations whose operands and result
//! are larger than the capacity less the fixed resident bytes. The order of steps is that of the
//! unlimited search, and each value's reshard tree is the cheapest for its ends; where only
//! another tree fits, that is searched ([`crate::search::memory::smaller`]), the bound stays below
//! the plan, and the gap is reported. Dominated layouts stay, since they may need less memory.
//!
//! The solver by tables ([`crate::solver::capacity`]) is the alternative. Where a model is small
//! enough for tables, both have the same bound: what is missing is memory that no choice demands
//! by itself. And it closes such a model at the cheapest assignment within the demands, where this
//! one goes on and so offers more of those that really fit.

use shardwise_ir::plan::Plan;

use crate::insert_collectives::plan;
use crate::problem::Problem;
use crate::search::memory::demand::MemoryDemand;
use crate::search::memory::measures::Measures;
use crate::search::memory::smaller;
use crate::solver::branch_and_bound::can_prune;
use crate::solver::dreyfus_wagner::Trees;
use crate::solver::lagrangian::{RowLimits, minimize_within};
use crate::solver::model::Model;

/// Assignments times variables of which smaller plans are tried in one search.
const MOST_TRIES: usize = 1000;

/// The result.
pub(crate) struct FeasiblePlan {
    /// The cheapest plan found that fits, and its price in seconds.
    pub(crate) plan: Option<(Plan, f64)>,
    /// The lower bound of all plans that fit, in seconds.
    pub(crate) lower_bound_s: f64,
    /// The seconds that a plan has to be below.
    pub(crate) below_s: f64,
}

impl FeasiblePlan {
    /// Nothing is known.
    pub(crate) fn unknown(below_s: f64) -> Self {
        Self { plan: None, lower_bound_s: 0.0, below_s }
    }

    /// The price of the plan; if there is none, the one to be below.
    pub(crate) fn seconds(&self) -> f64 {
        self.plan.as_ref().map_or(self.below_s, |(_, seconds)| *seconds)
    }

    /// Whether no plan that fits is cheaper.
    pub(crate) fn is_proven(&self) -> bool {
        can_prune(self.lower_bound_s, self.seconds())
    }

    /// Takes over what is better of another search for the same.
    pub(crate) fn add(&mut self, other: Self) {
        self.lower_bound_s = self.lower_bound_s.max(other.lower_bound_s);
        if other.seconds() < self.seconds() {
            self.plan = other.plan;
        }
    }
}

/// Searches for the cheapest plan whose peak is at most `capacity` bytes.
pub(crate) fn search(
    problem: &mut Problem<'_>,
    capacity: f64,
    limits: RowLimits<'_>,
    measures: &Measures<'_, '_>,
) -> FeasiblePlan {
    let demand = prune_infeasible(problem, capacity);
    if limits.interrupt.is_due() {
        // The first bound of a large program takes a second by itself.
        return FeasiblePlan::unknown(limits.below_s);
    }
    let problem = &*problem;
    let model = Model { capacity: demand.capacity(capacity), ..problem.model() };
    let mut best = None;
    let mut tries = MOST_TRIES / problem.variables.len().max(1);
    let mut update_incumbent = |assignment: &[usize], trees: &mut [Trees<'_>], best_s: f64| {
        let plan = plan::plan(problem, assignment, trees);
        let seconds = measures.seconds(&plan);
        if seconds >= best_s {
            return None;
        }
        let (plan, seconds) = if measures.peak_bytes_of(&plan, seconds) <= capacity {
            (plan, seconds)
        } else {
            tries = tries.checked_sub(1)?;
            smaller::plan_within(problem, assignment, &plan, (capacity, best_s), measures)?
        };
        best = Some((plan, seconds));
        Some(seconds)
    };
    let below_s = limits.below_s;
    let found = minimize_within(&model, &mut model.tree_tables(), limits, &mut update_incumbent);
    FeasiblePlan { plan: best, lower_bound_s: found.lower_bound_s, below_s }
}

/// Removes choices that demand more than the capacity by themselves; returns the demand of the
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
