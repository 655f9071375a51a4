//! Groups sums and products as is cheapest: `(Q *D K) *S V` becomes `Q *D (K *S V)` where that is
//! less work, or communicates less.
//!
//! A program is planned as it is written first. Then the other groupings of each site
//! ([`shardwise_passes::regroup`]) are planned, those with the shortest estimated time first, if
//! enough of the plan's time is at stake: the share of the site's own time that the estimate says
//! is saved, and all collectives on its values. In longer programs they are planned near the site
//! first ([`shardwise_passes::Rival`]). A grouping is taken if its plan is at least 2% cheaper.
//! What a plan claims of its optimality holds for the order that it has. The textbook's plan stays
//! that of the program as written.
//!
//! The results are the same numbers but for rounding, and the plan says what changed.

use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::ids::ValueId;
use shardwise_ir::plan::Step;
use shardwise_ir::program::Program;
use shardwise_ir::total;
use shardwise_passes::Goal;
use shardwise_passes::regroup::{self, Candidate, Site};
use shardwise_passes::report::StepCost;

use crate::options::{Grouping, Options};
use crate::planned::{NoPlan, Origin, Planned};
use crate::split_axes::LEAST_GAIN;

/// The most operations of a program that is planned again for other groupings.
const MOST_OPERATIONS: usize = 1000;

/// The operations of a program whose searches take milliseconds.
const FEW_OPERATIONS: usize = 100;

/// The operations of a program of which every site with enough at stake is tried, whatever the
/// estimate, which knows no shardings.
const VERY_FEW_OPERATIONS: usize = 20;

/// The share of its time that has to be at stake in a longer program.
const LEAST_SHARE: f64 = 0.1;

/// The most groupings of a site that are planned.
const MOST_OF_A_SITE: usize = 4;

/// The most groupings of a program that are planned.
const MOST_PLANS: usize = 12;

/// The best of `written` and of the plans with other groupings. `program` reads the program, and
/// `plan` plans it with other options, while there is time.
pub(crate) fn best(
    written: Planned,
    program: impl FnOnce() -> Option<Analyzed>,
    plan: impl Fn(&Options, Option<Goal>) -> Result<Planned, NoPlan>,
) -> Planned {
    let is_searched = matches!(written.origin, Origin::Searched(..));
    let is_open = written.options.grouping == Grouping::Cheapest;
    if !is_open || !is_searched || written.plan.program.ops.len() > MOST_OPERATIONS {
        return written;
    }
    let Some(program) = program() else { return written };
    let textbook = (written.textbook.clone(), written.rules_fail);
    let mut search = Search { plan, left: MOST_PLANS };
    let sites = regroup::sites(&program);
    let mut best = sites.iter().fold(written, |best, site| search.at(best, &program, site));
    (best.textbook, best.rules_fail) = textbook;
    best
}

/// The search for groupings.
struct Search<P> {
    plan: P,
    /// How many more may be planned.
    left: usize,
}

impl<P: Fn(&Options, Option<Goal>) -> Result<Planned, NoPlan>> Search<P> {
    /// The best of a plan, and of those with another grouping of a site.
    fn at(&mut self, planned: Planned, program: &Program, site: &Site) -> Planned {
        let candidates = worth_planning(&planned, program, site);
        let searches = if planned.is_beyond_the_search() { candidates.len() } else { 1 };
        let goal = goal(&planned, program, site).map(|goal| goal.of_several(searches));
        let mut best: Option<Planned> = None;
        for Candidate { regrouping, .. } in candidates {
            let mut all = planned.options.grouping.known().to_vec();
            all.push(regrouping);
            let grouping = Grouping::These(all);
            let Some(other) = self.planned(&planned.options, grouping, goal.clone()) else {
                continue;
            };
            let is_better = match &best {
                Some(best) => other.is_better_than(best, 0.0),
                None => other.is_better_than(&planned, LEAST_GAIN),
            };
            if is_better {
                best = Some(other);
            }
        }
        best.unwrap_or(planned)
    }

    fn planned(
        &mut self,
        options: &Options,
        grouping: Grouping,
        goal: Option<Goal>,
    ) -> Option<Planned> {
        self.left = self.left.checked_sub(1)?;
        (self.plan)(&Options { grouping, ..options.clone() }, goal).ok()
    }
}

/// The program with another grouping of one site, in every way, best estimate first.
pub(crate) fn all(planned: &Planned, program: &Program) -> Vec<Grouping> {
    if planned.options.grouping != Grouping::Cheapest {
        return Vec::new();
    }
    let sites = regroup::sites(program);
    let candidates = sites.iter().flat_map(|site| {
        site.candidates(program).into_iter().take(MOST_OF_A_SITE).collect::<Vec<_>>()
    });
    candidates.map(|Candidate { regrouping, .. }| Grouping::These(vec![regrouping])).collect()
}

/// The groupings of a site that may save enough of a plan's time, the most promising first.
fn worth_planning(planned: &Planned, program: &Program, site: &Site) -> Vec<Candidate> {
    let [compute_s, moves_s] = at_stake_s(planned, program, site);
    let count = planned.plan.program.ops.len();
    let least = if count <= FEW_OPERATIONS { LEAST_GAIN } else { LEAST_SHARE };
    let least_s = planned.report.serial_s * least;
    if compute_s + moves_s < least_s {
        return Vec::new();
    }
    let saves = |share: f64| compute_s * (1.0 - share) + moves_s;
    let candidates = site.candidates(program).into_iter();
    let is_tried = |of: &Candidate| count <= VERY_FEW_OPERATIONS || saves(of.share) >= least_s;
    candidates.filter(is_tried).take(MOST_OF_A_SITE).collect()
}

/// What a plan with another grouping of a site has to reach.
fn goal(planned: &Planned, program: &Program, site: &Site) -> Option<Goal> {
    let is_small = planned.plan.program.ops.len() <= VERY_FEW_OPERATIONS;
    let about = || names(program, site.values(program)[0].clone()).into_iter().collect();
    planned.goal((!is_small).then(about), LEAST_GAIN)
}

/// The names of values and of their gradients.
fn names(program: &Program, values: Vec<ValueId>) -> Vec<String> {
    let names = values.into_iter().map(|value| program.values[value].name.clone());
    names.flat_map(|name| [format!("d{name}"), name]).collect()
}

/// Seconds of the operations of a site and of its gradients, and of collectives on its values.
fn at_stake_s(planned: &Planned, program: &Program, site: &Site) -> [f64; 2] {
    let [results, operands] = site.values(program).map(|values| names(program, values));
    let name = |value: ValueId| &planned.plan.program.values[value].name;
    let of_site = |step: &Step| {
        let mut values = step.operands.iter().chain([&step.result]);
        values.any(|of| results.contains(name(of.value)))
    };
    let moved = |step: &Step| operands.contains(name(step.result.value)) || of_site(step);
    let steps = || planned.plan.steps.iter().zip(&planned.report.steps);
    let seconds = |which: &dyn Fn(&Step, &StepCost) -> bool| {
        total(steps().filter(|(step, cost)| which(step, cost)).map(|(_, cost)| cost.total_s()))
    };
    [
        seconds(&|step, cost| !cost.is_move(step) && of_site(step)),
        seconds(&|step, cost| cost.is_move(step) && moved(step)),
    ]
}
