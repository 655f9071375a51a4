//! The objectives of a search, and the cost of a plan under each.

use shardwise_ir::plan::Plan;
use strum::{EnumMessage, IntoStaticStr, VariantArray};

use crate::cost::report;
use crate::reshard::tables::Tables;
use crate::solver::weight::Weight;

/// The quantity that a search minimises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Objective {
    /// The sum of all steps.
    #[default]
    Serial,
    /// The sum of all collectives.
    Comm,
    /// The busiest resource, compute or an axis's links: a lower bound of every schedule.
    Overlap,
    /// The schedule of the plan: what a step takes where collectives run beside compute.
    Scheduled,
}

impl Objective {
    /// As options and reports write it.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether it is a sum over steps.
    pub fn is_sum(self) -> bool {
        match self {
            Self::Serial | Self::Comm => true,
            Self::Overlap | Self::Scheduled => false,
        }
    }

    /// The weight of a second of compute where steps are summed.
    pub fn compute(self) -> f64 {
        match self {
            Self::Serial | Self::Overlap | Self::Scheduled => 1.0,
            Self::Comm => 0.0,
        }
    }
}

/// The cost of a plan under the objective, in seconds.
pub(crate) fn objective_s(tables: &Tables<'_>, plan: &Plan, objective: Objective) -> f64 {
    let report = || report::report(&plan.into(), tables.cost_model.refinement);
    match objective {
        Objective::Overlap => report().overlap_s,
        Objective::Scheduled => report().schedule.makespan_s,
        Objective::Serial | Objective::Comm => plan_price(tables, plan, objective).as_seconds(),
    }
}

/// The sum of the steps of a plan, as the tables weight them.
pub(crate) fn plan_price(tables: &Tables<'_>, plan: &Plan, objective: Objective) -> Weight {
    report::weight(&plan.into(), objective.compute(), &tables.cost_model)
}
