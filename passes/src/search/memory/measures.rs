//! The time and the memory of plans that a search under a memory limit makes, the cheapest of those
//! that fit, and the smallest of all: where none fits, that is what a refusal says is needed.
//!
//! Searches within tighter limits and for the smallest plan meet plans that fit into the limit that
//! was asked for, though not into their own. They are not what those searches return, so they are
//! recorded here.

use std::cell::RefCell;

use shardwise_ir::plan::Plan;

use crate::cost::liveness::memory;
use crate::layouts::composite::ExpandedPlan;
use crate::reshard::tables::Tables;
use crate::search::objective::{Objective, objective_s};

/// Measures plans, and remembers the smallest and the cheapest that fits.
pub(crate) struct Measures<'a, 't> {
    tables: &'t Tables<'a>,
    objective: Objective,
    capacity: f64,
    smallest: RefCell<Option<(Plan, f64)>>,
    cheapest: RefCell<Option<(Plan, f64)>>,
}

impl<'a, 't> Measures<'a, 't> {
    /// With the tables of all paths, which price plans, and the capacity that was asked for.
    pub(crate) fn new(tables: &'t Tables<'a>, objective: Objective, capacity: f64) -> Self {
        let (smallest, cheapest) = (RefCell::default(), RefCell::default());
        Self { tables, objective, capacity, smallest, cheapest }
    }

    /// The price of a plan.
    pub(crate) fn seconds(&self, plan: &Plan) -> f64 {
        objective_s(self.tables, plan, self.objective)
    }

    /// The peak of a plan.
    pub(crate) fn peak_bytes(&self, plan: &Plan) -> f64 {
        let bytes = memory(&ExpandedPlan::from(plan)).peak_bytes;
        let mut smallest = self.smallest.borrow_mut();
        if smallest.as_ref().is_none_or(|(_, least)| bytes < *least) {
            *smallest = Some((plan.clone(), bytes));
        }
        if bytes <= self.capacity {
            self.record_feasible(plan);
        }
        bytes
    }

    fn record_feasible(&self, plan: &Plan) {
        let seconds = self.seconds(plan);
        let mut cheapest = self.cheapest.borrow_mut();
        if cheapest.as_ref().is_none_or(|(_, least_s)| seconds < *least_s) {
            *cheapest = Some((plan.clone(), seconds));
        }
    }

    /// The smallest plan of which the peak was asked for, and that peak.
    pub(crate) fn smallest(&self) -> Option<(Plan, f64)> {
        self.smallest.borrow().clone()
    }

    /// The cheapest plan of which the peak was asked for and fits into the capacity that was asked
    /// for, whatever the limit of the search that made it; and its price.
    pub(crate) fn cheapest(&self) -> Option<(Plan, f64)> {
        self.cheapest.borrow().clone()
    }
}
