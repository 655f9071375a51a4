//! What a search is asked for, and what it answers.

use std::time::Duration;

use shardwise_ir::plan::{Materialization, Plan};

use crate::propagate::textbook::Infeasible;
use crate::search::objective::Objective;

/// How good the plan is known to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Optimality {
    /// Nothing is cheaper: the search closed.
    Optimal,
    /// Nothing is cheaper than `lower_bound_s` seconds.
    Bounded {
        /// A true lower bound, in seconds of the objective.
        lower_bound_s: f64,
    },
}

/// A plan and what is known of it.
#[derive(Clone, Debug)]
pub struct Found {
    /// The plan.
    pub plan: Plan,
    /// How good it is.
    pub optimality: Optimality,
    /// Other places for the open declarations from which the price is the same, an example for
    /// each.
    pub alternatives: Vec<Materialization>,
    /// Layouts looked at before and after the dominated ones were dropped.
    pub layouts: (usize, usize),
}

/// Why there is no plan.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// No layout of an operation fits its brackets.
    Infeasible(Infeasible),
    /// No plan that was found fits into the memory; the smallest one, and its peak in bytes.
    OverCapacity(Box<Plan>, f64),
}

/// What a search is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request {
    /// What is made small.
    pub objective: Objective,
    /// How long it may take; without it, until the proof or the limits of work.
    pub timeout: Option<Duration>,
    /// Bytes that a device may hold.
    pub capacity: Option<f64>,
}
