//! Prices a plan: every step, the total, the schedule, the memory.

use shardwise_ir::ids::AxisId;
use shardwise_ir::pipeline::TripCount;
use shardwise_ir::plan::{Plan, Step, StepKind};
use shardwise_ir::program::Program;

use crate::cost::collective::{
    CostModel, Refinement, collective_seconds, participating_axes, volume,
};
use crate::cost::collective_matmul::{self, BesideProduct};
use crate::cost::contention;
use crate::cost::held::{self, HeldKind};
use crate::cost::kernel_reads::KernelReads;
use crate::cost::liveness::{self, Memory};
use crate::cost::local;
use crate::cost::pipeline_stages;
use crate::cost::schedule::{self, PlanSchedule};
use crate::cost::send_recv::{self, Sent};
use crate::cost::step_ends;
use crate::layouts::composite::ExpandedPlan;
use crate::layouts::local_shape;
use crate::solver::weight::Weight;

/// One step's price.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepCost {
    /// Seconds per execution.
    pub seconds: f64,
    /// How often a device runs it: once per layer of its block on the device, in a pipeline also
    /// per microbatch.
    pub times: f64,
    /// How often its time counts in the total: in a pipeline including the bubble.
    pub including_bubble: f64,
    /// How often its resources wait for it at least, whatever runs beside it: in some pipelines
    /// including the bubble.
    pub least_waits: f64,
    /// FLOPs of a device; 0 for collectives.
    pub flops: f64,
    /// FLOPs of a device that compute again what is not kept, beside them.
    pub recomputed_flops: f64,
    /// The cost model's `V` for collectives (a device's block, for AllToAll and Permute), the
    /// bytes touched for local operations.
    pub bytes: f64,
    /// The mesh axes that it runs along.
    pub axes: Vec<AxisId>,
    /// The axes whose links it uses: parts of an axis have the same ones ([`Mesh::links`]).
    ///
    /// [`Mesh::links`]: shardwise_ir::mesh::Mesh::links
    pub links: Vec<AxisId>,
    /// Whether it uses the link to the host.
    pub uses_host: bool,
    /// How far a collective runs beside the product that reads or produces its value.
    pub beside_product: BesideProduct,
}

impl StepCost {
    /// Seconds, all executions together.
    pub fn total_s(&self) -> f64 {
        self.times * self.seconds
    }

    /// Bytes, all executions together.
    pub fn total_bytes(&self) -> f64 {
        self.times * self.bytes
    }

    /// Seconds, all executions together, including the bubble of a pipeline.
    pub(crate) fn waited_s(&self) -> f64 {
        self.including_bubble * self.seconds
    }

    /// Seconds in which its resources run it or wait for it, whatever runs beside it.
    pub(crate) fn least_waited_s(&self) -> f64 {
        self.least_waits * self.seconds
    }

    /// Whether `step`, whose price this is, reshards or sends data rather than computing.
    pub fn is_move(&self, step: &Step) -> bool {
        matches!(step.kind, StepKind::Collective(..)) || !self.axes.is_empty() || self.uses_host
    }
}

/// The price of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Step by step, in the plan's order.
    pub steps: Vec<StepCost>,
    /// The sum of all steps, seconds; the schedule, where that of a pipeline is longer.
    pub serial_s: f64,
    /// The sum of all collectives, seconds.
    pub comm_s: f64,
    /// The sum of all local operations, seconds.
    pub compute_s: f64,
    /// The bubble: seconds in which a device is idle while pipelines fill and drain, part of
    /// `serial_s`.
    pub bubble_s: f64,
    /// The busiest resource's total: a lower bound on any schedule, seconds.
    pub overlap_s: f64,
    /// Busy seconds of each mesh axis.
    pub axis_s: Vec<f64>,
    /// Busy seconds of the link to the host.
    pub host_s: f64,
    /// The makespan, and which steps are critical.
    pub schedule: PlanSchedule,
    /// Resident bytes and the peak.
    pub memory: Memory,
    /// The bytes of each kind at the peak, largest first.
    pub held: Vec<(HeldKind, f64)>,
}

impl Report {
    /// Busy seconds of the busiest link: of an axis, or to the host.
    pub fn links_s(&self) -> f64 {
        self.axis_s.iter().copied().fold(self.host_s, f64::max)
    }

    /// Adds what the allocator holds beside the peak.
    pub fn add_allocator(&mut self, share: f64, capacity: Option<f64>) {
        let bytes = self.memory.allocator_bytes(share, capacity);
        if bytes > 0.0 {
            self.memory.peak_bytes += bytes;
            let place = self.held.partition_point(|&(_, other)| other >= bytes);
            self.held.insert(place, (HeldKind::Allocator, bytes));
        }
    }
}

/// Prices every step.
pub(crate) fn price_steps(plan: &Plan, refinement: Refinement) -> Vec<StepCost> {
    let mut reads = KernelReads::default();
    let price = |step: &Step| {
        let cost = price_step(plan, step, refinement);
        let (bytes, seconds) = reads.beyond(plan, step);
        StepCost { bytes: cost.bytes + bytes, seconds: cost.seconds + seconds, ..cost }
    };
    plan.steps.iter().map(price).collect()
}

