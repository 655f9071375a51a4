//! Time and memory of the pipelines of a plan: applies [`crate::cost::pipeline_schedule`] to its
//! blocks.
//!
//! The time of a stage for a microbatch is the time that its layers add to the schedule of one
//! device, so collectives overlap compute inside a stage as elsewhere. All devices are charged as
//! the busiest ones: those with the most layers, and those that keep the most for gradients, which
//! with equal stages is the first. `stage_report` has each stage.

use indexmap::IndexSet;
use shardwise_ir::ids::{RepeatId, ValueId};
use shardwise_ir::plan::{Plan, Step, StepKind};
use shardwise_ir::program::{Blocks, Program};

use crate::cost::pipeline_schedule::{PipelineShape, StageTimes};
use crate::cost::report::StepCost;

/// The block that iterates over the layers of `block` in reverse.
pub fn reverse(program: &Program, block: RepeatId) -> Option<RepeatId> {
    program
        .repeats
        .iter_enumerated()
        .find(|(_, repeat)| repeat.reversed == Some(block))
        .map(|(back, _)| back)
}

/// The pipeline of a block, if it is in one; that of the forward block, for a reversed one.
pub fn shape(program: &Program, block: RepeatId) -> Option<PipelineShape> {
    let forward = program.repeats.forward_block(program.staged_block(Some(block))?);
    let pipeline = program.pipeline(Some(forward))?;
    Some(PipelineShape {
        stages: program.stages(Some(forward)),
        microbatches: pipeline.microbatches,
        chunks: pipeline.chunks,
        schedule: pipeline.schedule,
        trains: reverse(program, forward).is_some(),
    })
}

/// The number of copies of a block's value on a device where it is kept for gradients: that of the
/// stage which has the most, by its layers and its microbatches in flight.
pub(crate) fn in_flight_copies(program: &Program, value: ValueId) -> f64 {
    let block = program.values[value].repeat;
    let waiting =
        block.filter(|_| program.has_batch(block, value)).and_then(|block| shape(program, block));
    let (Some(shape), Some(pipeline)) = (waiting, program.pipeline(block)) else {
        return program.layers_per_device(block) as f64;
    };
    let stages = &pipeline.stages;
    let copies = |stage: u64| stages.held()[stage as usize] as f64 * shape.in_flight(stage);
    let inner = program.layers_per_staged(block) as f64;
    inner * stages.looked_at().map(copies).fold(0.0, f64::max)
}

/// The number of copies of a block's value on a device where all are kept: declared values and
/// outputs.
pub fn all_copies(program: &Program, value: ValueId) -> f64 {
    let block = program.values[value].repeat;
    let parts = program
        .pipeline(block)
        .filter(|_| program.has_batch(block, value))
        .map_or(1, |pipeline| pipeline.microbatches);
    program.layers_per_device(block) as f64 * parts as f64
}

/// Whether a step runs for each microbatch of its block.
pub fn by_microbatch(program: &Program, step: &Step) -> bool {
    match &step.kind {
        StepKind::Local(op) => program.is_per_microbatch(&program.ops[*op]),
        StepKind::Collective(..) => {
            let made_again = program.is_shared(step.result.value)
                && !program.is_kept_gathered(step.repeat, &step.result);
            made_again || program.has_batch(step.repeat, step.result.value)
        }
    }
}

/// Whether a step is in a pipeline.
pub(crate) fn is_staged(program: &Program, step: &Step) -> bool {
    program.pipeline(step.repeat).is_some()
}

/// A pipeline of a plan, with its times.
#[derive(Clone, Debug, PartialEq)]
pub struct Staged {
    /// Its forward block.
    pub block: RepeatId,
    /// Its stages.
    pub shape: PipelineShape,
    /// Seconds of a microbatch in a chunk.
    pub times: StageTimes,
    /// The makespan, seconds.
    pub makespan_s: f64,
}

