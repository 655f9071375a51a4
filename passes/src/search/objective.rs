//! What a search makes small, and what a plan costs by it.

use shardwise_ir::plan::Plan;
use strum::{EnumMessage, IntoStaticStr, VariantArray};

use crate::cost::collective::CostModel;
use crate::cost::report;
use crate::reshard::tables::Tables;
use crate::solver::weight::Weight;

/// What a plan is cheapest by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Objective {
    /// The sum of all steps.
    #[default]
    Serial,
    /// The sum of all collectives.
    Comm,
    /// The busiest resource, compute or an axis's links: what no schedule can be faster than.
    Overlap,
}

impl Objective {
    /// As options and reports write it.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// What a second of compute counts where steps are added up.
    pub fn compute(self) -> f64 {
        match self {
            Self::Serial | Self::Overlap => 1.0,
            Self::Comm => 0.0,
        }
    }
}

/// What a plan costs by the objective, in seconds.
pub(crate) fn objective_s(tables: &Tables<'_>, plan: &Plan, objective: Objective) -> f64 {
    match objective {
        Objective::Overlap => report::report(&plan.into(), tables.cost_model.refinement).overlap_s,
        Objective::Serial | Objective::Comm => plan_price(tables, plan, objective).as_seconds(),
    }
}

/// What the steps of a plan cost together.
pub(crate) fn plan_price(tables: &Tables<'_>, plan: &Plan, objective: Objective) -> Weight {
    report::weight(
        &plan.into(),
        objective.compute(),
        &CostModel::time(tables.cost_model.refinement),
    )
}
