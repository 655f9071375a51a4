//! What each stage of a pipeline has and does, one by one: the rest of the report charges every
//! device as the busiest.

use shardwise_ir::pipeline::Stages;
use shardwise_ir::plan::Plan;

use crate::cost::liveness::{self, Memory};
use crate::cost::pipeline_stages::Staged;

/// What a stage has and does.
#[derive(Clone, Debug, PartialEq)]
pub struct StageReport {
    /// Its layers.
    pub layers: u64,
    /// The largest number of microbatches in flight.
    pub in_flight: f64,
    /// Seconds in which it computes.
    pub busy_s: f64,
    /// The memory of its devices.
    pub memory: Memory,
}

/// The stages of a pipeline, one by one.
pub fn by_stage(plan: &Plan, staged: &Staged) -> Vec<StageReport> {
    let (shape, times, layers) = (&staged.shape, &staged.times, &staged.layers);
    let report = |stage: u64| {
        let mut alone = plan.clone();
        for repeat in &mut alone.program.repeats {
            if let Some(pipeline) = &mut repeat.pipeline {
                pipeline.stages = pipeline.stages.clone().charged_as(Some(stage));
            }
        }
        let passed_s =
            positions_of(layers, stage).map(|position| times.at(position).busy_s(shape.trains));
        let copies = if shape.schedule.is_bidirectional() { 2.0 } else { 1.0 };
        StageReport {
            layers: layers.held()[stage as usize],
            in_flight: shape.in_flight(stage),
            busy_s: shape.microbatches as f64 * passed_s.sum::<f64>() / copies,
            memory: liveness::memory_as_charged(&alone.into()),
        }
    };
    (0..shape.stages).map(report).collect()
}

/// The positions whose layers a stage has: in both directions, where microbatches enter at both
/// ends.
fn positions_of(layers: &Stages, stage: u64) -> impl Iterator<Item = u64> {
    let stages = layers.held().len() as u64;
    let other = stages - 1 - stage;
    let both = layers.schedule().is_bidirectional();
    (0..layers.layers().len() as u64).flat_map(move |position| {
        let own = layers.stage_at(position) == stage;
        let mirrored = both && layers.stage_at(position) == other;
        std::iter::repeat_n(position, usize::from(own) + usize::from(mirrored))
    })
}
