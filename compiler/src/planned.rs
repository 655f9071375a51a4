//! A plan with its costs and bounds, and the results derived from them: asserts, the claim of its
//! optimality, the networks that its collectives run over, the attention in it.

pub(crate) mod attention_site;
pub(crate) mod blocks;
pub(crate) mod budget;
pub(crate) mod claim;
pub mod link_breakdown;
pub mod parallelism;
pub(crate) mod stages;
pub(crate) mod step_name;
pub(crate) mod summary;

use indexmap::IndexSet;
use shardwise_ir::print;
use shardwise_passes::report::Report;
use shardwise_passes::{ExpandedPlan, Found, Goal, Optimality, Rival};

use crate::diagnostics::Findings;
use crate::options::{Objective, Options, Refinement};
use crate::simulate;
use attention_site::Site;

/// How a plan was found.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    Explicit,
    Textbook,
    Searched(Box<Found>),
}

/// Why there is no plan.
#[derive(Debug)]
pub(crate) enum NoPlan<Faults = Findings> {
    /// The program has errors, or does not fit.
    Refused(Faults),
    /// None that was found reaches the goal. No plan takes less than these seconds, if all of them
    /// were looked at.
    NotBelow(Option<f64>),
}

impl<Faults> NoPlan<Faults> {
    pub(crate) fn map<Other>(self, map: impl FnOnce(Faults) -> Other) -> NoPlan<Other> {
        match self {
            Self::Refused(faults) => NoPlan::Refused(map(faults)),
            Self::NotBelow(lower_bound_s) => NoPlan::NotBelow(lower_bound_s),
        }
    }
}

/// A plan with its costs and bounds. `Display` is its text, which is a program again;
/// [`Planned::json`] its JSON.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The program's name.
    pub name: String,
    /// The plan.
    pub plan: ExpandedPlan<'static>,
    /// Its costs.
    pub report: Report,
    /// The costs of the textbook's plan (the plan itself, for an explicit program).
    pub textbook: Report,
    /// Whether the textbook's rules find no plan, so that `textbook` is the one from which the
    /// search started.
    pub rules_fail: bool,
    /// The objective of the search.
    pub objective: Objective,
    /// The memory capacity of a device, where known.
    pub capacity_bytes: Option<f64>,
    /// The precision of the prices of collectives.
    pub refinement: Refinement,
    /// Warnings.
    pub warnings: Findings,
    /// The asserts of the program that the plan breaks.
    pub(crate) broken: Findings,
    /// The text of the program.
    pub(crate) source: String,
    /// What was asked for.
    pub(crate) options: Options,
    /// The attention in the program.
    pub(crate) attention: Vec<Site>,
    /// What was regrouped or computed once, in lines.
    pub(crate) notes: Vec<String>,
    pub(crate) origin: Origin,
    pub(crate) carried_claim: Option<String>,
    /// Whether the plan has other sizes than its costs, and cannot be priced again.
    pub(crate) is_small: bool,
}

impl Planned {
    /// The plan at the smallest sizes that keep every split, its blocks two iterations long, on
    /// `most` devices if the mesh can shrink so far: to run it on a small machine. Costs stay those
    /// of the plan's own sizes; pipelines, whose schedules depend on sizes, have none.
    #[must_use]
    pub fn small(&self, most: u64) -> Self {
        let mut small = self.clone();
        small.plan = ExpandedPlan::from(simulate::small(&self.plan, most));
        small.report.schedule.pipelines.clear();
        small.is_small = true;
        small
    }

