//! The time and the memory of plans that a search under a memory limit makes, and the smallest of
//! them: where none fits, that is what a refusal says is needed.

use std::cell::RefCell;

use shardwise_ir::plan::Plan;

use crate::cost::liveness::memory;
use crate::layouts::composite::ExpandedPlan;
use crate::reshard::tables::Tables;
use crate::search::objective::{Objective, objective_s};

/// Measures plans, and remembers the smallest.
pub(crate) struct Measures<'a, 't> {
    tables: &'t Tables<'a>,
    objective: Objective,
    smallest: RefCell<Option<(Plan, f64)>>,
}

impl<'a, 't> Measures<'a, 't> {
    /// With the tables of all paths, which price plans.
    pub(crate) fn new(tables: &'t Tables<'a>, objective: Objective) -> Self {
        Self { tables, objective, smallest: RefCell::default() }
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
        bytes
    }

    /// The smallest plan of which the peak was asked for, and that peak.
    pub(crate) fn smallest(&self) -> Option<(Plan, f64)> {
        self.smallest.borrow().clone()
    }
}
