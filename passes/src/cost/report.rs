//! What a plan costs: every step, the total, the schedule, the memory.

use shardwise_ir::ids::AxisId;
use shardwise_ir::pipeline::TripCount;
use shardwise_ir::plan::{Plan, Step, StepKind};
use shardwise_ir::program::Program;

use crate::cost::collective::{
    CostModel, Refinement, collective_seconds, participating_axes, volume_side,
};
use crate::cost::liveness::{self, Memory};
use crate::cost::local;
use crate::cost::schedule::{self, PlanSchedule};
use crate::cost::send_recv::{self, Sent};
use crate::layouts::composite::ExpandedPlan;
use crate::layouts::local_shape;
use crate::solver::weight::Weight;

/// One step's price.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepCost {
    /// Seconds, each time.
    pub seconds: f64,
    /// How often a device does it: once a layer that it has of the block that it stands in, in a
    /// pipeline for each microbatch.
    pub times: f64,
    /// How often it is waited for: in a pipeline also while stages have nothing to do.
    pub including_bubble: f64,
    /// FLOPs of a device; 0 for collectives.
    pub flops: f64,
    /// The cost model's `V` for collectives (what a device holds, for AllToAll and Permute), the
    /// bytes touched for local operations.
    pub bytes: f64,
    /// The mesh axes whose links it uses.
    pub axes: Vec<AxisId>,
}

impl StepCost {
    /// Seconds, all times together.
    pub fn total_s(&self) -> f64 {
        self.times * self.seconds
    }

    /// Seconds, all times together, and those in which stages of a pipeline wait for their turn.
    pub(crate) fn waited_s(&self) -> f64 {
        self.including_bubble * self.seconds
    }

    /// Whether `step`, whose price this is, moves data between devices or between shardings, rather
    /// than computing.
    pub fn is_move(&self, step: &Step) -> bool {
        matches!(step.kind, StepKind::Collective(..)) || !self.axes.is_empty()
    }
}

/// A whole plan's price.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Step by step, in the plan's order.
    pub steps: Vec<StepCost>,
    /// The sum of all steps, seconds.
    pub serial_s: f64,
    /// The sum of all collectives, seconds.
    pub comm_s: f64,
    /// The sum of all local operations, seconds.
    pub compute_s: f64,
    /// How long a device has nothing to do while pipelines fill and drain, seconds: part of
    /// `serial_s`.
    pub bubble_s: f64,
    /// The busiest resource's total: a lower bound on any schedule, seconds.
    pub overlap_s: f64,
    /// Busy seconds of each mesh axis.
    pub axis_s: Vec<f64>,
    /// When everything is done, and which steps are critical.
    pub schedule: PlanSchedule,
    /// Bytes held.
    pub memory: Memory,
}

impl Report {
    /// Busy seconds of the busiest axis: the communication that nothing hides behind other
    /// communication.
    pub fn links_s(&self) -> f64 {
        self.axis_s.iter().copied().fold(0.0, f64::max)
    }

    /// The axis whose links are busier than everything else, the first among equals; `None` where
    /// compute is.
    pub fn busiest_axis(&self) -> Option<AxisId> {
        let links_s = self.links_s();
        let first = self.axis_s.iter().position(|&busy| busy >= links_s).map(AxisId::new);
        first.filter(|_| links_s > self.compute_s)
    }
}

/// Prices every step.
pub(crate) fn price_steps(plan: &Plan, refinement: Refinement) -> Vec<StepCost> {
    plan.steps.iter().map(|step| price_step(plan, step, refinement)).collect()
}

/// What the steps of a plan count together on `terms`, a second of compute `compute`.
pub fn weight(plan: &ExpandedPlan<'_>, compute: f64, cost_model: &CostModel) -> Weight {
    let steps = price_steps(plan, cost_model.refinement);
    let price = |(step, cost): (&Step, &StepCost)| {
        let times = cost_model.turns(turns(&plan.program, step), compute);
        match &step.kind {
            StepKind::Local(_) if cost.is_move(step) => {
                moved(cost.seconds, &cost.axes, cost_model).times(times)
            }
            StepKind::Local(_) => Weight::seconds(compute * cost.seconds).times(times),
            StepKind::Collective(collective, _) => {
                cost_model.weight(&collective.kind, cost.seconds, &cost.axes).times(times)
            }
        }
    };
    plan.steps.iter().zip(&steps).map(price).sum()
}

/// What an operation counts that sends data itself.
pub(crate) fn moved(seconds: f64, axes: &[AxisId], cost_model: &CostModel) -> Weight {
    Weight::step(cost_model.weighted(seconds, axes))
}

/// Prices a plan step by step as it stands: a composite's step costs what it is written out as.
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

/// Prices a plan.
pub fn report(plan: &ExpandedPlan<'_>, refinement: Refinement) -> Report {
    let steps = price_steps(plan, refinement);
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
    let mut axis_s = vec![0.0; plan.program.mesh.axes.len()];
    for cost in &steps {
        for axis in &cost.axes {
            axis_s[axis.index()] += cost.total_s();
        }
    }
    let overlap_s = axis_s.iter().copied().fold(compute_s, f64::max);
    let serial_s = steps.iter().map(StepCost::waited_s).fold(0.0, |a, b| a + b);
    let bubble_s = steps
        .iter()
        .map(|cost| (cost.including_bubble - cost.times) * cost.seconds)
        .fold(0.0, |a, b| a + b);
    let schedule = schedule::schedule(plan, &steps, overlap_s..=serial_s);
    let memory = liveness::memory(plan);
    Report { steps, serial_s, comm_s, compute_s, bubble_s, overlap_s, axis_s, schedule, memory }
}

fn price_step(plan: &Plan, step: &Step, refinement: Refinement) -> StepCost {
    let program = &plan.program;
    let turns = turns(program, step);
    let (times, waited) = (turns.per_device as f64, turns.including_bubble as f64);
    if let Some(Sent { bytes, axes, seconds }) = send_recv::sent_by(plan, step) {
        return StepCost { seconds, times, including_bubble: waited, flops: 0.0, bytes, axes };
    }
    match &step.kind {
        StepKind::Local(op) => {
            let operands: Vec<_> = step.operands.iter().map(|operand| &operand.sharding).collect();
            let work = local::work(program, &program.ops[*op], &operands, &step.result.sharding);
            StepCost {
                seconds: work.seconds,
                times,
                including_bubble: waited,
                flops: work.flops,
                bytes: work.bytes,
                axes: Vec::new(),
            }
        }
        StepKind::Collective(collective, _) => {
            let (from, to) = (&step.operands[0].sharding, &step.result.sharding);
            let axes = participating_axes(&collective.kind, from, to);
            let bytes = local_shape::local_bytes(
                program,
                step.result.value,
                volume_side(&collective.kind, from, to),
            );
            let seconds =
                collective_seconds(&program.mesh, &collective.kind, &axes, bytes, refinement);
            StepCost { seconds, times, including_bubble: waited, flops: 0.0, bytes, axes }
        }
    }
}

/// How often a step is done.
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
