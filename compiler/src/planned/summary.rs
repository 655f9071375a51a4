//! The summary of a plan in a few lines: times, what bounds it, pipelines, links, collectives,
//! memory. It ends the text of a plan and the table of its costs.

use indexmap::IndexSet;
use shardwise_ir::functions::HostTransfer;
use shardwise_ir::ids::AxisId;
use shardwise_ir::plan::{Plan, Step, StepKind};
use shardwise_ir::program::{CollectiveKind, OpKind, Program};
use shardwise_passes::held::HeldKind;
use shardwise_passes::pipeline_stages::Staged;
use shardwise_passes::report::{Report, StepCost};
use shardwise_passes::stage_report::StageReport;
use strum::VariantArray;

use super::link_breakdown;
use super::stages::stage_reports;
use crate::Planned;
use crate::display::units::{self, counted};

/// Pipelines with more stages have no line for each.
const MOST_STAGE_LINES: u64 = 64;

/// The most opaque functions that are named.
const MOST_NAMES: usize = 3;

/// `serial 2.13 ms = compute 1.2 ms + comm 933 us`, and the bubble of pipelines where there is one.
pub(crate) fn sum_of_steps(serial_s: f64, [compute_s, comm_s, bubble_s]: [f64; 3]) -> String {
    let [serial, compute, comm, bubble] =
        [serial_s, compute_s, comm_s, bubble_s].map(units::seconds);
    let bubble = if bubble_s > 0.0 { format!(" + bubble {bubble}") } else { String::new() };
    format!("serial {serial} = compute {compute} + comm {comm}{bubble}")
}

impl Planned {
    /// The summary of a plan, in lines of at most 78 columns, with one of `metrics`.
    pub(crate) fn summary(&self, metrics: Option<String>) -> Vec<String> {
        let report = &self.report;
        let mut lines = vec![
            sum_of_steps(report.serial_s, [report.compute_s, report.comm_s, report.bubble_s]),
            format!(
                "scheduled {}, overlap at best {}; {}",
                units::seconds(report.schedule.makespan_s),
                units::seconds(report.overlap_s),
                bound_by(self)
            ),
        ];
        lines.extend(self.notes.iter().cloned());
        lines.extend(uncounted_line(&self.plan.program));
        lines.extend(self.expected_line());
        lines.extend(metrics);
        lines.extend(report.schedule.pipelines.iter().flat_map(|of| pipeline_lines(self, of)));
        lines.extend(self.parallelism().iter().map(ToString::to_string));
        lines.extend(axis_line(&self.plan.program, report));
        lines.extend(link_breakdown::lines(self));
        lines.extend(collective_lines(&self.plan, report));
        lines.push(memory_line(self));
        lines.extend(held_lines(report));
        lines.extend(self.found_line());
        lines
    }
}

