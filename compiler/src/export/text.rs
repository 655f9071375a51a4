//! The plan as text: a program in the language, its costs in aligned comments, and a summary at the
//! end.
//!
//! All of it is computed from the plan alone, so that planning the text of a plan returns the same
//! text; how the plan was found is one line with a fingerprint of the plan, see
//! [`crate::planned::claim`].

use std::fmt::{self, Write as _};

use shardwise_ir::plan::{Plan, Step, StepKind};
use shardwise_ir::print;
use shardwise_ir::program::{CollectiveKind, Program};
use shardwise_ir::unroll::is_region_boundary;
use shardwise_passes::pipeline_stages::Staged;
use shardwise_passes::report::{Report, StepCost};
use shardwise_passes::stage_report::{self, StageReport};
use unicode_width::UnicodeWidthStr;

use crate::Planned;
use crate::display::units::{self, counted};
use crate::planned::link_breakdown;

/// Pipelines with more stages have no line for each.
const MOST_STAGE_LINES: u64 = 64;

/// Longer statements do not move the column of the comments.
const COMMENT_COLUMN: usize = 48;

/// One step as the plan prints it, without padding and comment.
pub(crate) fn step(plan: &Plan, step: &Step) -> String {
    print::step(&plan.program, step)
}

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
    for line in summary(planned, planned.metrics_line()) {
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
            let axes: Vec<&str> =
                cost.axes.iter().map(|&axis| plan.program.mesh.axes[axis].name.as_str()).collect();
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
        StepKind::Collective(collective, _) if collective.kind == CollectiveKind::Slice => {
            format!("{:>7} {:>7}  free", "", "")
        }
        _ => {
            let axes: Vec<&str> =
                cost.axes.iter().map(|&axis| plan.program.mesh.axes[axis].name.as_str()).collect();
            let mark = match (critical, report.schedule.early[number]) {
                (true, false) => " critical",
                (true, true) => " critical, prefetchable",
                (false, true) => " prefetchable",
                (false, false) => "",
            };
            format!("{:>7} {time:>7}  {}{mark}", units::bytes(cost.bytes), axes.join(" "))
        }
    }
}

/// The summary of a plan, in lines of at most 78 columns, with one of `metrics`.
pub(crate) fn summary(planned: &Planned, metrics: Option<String>) -> Vec<String> {
    let report = &planned.report;
    let mut lines = vec![
        format!(
            "serial {} = compute {} + comm {}{}",
            units::seconds(report.serial_s),
            units::seconds(report.compute_s),
            units::seconds(report.comm_s),
            if report.bubble_s > 0.0 {
                format!(" + bubble {}", units::seconds(report.bubble_s))
            } else {
                String::new()
            }
        ),
        format!(
            "scheduled {}, overlap at best {}; {}",
            units::seconds(report.schedule.makespan_s),
            units::seconds(report.overlap_s),
            bound_by(planned)
        ),
    ];
    lines.extend(planned.expected_line());
    lines.extend(metrics);
    lines.extend(report.schedule.pipelines.iter().flat_map(|of| pipeline_lines(planned, of)));
    lines.extend(planned.parallelism().iter().map(ToString::to_string));
    lines.extend(axis_line(&planned.plan.program, report));
    lines.extend(link_breakdown::lines(planned));
    lines.extend(collective_lines(&planned.plan, report));
    lines.push(memory_line(planned));
    lines.extend(held_lines(report));
    lines.extend(planned.found_line());
    lines
}

fn bound_by(planned: &Planned) -> String {
    if planned.report.serial_s == 0.0 {
        return "nothing to do".to_owned();
    }
    format!("bound by {}", planned.bound_by())
}

/// `pipeline Z: 4 stages of 10 layers, 8 microbatches, 1f1b, bubble 27.3%`; and where stages have
/// different numbers of layers a line for each.
fn pipeline_lines(planned: &Planned, staged: &Staged) -> Vec<String> {
    let mut lines = vec![pipeline_line(&planned.plan.program, staged)];
    if !staged.times.shares.is_empty() && staged.shape.stages <= MOST_STAGE_LINES {
        let stages = stage_report::by_stage(&planned.plan, staged);
        lines.extend(stages.iter().enumerate().map(|(stage, of)| {
            let StageReport { layers, in_flight, busy_s, memory } = of;
            let held = if staged.shape.trains {
                format!(", {in_flight} in flight")
            } else {
                String::new()
            };
            format!(
                "  stage {stage}: {}{held}, busy {}, peak {}",
                counted(*layers, "layer"),
                units::seconds(*busy_s),
                units::bytes(memory.peak_bytes)
            )
        }));
    }
    lines
}

