//! The schedule as a Chrome trace, which Perfetto and `chrome://tracing` open: one track for
//! compute, one for the links of each mesh axis.
//!
//! For a pipeline these show the first layers of one stage and one microbatch; a separate process
//! has a track for each stage.

use serde_json::{Value, json};
use shardwise_ir::program::Blocks;
use shardwise_passes::pipeline_schedule::{Pass, PipelineShape, StageWork, simulate};

use crate::Planned;
use shardwise_ir::print;

/// The process of all tracks: one device, since all devices have the same schedule.
const DEVICE: u32 = 0;

/// The limits of drawn microbatches of a pipeline and of their tasks; a pipeline with more stages
/// is not drawn.
const MOST_DRAWN: u64 = 256;
const MOST_PIECES: u64 = 1 << 18;

/// The JSON text: complete events (`ph: X`) with times in microseconds, and the tracks' names. A
/// collective over several axes is on each of their tracks.
pub(crate) fn trace(planned: &Planned) -> String {
    let program = &planned.plan.program;
    let mut events = vec![
        named("process_name", DEVICE, 0, &planned.name),
        named("thread_name", DEVICE, 0, "compute"),
    ];
    events.extend(
        program
            .mesh
            .axes
            .iter()
            .enumerate()
            .map(|(axis, of)| named("thread_name", DEVICE, axis + 1, &format!("axis {}", of.name))),
    );
    let schedule = &planned.report.schedule;
    for run in &schedule.runs {
        let (number, step) = (run.step, &planned.plan.steps[run.step]);
        let cost = &planned.report.steps[number];
        let tracks: Vec<usize> = if cost.is_move(step) {
            cost.axes.iter().map(|axis| axis.index() + 1).collect()
        } else {
            vec![0]
        };
        let repeats = &program.repeats;
        let layer = repeats.layer_block(step.repeat).map(|_| run.copy.layer);
        let microbatch = repeats.microbatches(step.repeat).map(|_| run.copy.microbatch);
        let arguments = json!({
            "bytes": cost.bytes, "flops": cost.flops, "layer": layer, "microbatch": microbatch,
            "critical": schedule.critical[number], "may_run_early": schedule.early[number],
        });
        events.extend(tracks.into_iter().map(|track| {
            json!({
                "name": print::step(program, step), "ph": "X", "pid": DEVICE, "tid": track,
                "ts": run.start_s * 1e6, "dur": cost.seconds * 1e6, "args": arguments,
            })
        }));
    }
    events.extend(stages(planned));
    let whole = json!({ "displayTimeUnit": "ns", "traceEvents": events });
    format!("{whole:#}\n")
}

/// A process for each pipeline, with a track for each stage: its forward and backward tasks, from
/// the beginning of the pipeline.
fn stages(planned: &Planned) -> Vec<Value> {
    let program = &planned.plan.program;
    let mut events = Vec::new();
    for (process, staged) in (DEVICE + 1..).zip(&planned.report.schedule.pipelines) {
        let layers = &program.repeats[staged.block].name;
        let axis = program
            .pipeline(Some(staged.block))
            .map_or("", |pipeline| program.mesh.axes[pipeline.axis].name.as_str());
        events.push(named("process_name", process, 0, &format!("pipeline {axis}: {layers}")));
        events.extend((0..staged.shape.stages).map(|stage| {
            named("thread_name", process, stage as usize, &format!("stage {axis}={stage}"))
        }));
        let few = PipelineShape { microbatches: drawn(&staged.shape), ..staged.shape };
        events.extend(simulate(&few, &staged.times).placed.iter().map(|placed| {
            let StageWork { microbatch, chunk, pass } = placed.work;
            let backward = pass != Pass::Forward;
            let pass = match pass {
                Pass::Forward => "forward",
                Pass::Backward => "backward",
                Pass::InputGradients => "gradients of activations",
                Pass::WeightGradients => "gradients of weights",
            };
            json!({
                "name": format!("{pass} {microbatch}"),
                "ph": "X", "pid": process, "tid": placed.stage,
                "ts": placed.start_s * 1e6, "dur": (placed.end_s - placed.start_s) * 1e6,
                "args": { "microbatch": microbatch, "chunk": chunk, "backward": backward },
            })
        }));
    }
    events
}

/// The number of microbatches drawn: complete rounds of the stages, or all of them.
fn drawn(shape: &PipelineShape) -> u64 {
    let within = MOST_PIECES / shape.stages.saturating_mul(shape.chunks).max(1) / shape.stages
        * shape.stages;
    shape.microbatches.min(MOST_DRAWN.next_multiple_of(shape.stages)).min(within)
}

fn named(what: &str, process: u32, track: usize, name: &str) -> Value {
    json!({ "name": what, "ph": "M", "pid": process, "tid": track, "args": { "name": name } })
}