    /// `search`, `textbook` or `explicit`.
    pub fn strategy_name(&self) -> &'static str {
        match self.origin {
            Origin::Explicit => "explicit",
            Origin::Textbook => "textbook",
            Origin::Searched(..) => "search",
        }
    }

    /// `optimal` where proven, else `bounded`; the only known bound of a textbook or explicit plan
    /// is 0.
    pub fn status_name(&self) -> &'static str {
        if self.is_optimal() { "optimal" } else { "bounded" }
    }

    /// Whether no plan is cheaper.
    pub(crate) fn is_optimal(&self) -> bool {
        let Origin::Searched(found) = &self.origin else { return false };
        found.optimality == Optimality::Optimal
    }

    /// Whether the search could not prove the plan, for another reason than a limit on memory.
    pub(crate) fn is_beyond_the_search(&self) -> bool {
        let Origin::Searched(found) = &self.origin else { return false };
        found.unlimited_s.is_none() && !self.is_optimal()
    }

    /// No plan is cheaper than this, in seconds of the objective; 0 where nothing is known.
    pub fn lower_bound_s(&self) -> f64 {
        match &self.origin {
            Origin::Searched(found) => match found.optimality {
                Optimality::Optimal => self.own_s(),
                Optimality::Bounded { lower_bound_s } => lower_bound_s.min(self.own_s()),
            },
            Origin::Explicit | Origin::Textbook => 0.0,
        }
    }

    /// Other shardings of open declarations from which a plan is as cheap, an example for each
    /// declaration.
    pub fn alternatives(&self) -> Vec<String> {
        let Origin::Searched(found) = &self.origin else { return Vec::new() };
        let text = |other| print::materialization(&self.plan.program, other);
        found.alternatives.iter().map(text).collect()
    }

    /// What another form of the program has to reach: it takes less by a `share` of the time, and
    /// first does so near the values that the change is `about`, if these are given. Every plan is
    /// wanted if this one breaks an assert; nothing is to be reached if it was not searched for.
    pub(crate) fn goal(&self, about: Option<IndexSet<String>>, share: f64) -> Option<Goal> {
        let Origin::Searched(found) = &self.origin else { return None };
        if !self.keeps_asserts() {
            return Some(Goal::any());
        }
        let sum_s = match self.objective {
            Objective::Comm => self.report.comm_s,
            Objective::Serial | Objective::Overlap | Objective::Scheduled => self.report.serial_s,
        };
        let unlimited_s = found.unlimited_s.unwrap_or(sum_s) * (1.0 - share);
        let rival = about.map(|about| Rival { plan: found.plan.clone(), unlimited_s, about });
        Some(Goal { rival, ..Goal::below(self.own_s() * (1.0 - share)) })
    }

    /// Whether it keeps the program's asserts.
    pub(crate) fn keeps_asserts(&self) -> bool {
        self.broken.reports.is_empty()
    }

    /// Whether it is to be preferred to another one of the same program: it keeps its asserts and
    /// the other does not, or both do or none, and it is cheaper by this share; where the busiest
    /// resource counts, also if that is equal and the schedule is shorter by this share.
    pub(crate) fn is_better_than(&self, other: &Self, share: f64) -> bool {
        match (self.keeps_asserts(), other.keeps_asserts()) {
            (true, false) => true,
            (false, true) => false,
            _ if self.is_as_busy_as(other) => {
                let makespan_s = |of: &Self| of.report.schedule.makespan_s;
                makespan_s(self) < makespan_s(other) * (1.0 - share)
            }
            _ => self.own_s() < other.own_s() * (1.0 - share),
        }
    }

    /// Whether both keep their busiest resources busy for equally long, where that is what counts.
    fn is_as_busy_as(&self, other: &Self) -> bool {
        let (busy_s, other_s) = (self.own_s(), other.own_s());
        self.objective == Objective::Overlap && (busy_s - other_s).abs() <= ROUNDING * other_s
    }

    /// Its own cost under the objective, seconds.
    pub(crate) fn own_s(&self) -> f64 {
        self.objective_s(&self.report)
    }

    /// The cost of a plan under the objective, seconds.
    pub(crate) fn objective_s(&self, report: &Report) -> f64 {
        objective_s(report, self.objective)
    }
}

/// Relative differences below this are rounding.
const ROUNDING: f64 = 1e-9;

/// The cost of a plan under an objective, seconds.
pub(crate) fn objective_s(report: &Report, objective: Objective) -> f64 {
    match objective {
        Objective::Serial => report.serial_s,
        Objective::Comm => report.comm_s,
        Objective::Overlap => report.overlap_s,
        Objective::Scheduled => report.schedule.makespan_s,
    }
}
