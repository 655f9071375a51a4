//! The time and the memory of plans that a search under a memory limit makes, the cheapest of those
//! that fit, and the smallest of all: where none fits, that is what a refusal says is needed.
//!
//! Searches within tighter limits and for the smallest plan meet plans that fit into the limit that
//! was asked for, though not into their own. They are not what those searches return, so they are
//! recorded here.

use std::cell::RefCell;
use std::sync::Arc;

use shardwise_ir::plan::Plan;

use crate::cost::liveness::memory;
use crate::layouts::composite::ExpandedPlan;
use crate::reshard::tables::Tables;
use crate::search::memory::front::Front;
use crate::search::objective::{Objective, objective_s};

/// What was measured: the smallest plan with its bytes, the cheapest that fits with its seconds,
/// and the front of time against memory.
#[derive(Clone)]
pub(crate) struct Measured {
    smallest: Option<(Plan, f64)>,
    cheapest: Option<(Plan, f64)>,
    front: Front<Plan>,
}

/// Measures plans, and remembers the smallest and the cheapest that fits.
pub(crate) struct Measures<'a, 't> {
    tables: &'t Tables<'a>,
    objective: Objective,
    capacity: f64,
    measured: RefCell<Measured>,
}

impl<'a, 't> Measures<'a, 't> {
    /// With the tables of all paths, which price plans, and the capacity that was asked for.
    pub(crate) fn new(tables: &'t Tables<'a>, objective: Objective, capacity: f64) -> Self {
        let measured = Measured { smallest: None, cheapest: None, front: Front::new(capacity) };
        Self { tables, objective, capacity, measured: measured.into() }
    }

    /// The price of a plan.
    pub(crate) fn seconds(&self, plan: &Plan) -> f64 {
        objective_s(self.tables, plan, self.objective)
    }

    /// The peak of a plan.
    pub(crate) fn peak_bytes(&self, plan: &Plan) -> f64 {
        self.recorded(plan, || self.seconds(plan))
    }

    /// The peak of a plan that takes so many seconds.
    pub(crate) fn peak_bytes_of(&self, plan: &Plan, seconds: f64) -> f64 {
        let bytes = self.recorded(plan, || seconds);
        self.measured.borrow_mut().front.add(plan, seconds, bytes);
        bytes
    }

    fn recorded(&self, plan: &Plan, seconds: impl FnOnce() -> f64) -> f64 {
        let bytes = memory(&ExpandedPlan::from(plan)).peak_bytes;
        let mut measured = self.measured.borrow_mut();
        keep_least(&mut measured.smallest, plan, bytes);
        if bytes <= self.capacity {
            keep_least(&mut measured.cheapest, plan, seconds());
        }
        bytes
    }

    /// Takes over what was measured elsewhere, within the same capacity.
    pub(crate) fn add(&self, other: Measured) {
        let mut measured = self.measured.borrow_mut();
        if let Some((plan, bytes)) = other.smallest {
            keep_least(&mut measured.smallest, &plan, bytes);
        }
        if let Some((plan, seconds)) = other.cheapest {
            keep_least(&mut measured.cheapest, &plan, seconds);
        }
        measured.front.add_all(other.front);
    }

    /// The plans on the front: up to `most` that do not fit into so many bytes, and as many that
    /// do, the nearest first; and the fastest of all.
    pub(crate) fn near(&self, capacity: f64, most: usize) -> (Vec<Arc<Plan>>, Vec<Arc<Plan>>) {
        self.measured.borrow().front.near(capacity, most)
    }

    /// What was measured so far.
    pub(crate) fn measured(&self) -> Measured {
        self.measured.borrow().clone()
    }

    /// The smallest plan of which the peak was asked for, and that peak.
    pub(crate) fn smallest(&self) -> Option<(Plan, f64)> {
        self.measured.borrow().smallest.clone()
    }

    /// The cheapest plan of which the peak was asked for and fits into the capacity that was asked
    /// for, whatever the limit of the search that made it; and its price.
    pub(crate) fn cheapest(&self) -> Option<(Plan, f64)> {
        self.measured.borrow().cheapest.clone()
    }
}

/// Keeps the plan with the least number, the first of equals.
fn keep_least(kept: &mut Option<(Plan, f64)>, plan: &Plan, number: f64) {
    if kept.as_ref().is_none_or(|(_, least)| number < *least) {
        *kept = Some((plan.clone(), number));
    }
}
