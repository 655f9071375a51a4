//! The schedule as a Chrome trace, which Perfetto and `chrome://tracing` open: one track for compute, one for the links of each mesh axis.

use serde_json::{Value, json};
use shardwise_ir::plan::StepKind;
use shardwise_ir::program::Blocks;

use crate::{Planned, text};

/// The process that all tracks belong to: one device, for all devices do the same.
const DEVICE: u32 = 0;

/// The JSON text: complete events (`ph: X`) with times in microseconds, and the tracks' names. A collective over several axes stands on each.
pub(crate) fn trace(planned: &Planned) -> String {
    let program = &planned.plan.program;
    let mut events = vec![named("process_name", 0, &planned.name), named("thread_name", 0, "compute")];
    events.extend(program.mesh.axes.iter().enumerate().map(|(axis, of)| named("thread_name", axis + 1, &format!("axis {}", of.name))));
    let schedule = &planned.report.schedule;
    for run in &schedule.runs {
        let (number, step) = (run.step, &planned.plan.steps[run.step]);
        let cost = &planned.report.steps[number];
        let tracks: Vec<usize> = match step.kind {
            StepKind::Local(_) => vec![0],
            StepKind::Collective(..) => cost.axes.iter().map(|axis| axis.index() + 1).collect(),
        };
        let repeats = &program.repeats;
        let layer = repeats.layer_block(step.repeat).map(|_| run.copy.layer);
        let microbatch = repeats.microbatches(step.repeat).map(|_| run.copy.microbatch);
        let arguments = json!({
            "bytes": cost.bytes, "flops": cost.flops, "layer": layer, "microbatch": microbatch, "critical": schedule.critical[number], "may_run_early": schedule.early[number],
        });
        events.extend(tracks.into_iter().map(|track| {
            json!({
                "name": text::step(&planned.plan, step), "ph": "X", "pid": DEVICE, "tid": track,
                "ts": run.start_s * 1e6, "dur": cost.seconds * 1e6, "args": arguments,
            })
        }));
    }
    let whole = json!({ "displayTimeUnit": "ns", "traceEvents": events });
    format!("{whole:#}\n")
}

fn named(what: &str, track: usize, name: &str) -> Value {
    json!({ "name": what, "ph": "M", "pid": DEVICE, "tid": track, "args": { "name": name } })
}