/// The weighted sum of the steps of a plan under the cost model `terms`, with weight `compute` for
/// a second of compute.
pub fn weight(plan: &ExpandedPlan<'_>, compute: f64, cost_model: &CostModel) -> Weight {
    let steps = price_steps(plan, cost_model.refinement);
    let price = |(step, cost): (&Step, &StepCost)| {
        let turns = turns(&plan.program, step);
        let times = cost_model.turns(turns, compute);
        let runs_alone = pipeline_stages::runs_alone(&plan.program, step);
        let (priced, compute_weight) = cost_model.of_step(runs_alone, compute);
        match &step.kind {
            StepKind::Local(_) if cost.is_move(step) => {
                moved(cost.seconds, &cost.links, &priced).times(times)
            }
            StepKind::Local(_) => Weight::seconds(compute_weight * cost.seconds)
                .times(cost_model.turns_of_compute(turns, compute)),
            StepKind::Collective(collective, _) => {
                priced.weight(&collective.kind, cost.seconds, &cost.links).times(times)
            }
        }
    };
    plan.steps.iter().zip(&steps).map(price).sum()
}

/// The weighted price of an operation that sends data itself.
pub(crate) fn moved(seconds: f64, links: &[AxisId], cost_model: &CostModel) -> Weight {
    Weight::step(cost_model.weighted(seconds, links))
}

/// Prices a plan step by step, without expanding it: a composite costs as much as its expansion.
pub fn folded(plan: &Plan, refinement: Refinement) -> Report {
    let (expanded, from) = ExpandedPlan::with_origins(plan);
    let mut report = report(&expanded, refinement);
    let Some(from) = from else { return report };
    let mut steps: Vec<StepCost> = Vec::new();
    for (cost, &number) in report.steps.iter().zip(&from) {
        if steps.len() == number {
            steps.push(cost.clone());
        } else if let Some(whole) = steps.last_mut() {
            whole.seconds += cost.seconds;
            whole.flops += cost.flops;
            whole.recomputed_flops += cost.recomputed_flops;
            whole.bytes += cost.bytes;
        }
    }
    report.steps = steps;
    report.memory.peak_step = report.memory.peak_step.map(|step| from[step]);
    let PlanSchedule { runs, critical, early, .. } = &mut report.schedule;
    for run in runs.iter_mut() {
        run.step = from[run.step];
    }
    for marks in [critical, early] {
        let mut marked = vec![false; plan.steps.len()];
        from.iter().zip(&*marks).for_each(|(&step, &mark)| marked[step] |= mark);
        *marks = marked;
    }
    report
}

/// The sum of all steps of a plan, seconds.
pub fn serial_s(plan: &ExpandedPlan<'_>, refinement: Refinement) -> f64 {
    without_overlap(&price_steps(plan, refinement))
}

fn without_overlap(steps: &[StepCost]) -> f64 {
    steps.iter().map(StepCost::waited_s).fold(0.0, |a, b| a + b)
}

/// Prices a plan.
pub fn report(plan: &ExpandedPlan<'_>, refinement: Refinement) -> Report {
    let mut steps = price_steps(plan, refinement);
    collective_matmul::overlap(plan, &mut steps);
    let sum = |collective: bool| -> f64 {
        let wanted = |(step, cost): &(&Step, &StepCost)| cost.is_move(step) == collective;
        plan.steps
            .iter()
            .zip(&steps)
            .filter(wanted)
            .map(|(_, cost)| cost.total_s())
            .fold(0.0, |a, b| a + b)
    };
    let (comm_s, compute_s) = (sum(true), sum(false));
    let mut axis_s = resources_s(plan, &steps);
    let host_s = host_s(&steps);
    let overlap_s = axis_s.iter().copied().fold(host_s, f64::max);
    axis_s.remove(0);
    let sum_s = without_overlap(&steps);
    let waited_s = waited_s(plan, &steps).into_iter().fold(overlap_s, f64::max);
    let mut schedule = schedule::schedule(plan, &steps, waited_s..=sum_s);
    let beyond_s = beyond_sum_s(&schedule, sum_s);
    let (serial_s, bubble_s) = (sum_s + beyond_s, bubble_s(&steps) + beyond_s);
    let ends_s = step_ends::hidden_s(plan, &steps, schedule.makespan_s);
    schedule.makespan_s = (schedule.makespan_s - ends_s).max(overlap_s);
    // What is copied to the host takes no cores, and is taken to be hidden first.
    let moved_s = comm_s - host_s;
    let hidden_s = (serial_s - host_s - schedule.makespan_s).clamp(0.0, moved_s.max(0.0));
    schedule.makespan_s += contention::slowed_s(plan, &steps, hidden_s);
    let memory = liveness::memory(plan);
    let held = held::held(plan, &memory);
    Report {
        steps,
        serial_s,
        comm_s,
        compute_s,
        bubble_s,
        overlap_s,
        axis_s,
        host_s,
        schedule,
        memory,
        held,
    }
}

