//! Time and memory of the pipelines of a plan: applies [`crate::cost::pipeline_schedule`] to its
//! blocks.
//!
//! The time of a stage for a microbatch is the time that its layers add to the schedule of one
//! device, so collectives overlap compute inside a stage as elsewhere. With one block all devices
//! are charged as the busiest ones: those with the most layers, and those that keep the most for
//! gradients, which with equal stages is the first. Of several blocks each position has its own
//! times; which stage's memory counts is in [`crate::cost::liveness`]. `stage_report` has each
//! stage.

use indexmap::IndexSet;
use shardwise_ir::hardware::Wraparound;
use shardwise_ir::ids::{RepeatId, ValueId};
use shardwise_ir::pipeline::Stages;
use shardwise_ir::plan::{Plan, Step, StepKind};
use shardwise_ir::program::{Blocks, Op, Program};
use shardwise_ir::rates::Rates;
use shardwise_ir::unroll::is_loop_exit;

use crate::cost::pipeline_schedule::{PassTimes, PipelineShape, StageTimes};
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
        trains: program.trains(Some(forward)),
    })
}

/// The number of copies of a block's value on a device where it is kept for gradients: that of the
/// stage which has the most, by its layers and its microbatches in flight.
pub(crate) fn in_flight_copies(program: &Program, value: ValueId) -> f64 {
    let block = program.values[value].repeat;
    let waiting =
        block.filter(|_| program.has_batch(block, value)).and_then(|block| shape(program, block));
    let (Some(shape), Some(pipeline)) = (waiting, program.pipeline(block)) else {
        return program.layers_in_memory(block) as f64;
    };
    let stages = &pipeline.stages;
    let copies = |stage: u64| stages.held()[stage as usize] as f64 * shape.in_flight(stage);
    let inner = program.layers_per_staged(block) as f64;
    inner * stages.charged().map(copies).fold(0.0, f64::max)
}