fn pipeline_line(program: &Program, staged: &Staged) -> String {
    let (block, shape) = (Some(staged.block), &staged.shape);
    let axis = program
        .pipeline(block)
        .map_or("", |pipeline| program.mesh.axes[pipeline.axis].name.as_str());
    let chunks =
        if shape.chunks == 1 { String::new() } else { format!(" in {} chunks", shape.chunks) };
    let held =
        if shape.trains { format!(", {} in flight", shape.in_flight(0)) } else { String::new() };
    format!(
        "pipeline {axis}: {} of {}{chunks}, {}{held}, {}, bubble {:.1}%",
        counted(shape.stages, "stage"),
        stage_sizes(program, staged),
        counted(shape.microbatches, "microbatch"),
        shape.schedule.name(),
        100.0 * shape.bubble(&staged.times)
    )
}

/// `10 layers`, or `7 to 8 layers`.
fn stage_sizes(program: &Program, staged: &Staged) -> String {
    let held = program.pipeline(Some(staged.block)).map_or(&[][..], |of| of.stages.held());
    match (held.iter().min(), held.iter().max()) {
        (Some(fewest), Some(most)) if fewest < most => format!("{fewest} to {most} layers"),
        (_, most) => most.map_or(String::new(), |most| counted(*most, "layer")),
    }
}

fn axis_line(program: &Program, report: &Report) -> Option<String> {
    let busy = program.mesh.axes.iter().zip(&report.axis_s).filter(|(_, busy)| **busy > 0.0);
    let parts: Vec<String> =
        busy.map(|(axis, busy)| format!("{} {}", axis.name, units::seconds(*busy))).collect();
    (!parts.is_empty()).then(|| format!("links: {}", parts.join(", ")))
}

fn collective_lines(plan: &Plan, report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    for kind in CollectiveKind::ALL.iter().filter(|kind| **kind != CollectiveKind::Slice) {
        let of_kind = |step: &&(&Step, &StepCost)| {
            kind_of_move(step.0, step.1).is_some_and(|moved| moved == kind)
        };
        let steps: Vec<(&Step, &StepCost)> = plan.steps.iter().zip(&report.steps).collect();
        let costs: Vec<&StepCost> = steps.iter().filter(of_kind).map(|(_, cost)| *cost).collect();
        if costs.is_empty() {
            continue;
        }
        let bytes: f64 = costs.iter().map(|cost| cost.times * cost.bytes).sum();
        let seconds: f64 = costs.iter().map(|cost| cost.total_s()).sum();
        let count: f64 = costs.iter().map(|cost| cost.times).sum();
        lines.push(format!(
            "{:<13} x{count:<3} {:>7} {:>7}",
            kind.name(),
            units::bytes(bytes),
            units::seconds(seconds)
        ));
    }
    lines
}

/// The collective of a step, or the one that it is sent by: a roll from block to block is sent by a
/// Permute.
fn kind_of_move<'s>(step: &'s Step, cost: &StepCost) -> Option<&'s CollectiveKind> {
    match &step.kind {
        StepKind::Collective(collective, _) => Some(&collective.kind),
        StepKind::Local(_) => cost.is_move(step).then_some(&CollectiveKind::Permute),
    }
}

fn memory_line(planned: &Planned) -> String {
    let memory = &planned.report.memory;
    let of = planned.capacity_bytes.map_or(String::new(), |capacity| {
        let share = 100.0 * memory.peak_bytes / capacity.max(1.0);
        format!(" of {} ({share:.1}%)", units::bytes(capacity))
    });
    format!(
        "memory: peak {}{of}, resident {}",
        units::bytes(memory.peak_bytes),
        units::bytes(memory.resident_bytes)
    )
}

/// What is held at the peak, by kind, in lines of at most 78 columns.
fn held_lines(report: &Report) -> Vec<String> {
    let kinds =
        report.held.iter().map(|&(kind, bytes)| format!("{} {}", kind.name(), units::bytes(bytes)));
    let kinds: Vec<String> = kinds.collect();
    let (first, rest) = kinds.split_at(kinds.len().min(3));
    let line = |start: &str, kinds: &[String]| format!("{start}{}", kinds.join(", "));
    let lines = [("held there: ", first), ("            ", rest)];
    lines
        .iter()
        .filter(|(_, kinds)| !kinds.is_empty())
        .map(|(start, kinds)| line(start, kinds))
        .collect()
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&plan(self))
    }
}
