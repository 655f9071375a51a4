//! The best form of a program: its sums and products grouped in another way ([`crate::grouping`]),
//! its mesh with an axis in parts ([`crate::split_axes`]).
//!
//! Which forms are tried follows from what is at stake in a plan, so the plans of two objectives
//! may have different forms, and that of one may be better at the other. Objectives other than the
//! sum of steps therefore try the form that the plan of that sum has as well: it is the one that
//! tries most forms, and the one that people compare with. To try every form under every objective
//! would take several times as long.

use shardwise_ir::dataflow::Analyzed;
use shardwise_passes::{Goal, Objective};

use crate::grouping;
use crate::options::{AxisParts, Grouping, Options};
use crate::planned::{NoPlan, Origin, Planned};
use crate::split_axes::{self, ROUNDING};

/// The best plan of all forms that options leave open. `program` reads the program, and `plan`
/// plans it with other options; below a goal only while there is time.
pub(crate) fn best(
    options: &Options,
    program: impl Fn() -> Option<Analyzed>,
    plan: impl Fn(&Options, Option<Goal>) -> Result<Planned, NoPlan>,
) -> Result<Planned, NoPlan> {
    let of = |options: &Options| {
        let written = plan(options, None)?;
        Ok(split_axes::best(grouping::best(written, &program, &plan), &plan))
    };
    let best: Planned = of(options)?;
    let is_open = options.parts == AxisParts::CalledFor || options.grouping == Grouping::Cheapest;
    let is_searched = matches!(best.origin, Origin::Searched(..));
    if best.objective == Objective::Serial || !is_open || !is_searched || options.is_due() {
        return Ok(best);
    }
    let Ok(of_sum) = of(&Options { objective: Objective::Serial, ..options.clone() }) else {
        return Ok(best);
    };
    let Options { parts, grouping, .. } = of_sum.options;
    if parts == best.options.parts && grouping == best.options.grouping {
        return Ok(best);
    }
    let form = Options { parts, grouping, ..options.clone() };
    // The textbook's plan stays that of the program as written.
    let textbook = (best.textbook.clone(), best.rules_fail);
    let of_form = plan(&form, best.goal(None, 0.0));
    let mut best = split_axes::better(of_form, best, ROUNDING);
    (best.textbook, best.rules_fail) = textbook;
    Ok(best)
}
