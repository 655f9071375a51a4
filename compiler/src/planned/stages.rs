//! The stages of a pipeline one by one, and their tasks over time, as many as can be drawn.

use shardwise_passes::pipeline_schedule::{Pass, PipelineRun, PipelineShape, simulate};
use shardwise_passes::pipeline_stages::Staged;
use shardwise_passes::stage_report::{self, StageReport};

use super::Planned;

/// The limits of drawn microbatches of a pipeline and of their tasks; a pipeline with more stages
/// is not drawn.
const MOST_DRAWN: u64 = 256;
const MOST_PIECES: u64 = 1 << 18;

/// What each stage has and does, with what the allocator holds; none where all have equally many
/// layers.
pub(crate) fn stage_reports(planned: &Planned, staged: &Staged) -> Vec<StageReport> {
    if staged.times.own.is_empty() {
        return Vec::new();
    }
    let share = planned.plan.program.hardware.allocator_share();
    let mut stages = stage_report::by_stage(&planned.plan, staged);
    for StageReport { memory, .. } in &mut stages {
        memory.peak_bytes += memory.allocator_bytes(share, planned.capacity_bytes);
    }
    stages
}

/// The tasks of the stages, from the beginning of the pipeline.
pub(crate) fn stage_tasks(staged: &Staged) -> PipelineRun {
    let few = PipelineShape { microbatches: drawn(&staged.shape), ..staged.shape };
    simulate(&few, &staged.times)
}

/// The number of microbatches drawn: complete rounds of the stages, or all of them.
fn drawn(shape: &PipelineShape) -> u64 {
    let within = MOST_PIECES / shape.stages.saturating_mul(shape.chunks).max(1) / shape.stages
        * shape.stages;
    shape.microbatches.min(MOST_DRAWN.next_multiple_of(shape.stages)).min(within)
}

/// A task in words.
pub(crate) fn pass_name(pass: Pass) -> &'static str {
    match pass {
        Pass::Forward => "forward",
        Pass::Backward => "backward",
        Pass::InputGradients => "gradients of activations",
        Pass::WeightGradients => "gradients of weights",
    }
}