/// The bubble in the sum of steps, seconds.
fn bubble_s(steps: &[StepCost]) -> f64 {
    let waits = steps.iter().map(|cost| (cost.including_bubble - cost.times) * cost.seconds);
    waits.fold(0.0, |a, b| a + b)
}

/// What the simulated bubble of pipelines is longer than the formula in the sum of steps, so much
/// that not even overlapping collectives make up for it.
fn beyond_sum_s(schedule: &PlanSchedule, sum_s: f64) -> f64 {
    if schedule.pipelines.is_empty() { 0.0 } else { (schedule.makespan_s - sum_s).max(0.0) }
}

/// Busy seconds of compute, with the bubble of pipelines where no schedule avoids it, then of each
/// axis.
pub(crate) fn resources_s(plan: &Plan, steps: &[StepCost]) -> Vec<f64> {
    let mut busy = vec![0.0; 1 + plan.program.mesh.axes.len()];
    for (step, cost) in plan.steps.iter().zip(steps) {
        if cost.is_move(step) {
            cost.links.iter().for_each(|axis| busy[1 + axis.index()] += cost.total_s());
        } else {
            busy[0] += cost.least_waited_s();
        }
    }
    busy
}

/// Seconds for which a schedule at least runs or waits for the steps of a resource: of compute,
/// then of each axis. What stages do once per step has nothing beside it and counts for all.
pub(crate) fn waited_s(plan: &Plan, steps: &[StepCost]) -> Vec<f64> {
    let mut waited = vec![alone_s(plan, steps); 1 + plan.program.mesh.axes.len()];
    let runs_alone = |step: &Step| pipeline_stages::runs_alone(&plan.program, step);
    for (step, cost) in plan.steps.iter().zip(steps).filter(|(step, _)| !runs_alone(step)) {
        let seconds = cost.least_waited_s();
        if cost.is_move(step) {
            cost.links.iter().for_each(|axis| waited[1 + axis.index()] += seconds);
        } else {
            waited[0] += seconds;
        }
    }
    waited
}

/// Seconds of the steps that have nothing beside them.
pub(crate) fn alone_s(plan: &Plan, steps: &[StepCost]) -> f64 {
    let runs_alone = |step: &Step| pipeline_stages::runs_alone(&plan.program, step);
    let alone = plan.steps.iter().zip(steps).filter(|(step, _)| runs_alone(step));
    alone.map(|(_, cost)| cost.least_waited_s()).fold(0.0, |a, b| a + b)
}

/// Busy seconds of the link to the host.
pub(crate) fn host_s(steps: &[StepCost]) -> f64 {
    let of_host = steps.iter().filter(|cost| cost.uses_host);
    of_host.map(StepCost::total_s).fold(0.0, |a, b| a + b)
}

fn price_step(plan: &Plan, step: &Step, refinement: Refinement) -> StepCost {
    let program = &plan.program;
    let turns = turns(program, step);
    let (times, waited) = (turns.per_device as f64, turns.including_bubble as f64);
    if let Some(Sent { bytes, axes, uses_host, seconds }) = send_recv::sent_by(plan, step) {
        let least_waits = turns.waited as f64;
        let turns =
            StepCost { times, including_bubble: waited, least_waits, ..StepCost::default() };
        let links = program.mesh.links(&axes);
        return StepCost { seconds, bytes, axes, links, uses_host, ..turns };
    }
    match &step.kind {
        StepKind::Local(op) => {
            let operands: Vec<_> = step.operands.iter().map(|operand| &operand.sharding).collect();
            let work = local::work(program, &program.ops[*op], &operands, &step.result.sharding);
            StepCost {
                seconds: work.seconds,
                times,
                including_bubble: waited,
                least_waits: turns.waited as f64,
                flops: work.flops,
                recomputed_flops: work.recomputed_flops,
                bytes: work.bytes,
                ..StepCost::default()
            }
        }
        StepKind::Collective(collective, _) => {
            let (from, to) = (&step.operands[0].sharding, &step.result.sharding);
            let axes = participating_axes(&collective.kind, from, to);
            let is_uneven = program.values[step.result.value].filled.uneven.is_some();
            let bytes = volume(&collective.kind, from, to, is_uneven, |sharding| {
                local_shape::local_bytes(program, step.result.value, sharding)
            });
            let seconds = collective_seconds(program, &collective.kind, &axes, bytes, refinement);
            StepCost {
                seconds,
                times,
                including_bubble: waited,
                least_waits: turns.waited as f64,
                bytes,
                links: program.mesh.links(&axes),
                axes,
                ..StepCost::default()
            }
        }
    }
}

/// How often a step runs.
fn turns(program: &Program, step: &Step) -> TripCount {
    match &step.kind {
        StepKind::Local(op) => program.trip_count_of(&program.ops[*op]),
        StepKind::Collective(..) => program.reshard_trip_count(
            step.repeat,
            step.result.value,
            program.is_kept_gathered(step.repeat, &step.result),
        ),
    }
}
