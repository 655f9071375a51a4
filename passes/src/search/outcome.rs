//! The request and the result of a search.

use std::sync::Arc;

use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::plan::{Materialization, Plan};
use strum::{EnumMessage, IntoStaticStr, VariantArray};

use crate::propagate::textbook::Infeasible;
use crate::search::objective::Objective;
use crate::search::parts::on_all_devices_s;
use crate::search::rival::Rival;
use crate::solver::interrupt::Interrupt;

/// How good the plan is known to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Optimality {
    /// Optimal: the lower bound equals the price.
    Optimal,
    /// No plan is cheaper than `lower_bound_s` seconds.
    Bounded {
        /// A true lower bound, in seconds of the objective.
        lower_bound_s: f64,
    },
}

/// A plan and how good it is known to be.
#[derive(Clone, Debug)]
pub struct Found {
    /// The plan.
    pub plan: Plan,
    /// How good it is.
    pub optimality: Optimality,
    /// For open declarations, another sharding at the same price, an example for each.
    pub alternatives: Vec<Materialization>,
    /// The number of layouts before and after dominance.
    pub layouts: (usize, usize),
    /// The sum of the steps of its layouts, were memory unlimited, if the limit made them costlier.
    pub unlimited_s: Option<f64>,
}

/// Why there is no plan.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// No layout of an operation fits its brackets.
    Infeasible(Infeasible),
    /// No plan that was found fits into the memory; the smallest one, and its peak in bytes.
    OverCapacity(Box<Plan>, f64),
    /// None is cheaper than the rival, as far as was searched.
    NotCheaper,
}

/// How much work a search does before it ends without a proof.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Effort {
    /// A second or two: a plan and a valid bound, both weaker. Where nothing fits into the memory,
    /// the plan of the refusal is that without a limit.
    Quick,
    /// Up to about ten seconds. Where nothing fits into the memory, it also looks for the smallest
    /// plan.
    #[default]
    Normal,
    /// Up to about a minute, where that makes the gap smaller.
    High,
}

impl Effort {
    /// As options write it.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// What the solver's counts of work are multiplied with.
    pub(crate) fn work(self) -> f64 {
        match self {
            Self::Quick => 0.25,
            Self::Normal => 1.0,
            Self::High => 8.0,
        }
    }
}

/// The request of a search.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The objective.
    pub objective: Objective,
    /// What ends the search before its proof or its limits of work.
    pub interrupt: Interrupt,
    /// Bytes that a device may hold.
    pub capacity: Option<f64>,
    /// How much work is spent.
    pub effort: Effort,
    /// The plan of another form of the program that has to be beaten.
    pub rival: Option<Arc<Rival>>,
}

impl Request {
    /// Whether no plan of the program is below the rival, even without communication.
    pub(crate) fn is_hopeless(&self, program: &Analyzed) -> bool {
        let least_s = || on_all_devices_s(program, self.objective);
        self.rival.as_ref().is_some_and(|rival| rival.is_unbeaten(least_s()))
    }
}
