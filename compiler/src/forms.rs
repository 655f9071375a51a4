//! The best form of a program: its sums and products grouped in another way ([`crate::grouping`]),
//! its mesh with an axis in parts ([`crate::split_axes`]).
//!
//! Which forms are tried follows from what is at stake in a plan, so the plans of two objectives
//! may have different forms, and that of one may be better at the other. Objectives other than the
//! sum of steps therefore try the form that the plan of that sum has as well: it is the one that
//! tries most forms, and the one that people compare with. To try every form under every objective
//! would take several times as long. The plan of that sum is a candidate itself: within memory no
//! search finds every plan.
//!
//! Where the program as written does not fit into memory, another form may: an axis in parts splits
//! what the whole axis cannot, and another grouping makes no large value. So the form that is best
//! without a limit is planned within it, then all others; none where the outputs alone, which all
//! forms share, are too large.

use shardwise_ir::codes;
use shardwise_ir::dataflow::Analyzed;
use shardwise_passes::{Goal, Objective, Optimality, least_at_the_end};

use crate::diagnostics::Findings;
use crate::grouping;
use crate::options::{AxisParts, Effort, Grouping, Options};
use crate::planned::{NoPlan, Origin, Planned};
use crate::split_axes::{self, ROUNDING};

/// The best plan of all forms that options leave open. `program` reads the program, and `plan`
/// plans it with other options; below a goal only while there is time.
pub(crate) fn best(
    options: &Options,
    program: impl Fn() -> Option<Analyzed>,
    plan: impl Fn(&Options, Option<Goal>) -> Result<Planned, NoPlan>,
) -> Result<Planned, NoPlan> {
    let improved = |form: Planned| split_axes::best(grouping::best(form, &program, &plan), &plan);
    let of = |options: &Options, written: Result<Planned, NoPlan>| match written {
        Err(NoPlan::Refused(refusal))
            if is_for_memory(&refusal)
                && !options.is_due()
                && !program().is_some_and(|program| are_outputs_too_large(&program, options)) =>
        {
            let without = Options { memory: Some(f64::INFINITY), ..options.clone() };
            let without = plan(&without, None).ok().filter(|_| is_open(options));
            let fits = without.and_then(|without| {
                let best = improved(without.clone()).options;
                let forms = [(best.parts, best.grouping)].into_iter();
                let forms = forms.chain(others(&without, program().as_ref()));
                that_fits(forms, options, &plan)
            });
            fits.map(&improved).ok_or(NoPlan::Refused(refusal))
        }
        written => written.map(&improved),
    };
    let has_own_forms = options.objective.is_sum();
    let best: Planned = match plan(options, None) {
        Ok(written) if !has_own_forms => written,
        written => of(options, written)?,
    };
    let is_searched = matches!(best.origin, Origin::Searched(..));
    if best.objective == Objective::Serial || !is_open(options) || !is_searched || options.is_due()
    {
        return Ok(best);
    }
    let sum = Options { objective: Objective::Serial, ..options.clone() };
    let Ok(of_sum) = of(&sum, plan(&sum, None)) else { return Ok(best) };
    let Options { parts, grouping, .. } = of_sum.options.clone();
    if parts == best.options.parts && grouping == best.options.grouping {
        return Ok(at_most_of_sum(best, of_sum));
    }
    let form = Options { parts, grouping, ..options.clone() };
    // The textbook's plan stays that of the program as written.
    let textbook = (best.textbook.clone(), best.rules_fail);
    // Of plans that are equal by the busiest resource, the schedules are compared.
    let are_equal_wanted = best.objective == Objective::Overlap;
    let goal = best.goal(None, 0.0).filter(|_| !are_equal_wanted);
    let of_form = plan(&form, goal);
    let mut best = at_most_of_sum(split_axes::better(of_form, best, ROUNDING), of_sum);
    (best.textbook, best.rules_fail) = textbook;
    Ok(best)
}

/// The best plan for an objective, or that of the sum where it is better.
fn at_most_of_sum(best: Planned, of_sum: Planned) -> Planned {
    let objective = best.objective;
    let mut of_sum = Planned { objective, ..of_sum };
    if !of_sum.is_better_than(&best, ROUNDING) {
        return best;
    }
    let seconds = of_sum.own_s();
    let lower_bound_s = best.lower_bound_s().min(seconds);
    let is_proven = lower_bound_s >= seconds * (1.0 - ROUNDING);
    if let Origin::Searched(found) = &mut of_sum.origin {
        found.alternatives.clear();
        found.optimality =
            if is_proven { Optimality::Optimal } else { Optimality::Bounded { lower_bound_s } };
    }
    of_sum
}

fn is_open(options: &Options) -> bool {
    options.parts == AxisParts::CalledFor || options.grouping == Grouping::Cheapest
}

fn is_for_memory(refusal: &Findings) -> bool {
    refusal.reports.iter().any(|report| report.diag.code == codes::budget::NO_ROOM)
}

fn are_outputs_too_large(program: &Analyzed, options: &Options) -> bool {
    options.capacity(program).is_some_and(|capacity| least_at_the_end(program) > capacity)
}

/// An axis in parts, or a grouping.
type Form = (AxisParts, Grouping);

/// The operations of a program of which more forms than the best one without a limit are tried.
const FEW_OPERATIONS: usize = 100;

/// The most of these, and of a quick search.
const MOST_OTHERS: usize = 12;
const FEW_OTHERS: usize = 3;

/// The forms in which one axis is in parts, or one site has another grouping.
fn others(written: &Planned, program: Option<&Analyzed>) -> Vec<Form> {
    if written.plan.program.ops.len() > FEW_OPERATIONS {
        return Vec::new();
    }
    let Options { parts, grouping, effort, .. } = &written.options;
    let most = if *effort == Effort::Quick { FEW_OTHERS } else { MOST_OTHERS };
    let in_parts = split_axes::all(written).into_iter().map(|parts| (parts, grouping.clone()));
    let grouped = program.map(|program| grouping::all(written, program)).unwrap_or_default();
    let grouped = grouped.into_iter().map(|grouping| (parts.clone(), grouping));
    grouped.chain(in_parts).take(most).collect()
}

/// The best plan of these forms, if one fits into memory.
fn that_fits(
    forms: impl Iterator<Item = Form>,
    options: &Options,
    plan: impl Fn(&Options, Option<Goal>) -> Result<Planned, NoPlan>,
) -> Option<Planned> {
    let mut best: Option<Planned> = None;
    for (parts, grouping) in forms {
        let form = Options { parts, grouping, ..options.clone() };
        let goal = best.as_ref().map_or(Some(Goal::any()), |best| best.goal(None, 0.0));
        best = match (best, plan(&form, goal)) {
            (Some(best), other) => Some(split_axes::better(other, best, 0.0)),
            (None, other) => other.ok(),
        };
    }
    best
}