/// The pipelines of a plan whose steps cost `costs`. `layer_s` computes the time that a further
/// layer of a block adds to a schedule.
pub fn pipelines(
    plan: &Plan,
    costs: &[StepCost],
    layer_s: impl Fn(RepeatId, &[StepCost]) -> f64,
) -> Vec<Staged> {
    let program = &plan.program;
    let staged = |block: RepeatId| {
        let is_forward = program.repeats[block].reversed.is_none();
        let is_its = is_forward && program.repeats[block].pipeline.is_some();
        let shape = shape(program, block).filter(|_| is_its)?;
        let own = |step: &Step| {
            program.repeats.iterates_over(step.repeat, block) && by_microbatch(program, step)
        };
        let alone = only(plan, costs, |step| own(step) && !hops(program, step));
        let layers = program.pipeline(Some(block))?.stages.layers();
        let longest = layers.iter().copied().max().unwrap_or(1) as f64;
        let both_s = longest * layer_s(block, &alone);
        let of = |at: Option<RepeatId>, wanted: &dyn Fn(&Step) -> bool| {
            let steps = plan
                .steps
                .iter()
                .zip(costs)
                .filter(|(step, _)| at.is_some() && program.staged_block(step.repeat) == at)
                .filter(|(step, _)| own(step) && wanted(step));
            let inner = |step: &Step| program.layers_per_staged(step.repeat) as f64;
            steps.map(|(step, cost)| inner(step) * cost.seconds).sum::<f64>()
        };
        let (hop, stays) = (|step: &Step| hops(program, step), |step: &Step| !hops(program, step));
        let (back, here) = (reverse(program, block), Some(block));
        let (forward_s, backward_s) = (of(here, &stays), of(back, &stays));
        let share = forward_s / (forward_s + backward_s).max(f64::MIN_POSITIVE);
        let sent = back.map(|back| activation_gradients(plan, back)).unwrap_or_default();
        let weights_s = of(back, &|step| stays(step) && !sent.contains(&step.result.value));
        let is_uneven = program.pipeline(Some(block))?.stages.is_uneven();
        let times = StageTimes {
            forward_s: share * both_s,
            backward_s: (1.0 - share) * both_s,
            weights_s: (1.0 - share) * both_s * weights_s / backward_s.max(f64::MIN_POSITIVE),
            hop_s: of(here, &hop),
            hop_back_s: of(back, &hop),
            shares: layers
                .iter()
                .filter(|_| is_uneven)
                .map(|&count| count as f64 / longest)
                .collect(),
        };
        let makespan_s = shape.makespan_s(&times);
        Some(Staged { block, shape, times, makespan_s })
    };
    program.repeats.indices().filter_map(staged).collect()
}

/// The values of a reversed block from which the gradient for the previous stage is computed; all
/// others are for gradients of weights.
fn activation_gradients(plan: &Plan, back: RepeatId) -> IndexSet<ValueId> {
    let program = &plan.program;
    let sent = program.outputs.iter().filter(|output| program.carried_into(output).is_some());
    let mut needed: IndexSet<ValueId> = sent.map(|output| output.value).collect();
    let inside = |step: &&Step| program.staged_block(step.repeat) == Some(back);
    for step in plan.steps.iter().rev().filter(inside) {
        if needed.contains(&step.result.value) {
            needed.extend(step.operands.iter().map(|operand| operand.value));
        }
    }
    needed
}

/// The costs of the steps that `counts`; the others take no time.
pub fn only(plan: &Plan, costs: &[StepCost], counts: impl Fn(&Step) -> bool) -> Vec<StepCost> {
    let quiet = |cost: &StepCost| StepCost { seconds: 0.0, ..cost.clone() };
    plan.steps
        .iter()
        .zip(costs)
        .map(|(step, cost)| if counts(step) { cost.clone() } else { quiet(cost) })
        .collect()
}

/// Whether a step sends from stage to stage.
pub fn hops(program: &Program, step: &Step) -> bool {
    matches!(step.kind, StepKind::Local(op) if program.is_stage_send(&program.ops[op]))
}
