//! The memory of a plan whose devices need different amounts: the stages of a pipeline of several
//! blocks.
//!
//! All other memory is computed for one stage, the one that the program's pipeline says
//! ([`charge_by_estimate`]): what a search demands of it is a lower bound for every plan. Whether a
//! plan fits is decided here, by all stages.

use shardwise_ir::ids::{RepeatId, ValueId};
use shardwise_ir::plan::Plan;
use shardwise_ir::program::{BlockKind, Blocks, Program, Value};
use shardwise_ir::sharding::Sharding;

use super::{Memory, of};
use crate::cost::pipeline_stages;
use crate::layouts::composite::ExpandedPlan;
use crate::layouts::local_shape;

/// The memory of a plan: of the devices that need the most.
pub fn memory(plan: &ExpandedPlan<'_>) -> Memory {
    let of_stage =
        |program: Program| of(&Plan { program, steps: plan.steps.clone() }, plan.dataflow());
    let stages = charged_by_stage(&plan.program).into_iter().map(of_stage);
    let most = stages.max_by(|a, b| a.peak_bytes.total_cmp(&b.peak_bytes));
    most.unwrap_or_else(|| memory_as_charged(plan))
}

/// The memory of a plan on the stage that its program says.
pub fn memory_as_charged(plan: &ExpandedPlan<'_>) -> Memory {
    of(plan, plan.dataflow())
}

/// Sets the stage whose memory is that of a plan to the one that needs the most.
pub fn charge_heaviest(plan: &mut Plan) {
    let bytes = |program: &Program| {
        let charged = Plan { program: program.clone(), steps: plan.steps.clone() };
        memory_as_charged(&charged.into()).peak_bytes
    };
    let stages = charged_by_stage(&plan.program);
    let most = stages.into_iter().max_by(|a, b| bytes(a).total_cmp(&bytes(b)));
    if let Some(program) = most {
        plan.program = program;
    }
}

/// Sets the stage whose memory is that of all plans of a program, where a pipeline has several
/// blocks: the one that would have the most if nothing were sharded, so that what a search demands
/// is that of devices which do need it.
pub fn charge_by_estimate(program: &mut Program) {
    for whole in of_several(program) {
        let weight = |stage: u64| estimated_bytes(program, whole, stage);
        let stages = 0..program.stages(Some(whole));
        let heaviest = stages.max_by(|&a, &b| weight(a).total_cmp(&weight(b)).then(b.cmp(&a)));
        charge(program, whole, heaviest);
    }
}

/// The pipelines of several blocks.
fn of_several(program: &Program) -> Vec<RepeatId> {
    let is_it = |block: &RepeatId| program.repeats[*block].kind == BlockKind::Pipeline;
    program.pipelines().filter(is_it).collect()
}

/// Sets the stage whose memory counts, in both directions.
fn charge(program: &mut Program, whole: RepeatId, stage: Option<u64>) {
    let blocks: Vec<RepeatId> = program
        .repeats
        .indices()
        .filter(|&block| program.repeats.iterates_over(Some(block), whole))
        .collect();
    for block in blocks {
        if let Some(pipeline) = &mut program.repeats[block].pipeline {
            pipeline.stages = pipeline.stages.clone().charged_as(stage);
        }
    }
}

/// The bytes of a stage's parameters, and of what it computes going forward for its microbatches in
/// flight, if nothing is sharded.
fn estimated_bytes(program: &Program, whole: RepeatId, stage: u64) -> f64 {
    let Some(shape) = pipeline_stages::shape(program, whole) else { return 0.0 };
    let in_flight = shape.in_flight(stage);
    let values = program.values.iter_enumerated();
    let inside = values.filter(|(_, value)| program.repeats.is_inside(value.repeat, whole));
    let bytes = |(id, value): (ValueId, &Value)| {
        let held = program
            .pipeline(value.repeat)
            .map_or(0, |pipeline| pipeline.stages.held()[stage as usize]);
        let copies = (held * program.layers_per_staged(value.repeat)) as f64;
        let times = if program.has_batch(value.repeat, id) { in_flight } else { 1.0 };
        let whole = Sharding::replicated(value.dims.len());
        copies * times * local_shape::local_bytes(program, id, &whole)
    };
    inside.map(bytes).sum()
}

/// For a program with a pipeline of several blocks, the same with the memory of each stage, in
/// turn; stages that have the same layers as one before them and as few microbatches are left out.
fn charged_by_stage(program: &Program) -> Vec<Program> {
    let Some(&whole) = of_several(program).first() else { return Vec::new() };
    let Some(shape) = pipeline_stages::shape(program, whole) else { return Vec::new() };
    let held = |stage: u64| -> Vec<u64> {
        let blocks = program.blocks_of_pipeline(whole).into_iter();
        let stages = blocks.filter_map(|block| program.pipeline(Some(block)));
        stages.map(|pipeline| pipeline.stages.held()[stage as usize]).collect()
    };
    let is_less = |stage: u64| {
        let mut before = 0..stage;
        before.any(|other| {
            held(other) == held(stage) && shape.in_flight(other) >= shape.in_flight(stage)
        })
    };
    let distinct = (0..shape.stages).filter(|&stage| !is_less(stage));
    let charged = |stage: u64| {
        let mut program = program.clone();
        charge(&mut program, whole, Some(stage));
        program
    };
    distinct.map(charged).collect()
}