/// The number of copies of a block's value on a device where all are kept: declared values and
/// outputs.
pub fn all_copies(program: &Program, value: ValueId) -> f64 {
    let block = program.values[value].repeat;
    let parts = program
        .pipeline(block)
        .filter(|_| program.has_batch(block, value))
        .map_or(1, |pipeline| pipeline.microbatches);
    program.layers_in_memory(block) as f64 * parts as f64
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

/// Whether a step of a stage runs once per step of the program, before or after all microbatches,
/// with nothing beside it. Reshards of parameters that are not kept gathered run for each
/// microbatch, and which are kept is not known before there is a plan: these count as not alone.
pub(crate) fn runs_alone(program: &Program, step: &Step) -> bool {
    match step.kind {
        StepKind::Local(op) => is_computed_alone(program, &program.ops[op]),
        StepKind::Collective(..) => is_resharded_alone(program, step.result.value),
    }
}

/// The same of an operation.
pub(crate) fn is_computed_alone(program: &Program, op: &Op) -> bool {
    program.pipeline(op.repeat).is_some() && !program.is_per_microbatch(op)
}

/// The same of every reshard of a value. Microbatches may run beside those at the ends of a step.
pub(crate) fn is_resharded_alone(program: &Program, value: ValueId) -> bool {
    let block = program.values[value].repeat;
    program.pipeline(block).is_some()
        && !program.has_batch(block, value)
        && !program.is_shared(value)
        && !hides_step_ends(program)
}

/// Whether the microbatches of a program hide what its steps of training do once
/// ([`crate::cost::step_ends`]).
pub(crate) fn hides_step_ends(program: &Program) -> bool {
    let hardware = &program.hardware;
    let is_measured = hardware.rates == Rates::Measured && hardware.is_training();
    let has_microbatches = || {
        let repeats = &program.repeats;
        repeats.indices().any(|block| {
            program.pipeline(Some(block)).is_some() || repeats.microbatches(Some(block)).is_some()
        })
    };
    is_measured && hardware.wraparound == Wraparound::Switched && has_microbatches()
}

/// Whether a step is in a pipeline.
pub(crate) fn is_staged(program: &Program, step: &Step) -> bool {
    program.pipeline(step.repeat).is_some()
}

/// A pipeline of a plan, with its times.
#[derive(Clone, Debug, PartialEq)]
pub struct Staged {
    /// Its forward block; that around all of them, where it has several.
    pub block: RepeatId,
    /// Its stages.
    pub shape: PipelineShape,
    /// The layers at each position.
    pub layers: Stages,
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
    let staged = |whole: RepeatId| {
        let shape = shape(program, whole)?;
        let layers = program.layers_of_pipeline(whole)?;
        let blocks = program.blocks_of_pipeline(whole);
        let timed = |&block: &RepeatId| BlockTimes::of(plan, costs, block, &layer_s);
        let timed: Vec<BlockTimes> = blocks.iter().filter_map(timed).collect();
        let times = match &timed[..] {
            [only] if !layers.is_uneven() => StageTimes {
                longest: only.longest,
                own: Vec::new(),
                hop_s: only.hop_s,
                hop_back_s: only.hop_back_s,
            },
            all => together(all, &between(plan, costs, whole, &blocks)),
        };
        let makespan_s = shape.makespan_s(&times);
        Some(Staged { block: whole, shape, layers, times, makespan_s })
    };
    program.pipelines().filter_map(staged).collect()
}

/// The times of one block of a pipeline.
struct BlockTimes {
    /// Those of the position at which it has the most layers.
    longest: PassTimes,
    /// For each position, its layers as a share of the most.
    shares: Vec<f64>,
    hop_s: f64,
    hop_back_s: f64,
}

impl BlockTimes {
    fn of(
        plan: &Plan,
        costs: &[StepCost],
        block: RepeatId,
        layer_s: &impl Fn(RepeatId, &[StepCost]) -> f64,
    ) -> Option<Self> {
        let program = &plan.program;
        let layers = program.pipeline(Some(block))?.stages.layers();
        let own = |step: &Step| {
            program.repeats.iterates_over(step.repeat, block) && by_microbatch(program, step)
        };
        let alone = only(plan, costs, |step| own(step) && !hops(program, step));
        let most = layers.iter().copied().max().unwrap_or(1) as f64;
        let both_s = most * layer_s(block, &alone);
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
        Some(Self {
            longest: PassTimes {
                forward_s: share * both_s,
                backward_s: (1.0 - share) * both_s,
                weights_s: (1.0 - share) * both_s * weights_s / backward_s.max(f64::MIN_POSITIVE),
            },
            shares: layers.iter().map(|&count| count as f64 / most).collect(),
            hop_s: of(here, &hop),
            hop_back_s: of(back, &hop),
        })
    }
}

/// The times of a pipeline of these blocks, and of what is between them at each position.
fn together(blocks: &[BlockTimes], between: &[PassTimes]) -> StageTimes {
    let positions = blocks.iter().map(|block| block.shares.len()).max().unwrap_or(0);
    let at = |position: usize| {
        let start = between.get(position).copied().unwrap_or_default();
        let own = blocks.iter().map(|block| block.longest.times(block.shares[position]));
        own.fold(start, PassTimes::and)
    };
    let own: Vec<PassTimes> = (0..positions).map(at).collect();
    let busier = |a: &&PassTimes, b: &&PassTimes| a.busy_s(true).total_cmp(&b.busy_s(true));
    let longest = own.iter().max_by(busier).copied().unwrap_or_default();
    let most = |of: fn(&BlockTimes) -> f64| blocks.iter().map(of).fold(0.0, f64::max);
    StageTimes {
        longest,
        own,
        hop_s: most(|block| block.hop_s),
        hop_back_s: most(|block| block.hop_back_s),
    }
}

/// What steps between the blocks of a pipeline take at each position: they run where the block
/// after them begins, or where the last one ends.
fn between(
    plan: &Plan,
    costs: &[StepCost],
    whole: RepeatId,
    blocks: &[RepeatId],
) -> Vec<PassTimes> {
    let program = &plan.program;
    let has_layers = |block: RepeatId| -> Vec<bool> {
        let layers = program.pipeline(Some(block)).map_or(&[][..], |of| of.stages.layers());
        layers.iter().map(|&count| count > 0).collect()
    };
    let mut times =
        vec![PassTimes::default(); blocks.first().map_or(0, |&of| has_layers(of).len())];
    let is_of_it = |step: &&Step| program.repeats.iterates_over(step.repeat, whole);
    let inner = |step: &Step| {
        let block = program.staged_block(step.repeat)?;
        blocks.iter().copied().find(|&one| program.repeats.forward_block(block) == one)
    };
    for (number, (step, cost)) in plan.steps.iter().zip(costs).enumerate() {
        if !is_of_it(&step) || inner(step).is_some() || !by_microbatch(program, step) {
            continue;
        }
        let goes_back = step.repeat != Some(whole);
        let (before, after) = plan.steps.split_at(number);
        let next = after.iter().filter(is_of_it).find_map(inner);
        let last = || before.iter().rev().filter(is_of_it).find_map(inner);
        let begins = next.is_some() != goes_back;
        let Some(block) = next.or_else(last) else { continue };
        let own = has_layers(block);
        let place =
            if begins { own.iter().position(|&has| has) } else { own.iter().rposition(|&has| has) };
        let Some(time) = place.and_then(|place| times.get_mut(place)) else { continue };
        let pass = if goes_back {
            PassTimes { backward_s: cost.seconds, ..PassTimes::default() }
        } else {
            PassTimes { forward_s: cost.seconds, ..PassTimes::default() }
        };
        *time = time.and(pass);
    }
    times
}

/// What the stages of pipelines do once per step, on the stage where it takes the longest.
pub fn once_s(plan: &Plan, costs: &[StepCost]) -> f64 {
    let program = &plan.program;
    let on = |whole: RepeatId, stage: u64| {
        let once = plan.steps.iter().zip(costs).filter(|(step, _)| {
            program.repeats.iterates_over(step.repeat, whole)
                && is_staged(program, step)
                && !by_microbatch(program, step)
        });
        let times = |step: &Step| {
            let held = program.pipeline(step.repeat).map_or(&[][..], |of| of.stages.held());
            let layers = held.get(stage as usize).copied().unwrap_or(0);
            (layers * program.layers_per_staged(step.repeat)) as f64
        };
        once.map(|(step, cost)| times(step) * cost.seconds).sum::<f64>()
    };
    let longest = |whole: RepeatId| {
        let stages = 0..program.stages(Some(whole));
        stages.map(|stage| on(whole, stage)).fold(0.0, f64::max)
    };
    program.pipelines().map(longest).sum()
}

/// The values of a reversed block from which the gradient for the previous stage is computed; all
/// others are for gradients of weights.
fn activation_gradients(plan: &Plan, back: RepeatId) -> IndexSet<ValueId> {
    let program = &plan.program;
    let carried = program.outputs.iter().filter(|output| program.carried_into(output).is_some());
    // What a head or another block that carries nothing gives back to the layers before it.
    let left = program.ops.iter().filter(|op| is_loop_exit(op)).map(|op| op.operands[0].value);
    let left = left.filter(|&value| program.has_batch(program.values[value].repeat, value));
    let mut needed: IndexSet<ValueId> = carried.map(|output| output.value).chain(left).collect();
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
