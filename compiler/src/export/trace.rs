//! The schedule as a Chrome trace, which Perfetto and `chrome://tracing` open: one track for
//! compute, one for the links of each mesh axis.
//!
//! For a pipeline these show the first layers of one stage and one microbatch; a separate process
//! has a track for each stage.

use serde_json::{Value, json};
use shardwise_ir::print;
use shardwise_ir::program::Blocks;
use shardwise_passes::pipeline_schedule::{Pass, StageWork};

use crate::Planned;
use crate::planned::stages::{pass_name, stage_tasks};
use crate::planned::step_name::{category, step_name};

/// The process of all tracks: one device, since all devices have the same schedule.
const DEVICE: u32 = 0;

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
    let to_host = program.mesh.axes.len() + 1;
    let uses_host = planned.report.host_s > 0.0;
    events.extend(uses_host.then(|| named("thread_name", DEVICE, to_host, "host")));
    let schedule = &planned.report.schedule;
    for run in &schedule.runs {
        let (number, step) = (run.step, &planned.plan.steps[run.step]);
        let cost = &planned.report.steps[number];
        let tracks: Vec<usize> = if cost.is_move(step) {
            let of_axes = cost.axes.iter().map(|axis| axis.index() + 1);
            of_axes.chain(cost.uses_host.then_some(to_host)).collect()
        } else {
            vec![0]
        };
        let category = category(step, cost);
        let repeats = &program.repeats;
        let layer = repeats.layer_block(step.repeat).map(|_| run.copy.layer);
        let microbatch = repeats.microbatches(step.repeat).map(|_| run.copy.microbatch);
        let arguments = json!({
            "step": print::step(program, step), "bytes": cost.bytes, "flops": cost.flops,
            "layer": layer, "microbatch": microbatch,
            "critical": schedule.critical[number], "may_run_early": schedule.early[number],
        });
        events.extend(tracks.into_iter().map(|track| {
            json!({
                "name": step_name(program, step), "cat": category,
                "ph": "X", "pid": DEVICE, "tid": track,
                "ts": run.start_s * 1e6, "dur": (run.end_s - run.start_s) * 1e6, "args": arguments,
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
        events.extend(stage_tasks(staged).placed.iter().map(|placed| {
            let StageWork { microbatch, chunk, pass } = placed.work;
            let backward = pass != Pass::Forward;
            json!({
                "name": format!("{} {microbatch}", pass_name(pass)), "cat": pass_name(pass),
                "ph": "X", "pid": process, "tid": placed.stage,
                "ts": placed.start_s * 1e6, "dur": (placed.end_s - placed.start_s) * 1e6,
                "args": { "microbatch": microbatch, "chunk": chunk, "backward": backward },
            })
        }));
    }
    events
}

fn named(what: &str, process: u32, track: usize, name: &str) -> Value {
    json!({ "name": what, "ph": "M", "pid": process, "tid": track, "args": { "name": name } })
}
