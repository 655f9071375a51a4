//! The pipelines of a plan, and their stages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shardwise_passes::pipeline_stages::Staged;
use shardwise_passes::stage_report::StageReport;

use crate::Planned;
use crate::planned::stages::stage_reports;

/// A pipeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PipelineJson {
    /// The name of the layers.
    pub layers: String,
    /// The stage axis.
    pub axis: String,
    /// The number of stages.
    pub stages: u64,
    /// Layers per stage.
    pub layers_per_stage: u64,
    /// Chunks (runs of consecutive layers) per stage.
    pub chunks: u64,
    /// The dimension that is split into microbatches.
    pub batch: String,
    /// The number of microbatches.
    pub microbatches: u64,
    /// As programs write it: `gpipe`, `1f1b`, `zb-h1`, …
    pub schedule: String,
    /// The share of a stage's time in which it is idle.
    pub bubble: f64,
    /// For each stage, the largest number of microbatches in flight.
    pub in_flight: Vec<f64>,
    /// The makespan in seconds, collectives overlapping compute.
    pub makespan_s: f64,
    /// The stages one by one, where they have different numbers of layers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_stage: Vec<StageJson>,
}

/// A stage of a pipeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageJson {
    /// Its layers.
    pub layers: u64,
    /// The largest number of microbatches in flight.
    pub in_flight: f64,
    /// Seconds in which it computes.
    pub busy_s: f64,
    /// The peak of the memory of its devices, bytes.
    pub peak_bytes: u64,
}

/// The stages of a pipeline one by one, where they have different numbers of layers.
fn by_stage(planned: &Planned, staged: &Staged) -> Vec<StageJson> {
    let stages = stage_reports(planned, staged).into_iter();
    let one = |of: StageReport| StageJson {
        layers: of.layers,
        in_flight: of.in_flight,
        busy_s: of.busy_s,
        peak_bytes: of.memory.peak_bytes.round() as u64,
    };
    stages.map(one).collect()
}

/// The pipelines of a plan.
pub(super) fn of(planned: &Planned) -> Vec<PipelineJson> {
    let program = &planned.plan.program;
    let one = |staged: &Staged| {
        let (block, shape) = (Some(staged.block), &staged.shape);
        let pipeline = program.pipeline(block)?;
        Some(PipelineJson {
            layers: program.names_of_layers(staged.block),
            axis: program.mesh.axes[pipeline.axis].name.clone(),
            stages: shape.stages,
            layers_per_stage: staged.layers.most_held(),
            chunks: shape.chunks,
            batch: program.dims[pipeline.batch].name.clone(),
            microbatches: shape.microbatches,
            schedule: shape.schedule.name().to_owned(),
            bubble: shape.bubble(&staged.times),
            in_flight: (0..shape.stages).map(|stage| shape.in_flight(stage)).collect(),
            makespan_s: staged.makespan_s,
            by_stage: by_stage(planned, staged),
        })
    };
    planned.report.schedule.pipelines.iter().filter_map(one).collect()
}
