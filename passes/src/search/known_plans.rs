//! The plans that a search for what is no sum has met.

use shardwise_ir::plan::Plan;

use crate::cost::report::{Report, price_steps, report, resources_s, waited_s};
use crate::layouts::composite::ExpandedPlan;
use crate::problem::Problem;
use crate::reshard::tables::Tables;
use crate::search::critical_path::CriticalPath;
use crate::search::objective::Objective;
use crate::search::outcome::{Effort, Request};
use crate::search::shares::Shares;
use crate::search::tie_break::prefer;
use crate::solver::branch_and_bound::can_prune;
use crate::solver::interrupt::Interrupt;

/// Relative differences below this are rounding.
const ROUNDING: f64 = 1e-9;

/// Steps of plans that are scheduled, at most: seconds.
const MOST_SCHEDULED: usize = 200_000;

/// The share of this work that a quick search does.
const QUICK: f64 = 0.2;

/// The share of the evaluations, and of the schedules, where plans below a goal are wanted: one of
/// many searches, most of which find none.
const BELOW_A_GOAL: f64 = 0.125;

/// The share of a time by which a bound has to be below it for better ones to be looked for.
const WORTHWHILE: f64 = 0.005;

/// The best plan so far.
pub(super) struct Incumbent {
    pub plan: Plan,
    /// The objective, then what breaks ties, in seconds.
    order: [f64; 3],
}

/// What is known from the plans found so far.
pub(super) struct Known<'t> {
    pub tables: &'t Tables<'t>,
    pub textbook: &'t Plan,
    pub request: &'t Request,
    /// Compute, and every axis.
    pub resources: usize,
    /// The busy seconds of compute and of every axis, of plans in which they differ.
    pub busy: Vec<Vec<f64>>,
    pub best: Option<Incumbent>,
    /// How many steps may still be scheduled.
    pub steps: usize,
}

impl<'t> Known<'t> {
    pub(super) fn new(tables: &'t Tables<'t>, textbook: &'t Plan, request: &'t Request) -> Self {
        let resources = 1 + tables.program.mesh.axes.len();
        let mut known =
            Self { tables, textbook, request, resources, busy: Vec::new(), best: None, steps: 0 };
        known.steps = known.share_below(MOST_SCHEDULED);
        known
    }

    /// The same of work that a goal limits.
    pub(super) fn share_below(&self, most: usize) -> usize {
        let share = if self.request.goal.is_some() { BELOW_A_GOAL } else { 1.0 };
        self.share_of((most as f64 * share) as usize)
    }

    /// What may be done of so much work.
    pub(super) fn share_of(&self, most: usize) -> usize {
        match self.request.effort {
            Effort::Quick => (most as f64 * QUICK) as usize,
            Effort::Normal | Effort::High => most,
        }
    }

    /// Tables that weight a second of each axis by its share.
    pub(super) fn weighted(&self, shares: &Shares) -> Tables<'t> {
        shares.weighted(self.tables, self.request.objective)
    }

    /// The problem in which shares are weights, whose choices are those of the path.
    pub(super) fn problem<'a>(
        &self,
        tables: &'a Tables<'a>,
        shares: &Shares,
        path: Option<&CriticalPath<'_>>,
    ) -> Problem<'a> {
        let mut problem = Problem::new(tables, shares.compute());
        prefer(&mut problem, self.textbook);
        if let Some(path) = path {
            shares.chains.add_to(&mut problem, path);
        }
        problem
    }

    /// What plans have to be below to be of use.
    pub(super) fn wanted_s(&self) -> f64 {
        self.best_s().min(self.request.below_s())
    }

    /// What ends a search that needs no proof.
    pub(super) fn little_work(&self) -> Interrupt {
        self.request.quick().interrupt
    }

    /// Whether no plan before keeps all resources equally busy.
    pub(super) fn add(&mut self, plan: Plan) -> bool {
        let expanded = ExpandedPlan::from(&plan);
        let refinement = self.tables.cost_model.refinement;
        let busy = self.busy_s(&expanded);
        let busiest_s = busy.iter().copied().fold(0.0, f64::max);
        // A schedule takes at least as long as the busiest resource, and finding it takes longer.
        if busiest_s <= self.best_s() * (1.0 + ROUNDING) {
            let report = report(&expanded, refinement);
            drop(expanded);
            self.steps = self.steps.saturating_sub(report.steps.len());
            self.try_incumbent(plan, &report);
        }
        let equal = |other: &Vec<f64>| other.iter().zip(&busy).all(|(&a, &b)| is_rounding(a, b));
        let is_new = !self.busy.iter().any(equal);
        if is_new {
            self.busy.push(busy);
        }
        is_new
    }

    /// Seconds of compute and of every axis: for which they are busy, or for which a schedule waits
    /// for them.
    pub(super) fn busy_s(&self, plan: &ExpandedPlan<'_>) -> Vec<f64> {
        let steps = price_steps(plan, self.tables.cost_model.refinement);
        match self.request.objective {
            Objective::Scheduled => waited_s(plan, &steps),
            _ => resources_s(plan, &steps),
        }
    }

    fn try_incumbent(&mut self, plan: Plan, report: &Report) {
        let peak_bytes = report.memory.peak_bytes;
        let Request { capacity, most_busy_s, .. } = self.request;
        let fits = capacity.is_none_or(|capacity| peak_bytes <= capacity)
            && most_busy_s.is_none_or(|most_s| report.overlap_s <= most_s);
        let makespan_s = report.schedule.makespan_s;
        let order = match self.request.objective {
            Objective::Scheduled => [makespan_s, report.serial_s, report.overlap_s],
            _ => [report.overlap_s, makespan_s, report.serial_s],
        };
        let is_better = |best: &Incumbent| {
            let differ = order.iter().zip(&best.order).find(|(a, b)| !is_rounding(**a, **b));
            differ.is_some_and(|(a, b)| a < b)
        };
        if fits && self.best.as_ref().is_none_or(is_better) {
            self.best = Some(Incumbent { plan, order });
        }
    }

    /// Whether a bound leaves a gap, and there is time to close it.
    pub(super) fn is_open(&self, lower_bound_s: f64) -> bool {
        !can_prune(lower_bound_s, self.best_s()) && !self.request.interrupt.is_due()
    }

    /// Whether the gap is one for which better bounds and plans are looked for by more than branch
    /// and bound, and there is time for them.
    pub(super) fn is_worthwhile(&self, least_s: f64) -> bool {
        let wanted_s = self.wanted_s();
        self.is_open(least_s) && wanted_s - least_s >= wanted_s * WORTHWHILE
    }

    /// The least time of the plans that fit.
    pub(super) fn best_s(&self) -> f64 {
        self.best.as_ref().map_or(f64::INFINITY, |best| best.order[0])
    }
}

/// Whether two times differ by rounding alone.
fn is_rounding(a: f64, b: f64) -> bool {
    (a - b).abs() <= ROUNDING * a.max(b)
}
