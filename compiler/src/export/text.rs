//! The plan as text: a program in the language, its costs in aligned comments, and a summary at the
//! end.
//!
//! All of it is computed from the plan alone, so that planning the text of a plan returns the same
//! text; how the plan was found is one line with a fingerprint of the plan, see
//! [`crate::planned::claim`].

use std::fmt::{self, Write as _};

use shardwise_ir::plan::{Plan, StepKind};
use shardwise_ir::print;
use shardwise_ir::unroll::is_region_boundary;
use shardwise_passes::report::{Report, StepCost};
use unicode_width::UnicodeWidthStr;

use crate::Planned;
use crate::display::units;
use crate::planned::step_name::links_in_words;

/// Longer statements do not move the column of the comments.
const COMMENT_COLUMN: usize = 48;

/// The complete plan: program, comments, summary.
pub(crate) fn plan(planned: &Planned) -> String {
    let plan = &planned.plan;
    let mut out = print::plan_header(plan);
    let lines = print::plan_body(plan);
    let column = lines
        .iter()
        .map(|(line, _)| line.width())
        .filter(|&width| width <= COMMENT_COLUMN)
        .max()
        .unwrap_or(0);
    for (line, number) in &lines {
        match number {
            Some(number) => {
                let comment = comment(plan, *number, &planned.report);
                let _ = writeln!(
                    out,
                    "{line}{}  # {comment}",
                    " ".repeat(column.saturating_sub(line.width()))
                );
            }
            None => out.extend([line, "\n"]),
        }
    }
    out.push_str(&print::plan_footer(plan));
    out.push('\n');
    if plan.program.ops.iter().any(|op| op.kernel.number.is_some()) {
        out.push_str("# lines with the same k run as one kernel\n");
    }
    for line in planned.summary(planned.metrics_line()) {
        let _ = writeln!(out, "# {line}");
    }
    out
}

fn comment(plan: &Plan, number: usize, report: &Report) -> String {
    let cost: &StepCost = &report.steps[number];
    let time = units::seconds(cost.seconds);
    let critical = report.schedule.critical[number];
    match &plan.steps[number].kind {
        StepKind::Local(op) if plan.program.is_stage_send(&plan.program.ops[*op]) => {
            let axes: Vec<&str> = plan.program.mesh.names(&cost.axes);
            format!(
                "{:>7} {time:>7}  {} to the next stage",
                units::bytes(cost.bytes),
                axes.join(" ")
            )
        }
        StepKind::Local(op) if is_region_boundary(&plan.program.ops[*op]) => {
            format!("{:>7} {:>7}  free", "", "")
        }
        _ if !cost.is_move(&plan.steps[number]) => format!("{:>7} {time:>7}  compute", ""),
        StepKind::Collective(collective, _) if collective.kind.is_free() => {
            format!("{:>7} {:>7}  free", "", "")
        }
        _ => {
            let links = links_in_words(&plan.program, cost, " ");
            let marks = [
                ("critical", critical),
                ("prefetchable", report.schedule.early[number]),
                ("chunked", cost.beside_product.seconds > 0.0),
            ];
            let marks = marks.iter().filter(|(_, is_so)| *is_so).map(|(mark, _)| *mark);
            let marks = marks.collect::<Vec<_>>().join(", ");
            let line = format!("{:>7} {time:>7}  {links} {marks}", units::bytes(cost.bytes));
            line.trim_end().to_owned()
        }
    }
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&plan(self))
    }
}
