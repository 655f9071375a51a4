//! One candidate, planned: without a memory limit, or within memory, bounded or with little or all
//! effort.

use std::time::{Duration, Instant};

use shardwise_ir::codes;
use shardwise_passes::{Goal, Optimality};

use super::candidate::Candidate;
use super::dtypes::Dtypes;
use super::template::Template;
use crate::Planned;
use crate::diagnostics::Findings;
use crate::driver::plan_below;
use crate::options::{AxisParts, Effort, Grouping, Options};
use crate::planned::{NoPlan, Origin};

/// The part of a time limit that one run of the planner has at first.
pub(super) const SHARES: u32 = 24;

/// How much more time a run has that is made again because the first one's was over.
const MORE_TIME: u32 = 4;

/// In a large space a plan without a memory limit is within this ratio of its bound, unless it
/// fits: mostly it does not.
const NEAR: f64 = 2e-3;

/// How a candidate is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Without a memory limit, which is fast and bounds it.
    Unlimited,
    /// Within memory, with little effort.
    Quick,
    /// Within memory, as far as a bound needs it.
    Bound,
    /// Within memory, with all effort.
    Full,
}

/// What a run of the planner says of a candidate.
pub(super) enum Outcome {
    /// Its plan.
    Planned(Box<Planned>),
    /// The plan without a memory limit does not fit; nothing takes less than these seconds.
    TooLarge(f64),
    /// There is no plan.
    Refused(Refusal),
}

/// Why a plan was refused.
pub(super) enum Refusal {
    /// No plan fits, for this reason.
    OverMemory(String),
    /// A rule of the language.
    Illegal(String),
    /// No plan that was found is below the goal; nothing takes less than these seconds.
    NotBelow(f64),
}

/// What all candidates are planned with.
#[derive(Clone, Copy)]
pub(super) struct Leaves<'a, 's> {
    pub(super) template: &'a Template<'s>,
    pub(super) options: &'a Options,
    /// Time for all of them, and its end.
    pub(super) timeout: Option<(Duration, Instant)>,
    /// Into how many parts that time is divided, one for each run.
    pub(super) shares: u32,
    /// Bytes of a device, where there is a limit.
    pub(super) capacity: Option<f64>,
    /// Whether there are so few candidates that each is planned with all effort.
    pub(super) is_small: bool,
}

impl Leaves<'_, '_> {
    /// Plans a candidate, if its plan reaches the goal.
    pub(super) fn expand(&self, candidate: &Candidate, stage: Stage, goal: &Goal) -> Outcome {
        let memory =
            if stage == Stage::Unlimited { Some(f64::INFINITY) } else { self.options.memory };
        let is_quick = stage == Stage::Quick || stage == Stage::Unlimited && !self.is_small;
        let effort = if is_quick { Effort::Quick } else { Effort::Normal };
        let fits = |planned: &Planned| {
            self.capacity.is_none_or(|capacity| planned.report.memory.peak_bytes <= capacity)
        };
        let is_near_enough = stage == Stage::Unlimited && !self.is_small;
        let near = Goal { enough: if is_near_enough { NEAR } else { 0.0 }, ..goal.clone() };
        let planned = match self.planned_below(candidate, memory, effort, Some(&near)) {
            Ok(planned) if is_near_enough && fits(&planned) && !is_proven(&planned) => {
                self.planned_below(candidate, memory, effort, Some(goal))
            }
            planned => planned,
        };
        match planned {
            Ok(planned) if stage != Stage::Unlimited || fits(&planned) => {
                if planned.own_s() >= goal.below_s {
                    return Outcome::Refused(Refusal::NotBelow(planned.lower_bound_s()));
                }
                let capacity_bytes = self.capacity;
                Outcome::Planned(Box::new(Planned { capacity_bytes, ..planned }))
            }
            Ok(planned) => Outcome::TooLarge(planned.lower_bound_s()),
            Err(refusal) => Outcome::Refused(refusal),
        }
    }

    /// The time that a run has: a small part of all, so that many candidates have a plan.
    fn time_of_run(&self) -> Option<Duration> {
        let (all, end) = self.timeout?;
        let left = end.saturating_duration_since(Instant::now());
        Some(left.min(all / self.shares).max(Duration::from_millis(1)))
    }

    /// When a run that begins now has used up its time.
    pub(super) fn end_of_run(&self) -> Option<Instant> {
        self.time_of_run().map(|time| Instant::now() + time)
    }

    /// Whether runs had a part of the time that is left.
    pub(super) fn may_have_more_time(&self) -> bool {
        self.shares > 1
    }

    /// Gives each run a larger part of the time limit.
    pub(super) fn give_more_time(&mut self) {
        self.shares = (self.shares / MORE_TIME).max(1);
    }

    /// The plan of a candidate within this memory.
    pub(super) fn planned(
        &self,
        candidate: &Candidate,
        memory: Option<f64>,
        effort: Effort,
    ) -> Result<Planned, Refusal> {
        self.planned_below(candidate, memory, effort, None)
    }

    /// The plan of the winner as `plan` prints it: with other shardings of open declarations that
    /// are as cheap, which are looked for only where a plan is proven without a limit on memory.
    pub(super) fn shown(&self, candidate: &Candidate, planned: Box<Planned>) -> Box<Planned> {
        let may_have_others = matches!(&planned.origin, Origin::Searched(found)
            if found.optimality == Optimality::Optimal && found.unlimited_s.is_none());
        if !may_have_others {
            return planned;
        }
        let capacity_bytes = planned.capacity_bytes;
        match self.planned_below(candidate, self.options.memory, Effort::Normal, None) {
            Ok(again) if again.own_s() <= planned.own_s() => {
                Box::new(Planned { capacity_bytes, ..again })
            }
            _ => planned,
        }
    }

    fn planned_below(
        &self,
        candidate: &Candidate,
        memory: Option<f64>,
        effort: Effort,
        goal: Option<&Goal>,
    ) -> Result<Planned, Refusal> {
        let timeout = self.time_of_run();
        // Other meshes of the space have these parts as axes of their own.
        let parts = AxisParts::AsWritten;
        let grouping = Grouping::AsWritten;
        let mut options =
            Options { memory, timeout, effort, parts, grouping, ..self.options.clone() };
        if let Some(batch) = candidate.batch {
            let is_sized = |name: &str| self.template.size_for_batch(name, batch).is_some();
            options.dims.retain(|dim| !is_sized(&dim.name));
        }
        if candidate.dtypes != Dtypes::Written {
            options.products = None;
        }
        let text = self.template.text(candidate);
        let goal = goal.map(|goal| Goal { is_compared: true, ..goal.clone() });
        plan_below(self.template.name, &text, &options, goal).map_err(|none| match none {
            NoPlan::Refused(findings) => refusal(&findings),
            NoPlan::NotBelow(lower_bound_s) => Refusal::NotBelow(lower_bound_s.unwrap_or(0.0)),
        })
    }
}

/// Whether nothing is better than a plan.
fn is_proven(planned: &Planned) -> bool {
    planned.lower_bound_s() >= planned.own_s()
}

/// The first error of a candidate.
fn refusal(findings: &Findings) -> Refusal {
    let errors =
        || findings.reports.iter().filter(|report| report.diag.severity == crate::Severity::Error);
    let message =
        errors().next().map_or("no plan".to_owned(), |report| report.diag.message.clone());
    if errors().any(|report| report.diag.code == codes::budget::NO_ROOM) {
        Refusal::OverMemory(message)
    } else {
        Refusal::Illegal(message)
    }
}
