//! What each stage of a pipeline has and does, one by one: the rest of the report charges every
//! device as the busiest.

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
    let Some(pipeline) = plan.program.pipeline(Some(staged.block)) else { return Vec::new() };
    let (shape, times, stages) = (&staged.shape, &staged.times, &pipeline.stages);
    let longest = stages.layers().iter().copied().max().unwrap_or(1) as f64;
    let passes_s = times.forward_s + if shape.trains { times.backward_s } else { 0.0 };
    let copies = if shape.schedule.is_bidirectional() { 2.0 } else { 1.0 };
    let report = |stage: u64| {
        let layers = stages.held()[stage as usize];
        let mut alone = plan.clone();
        for repeat in &mut alone.program.repeats {
            if let Some(pipeline) = &mut repeat.pipeline {
                pipeline.stages = pipeline.stages.clone().only(stage);
            }
        }
        let runs = shape.microbatches as f64 * layers as f64 / copies;
        StageReport {
            layers,
            in_flight: shape.in_flight(stage),
            busy_s: runs / longest * passes_s,
            memory: liveness::memory(&alone.into()),
        }
    };
    (0..shape.stages).map(report).collect()
}
