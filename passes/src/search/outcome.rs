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

impl Found {
    /// A known plan.
    pub(crate) fn of(plan: &Plan, optimality: Optimality) -> Self {
        let (alternatives, layouts) = (Vec::new(), Default::default());
        Self { plan: plan.clone(), optimality, alternatives, layouts, unlimited_s: None }
    }
}

/// Why there is no plan.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// No layout of an operation fits its brackets.
    Infeasible(Infeasible),
    /// No plan that was found fits into the memory; the smallest one, and its peak in bytes.
    OverCapacity(Box<Plan>, f64),
    /// None that was found reaches the goal. No plan takes less than these seconds, if all of them
    /// were looked at.
    NotBelow(Option<f64>),
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
    /// What makes a plan wanted; without one, every plan is.
    pub goal: Option<Arc<Goal>>,
    /// Seconds for which the busiest resource of a plan may be busy, where its schedule is
    /// minimised.
    pub most_busy_s: Option<f64>,
}

/// What makes a plan wanted: the search ends when none can be any more.
///
/// A search for what is below a time looks at other plans than one for the cheapest, so that it may
/// find another plan, or none where the other has one. [`Goal::is_bound_enough`] is for callers
/// that want the plan of a search without a goal, where a bound does not exclude it.
#[derive(Clone, Debug)]
pub struct Goal {
    /// It takes less than these seconds of the objective.
    pub below_s: f64,
    /// It is known to take at least these seconds, and not to fit into memory if it takes no more:
    /// the plan without a limit is not searched again.
    pub unlimited_s: Option<f64>,
    /// Near a change of the program, it takes less than the plan of the program without it.
    pub rival: Option<Rival>,
    /// Whether a bound is all that is asked for: no plan is made for its own sake.
    pub is_bound_enough: bool,
    /// The ratio of a plan without a limit on memory to its bound, less one, at which it is not
    /// improved: where memory is a limit, its bound alone matters.
    pub enough: f64,
    /// The share of the work of a search without a goal: of several, each has a part.
    pub work: f64,
    /// Whether the plan is compared with others and not shown: other shardings of open declarations
    /// that are as cheap are not looked for.
    pub is_compared: bool,
}

impl Goal {
    /// Every plan below these seconds is wanted.
    pub fn below(below_s: f64) -> Self {
        Self {
            below_s,
            unlimited_s: None,
            rival: None,
            is_bound_enough: false,
            enough: 0.0,
            work: 1.0,
            is_compared: false,
        }
    }

    /// Every plan is wanted; that none fits into memory is known without the smallest one.
    pub fn any() -> Self {
        Self::below(f64::MAX)
    }

    /// The same for one of so many searches, which together may do the work of one.
    #[must_use]
    pub fn of_several(self, count: usize) -> Self {
        Self { work: 1.0 / count.max(1) as f64, ..self }
    }
}

/// The share of a time that is rounding.
const ROUNDING: f64 = 1e-9;

impl Request {
    /// The same with little effort.
    pub(crate) fn quick(&self) -> Self {
        let share = (Effort::Quick.work() / self.effort.work()).min(1.0);
        Self { interrupt: self.interrupt.with_work(share), effort: Effort::Quick, ..self.clone() }
    }

    /// The seconds that a plan has to be below.
    pub(crate) fn below_s(&self) -> f64 {
        self.goal.as_ref().map_or(f64::INFINITY, |goal| goal.below_s)
    }

    /// Whether plans are not wanted, but a bound is.
    pub(crate) fn is_bound_enough(&self) -> bool {
        self.goal.as_ref().is_some_and(|goal| goal.is_bound_enough)
    }

    /// Whether the plan is wanted if it is below those of other programs.
    pub(crate) fn is_rival_of_others(&self) -> bool {
        let goal = self.goal.as_ref();
        goal.is_some_and(|goal| goal.is_compared && goal.below_s.is_finite())
    }

    /// Whether no plan of at least these seconds reaches the goal.
    pub fn is_out_of_reach(&self, lower_bound_s: f64) -> bool {
        lower_bound_s >= self.below_s() * (1.0 - ROUNDING)
    }

    /// The seconds of the program without communication, if they are too many for the goal.
    pub(crate) fn hopeless_s(&self, program: &Analyzed) -> Option<f64> {
        self.goal.as_ref()?;
        Some(on_all_devices_s(program, self.objective)).filter(|&s| self.is_out_of_reach(s))
    }
}