/// The functions whose FLOPs are not known, and so are in no time above.
fn uncounted_line(program: &Program) -> Option<String> {
    let names: IndexSet<String> = program
        .ops
        .iter()
        .filter_map(|op| match &op.kind {
            OpKind::Opaque(opaque) => Some(format!("`{}`", opaque.name)),
            _ => None,
        })
        .collect();
    let more = names.len().saturating_sub(MOST_NAMES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let shown: Vec<String> = names.into_iter().take(MOST_NAMES).collect();
    (!shown.is_empty()).then(|| format!("without the FLOPs of {}{more}", shown.join(", ")))
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
    if staged.shape.stages <= MOST_STAGE_LINES {
        let stages = stage_reports(planned, staged);
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
        stage_sizes(staged),
        counted(shape.microbatches, "microbatch"),
        shape.schedule.name(),
        100.0 * shape.bubble(&staged.times)
    )
}

/// `10 layers`, or `7 to 8 layers`.
fn stage_sizes(staged: &Staged) -> String {
    let held = staged.layers.held();
    match (held.iter().min(), held.iter().max()) {
        (Some(fewest), Some(most)) if fewest < most => format!("{fewest} to {most} layers"),
        (_, most) => most.map_or(String::new(), |most| counted(*most, "layer")),
    }
}

fn axis_line(program: &Program, report: &Report) -> Option<String> {
    let busy = program.mesh.ids().zip(&report.axis_s).filter(|(_, busy)| **busy > 0.0);
    let time = |(axis, busy): (AxisId, &f64)| {
        format!("{} {}", program.mesh.link_name(axis), units::seconds(*busy))
    };
    let to_host = Some(report.host_s).filter(|&busy| busy > 0.0);
    let to_host = to_host.map(|busy| format!("host {}", units::seconds(busy)));
    let parts: Vec<String> = busy.map(time).chain(to_host).collect();
    (!parts.is_empty()).then(|| format!("links: {}", parts.join(", ")))
}

fn collective_lines(plan: &Plan, report: &Report) -> Vec<String> {
    let steps = || plan.steps.iter().zip(&report.steps);
    let of_kinds = CollectiveKind::ALL.iter().filter(|kind| !kind.is_free()).filter_map(|kind| {
        let costs = steps().filter(|(step, cost)| kind_of_move(step, cost) == Some(kind));
        moved_line(kind.name(), costs.map(|(_, cost)| cost).collect())
    });
    let of_host = HostTransfer::VARIANTS.iter().filter_map(|transfer| {
        let is_one = |step: &Step| match step.kind {
            StepKind::Local(op) => plan.program.ops[op].host_transfer() == Some(*transfer),
            StepKind::Collective(..) => false,
        };
        let costs = steps().filter(|(step, _)| is_one(step));
        moved_line(transfer.name(), costs.map(|(_, cost)| cost).collect())
    });
    of_kinds.chain(of_host).collect()
}

/// How often data moves in one way, its bytes and its time; `None` where it does not.
fn moved_line(name: &str, costs: Vec<&StepCost>) -> Option<String> {
    let bytes: f64 = costs.iter().map(|cost| cost.times * cost.bytes).sum();
    let seconds: f64 = costs.iter().map(|cost| cost.total_s()).sum();
    let count: f64 = costs.iter().map(|cost| cost.times).sum();
    let (bytes, seconds) = (units::bytes(bytes), units::seconds(seconds));
    (!costs.is_empty()).then(|| format!("{name:<13} x{count:<3} {bytes:>7} {seconds:>7}"))
}

/// The collective of a step, or the one that it is sent by: a roll from block to block is sent by a
/// Permute.
fn kind_of_move<'s>(step: &'s Step, cost: &StepCost) -> Option<&'s CollectiveKind> {
    match &step.kind {
        StepKind::Collective(collective, _) => Some(&collective.kind),
        StepKind::Local(_) => {
            (cost.is_move(step) && !cost.uses_host).then_some(&CollectiveKind::Permute)
        }
    }
}

fn memory_line(planned: &Planned) -> String {
    let memory = &planned.report.memory;
    let of = planned.capacity_bytes.map_or(String::new(), |capacity| {
        let share = 100.0 * memory.peak_bytes / capacity.max(1.0);
        format!(" of {} ({share:.1}%)", units::bytes(capacity))
    });
    let on_host = Some(memory.host_bytes).filter(|&bytes| bytes > 0.0);
    let on_host =
        on_host.map_or_else(String::new, |bytes| format!(", {} on the host", units::bytes(bytes)));
    format!(
        "memory: peak {}{of}, resident {}{on_host}",
        units::bytes(memory.peak_bytes),
        units::bytes(memory.resident_bytes)
    )
}

/// What is held at the peak, by kind, largest first.
pub(crate) fn held_kinds(report: &Report) -> Vec<String> {
    let kind =
        |&(kind, bytes): &(HeldKind, f64)| format!("{} {}", kind.name(), units::bytes(bytes));
    report.held.iter().map(kind).collect()
}

/// The same in lines of at most 78 columns.
fn held_lines(report: &Report) -> Vec<String> {
    let kinds = held_kinds(report);
    let (first, rest) = kinds.split_at(kinds.len().min(3));
    let line = |start: &str, kinds: &[String]| format!("{start}{}", kinds.join(", "));
    let lines = [("held there: ", first), ("            ", rest)];
    lines
        .iter()
        .filter(|(_, kinds)| !kinds.is_empty())
        .map(|(start, kinds)| line(start, kinds))
        .collect()
}
