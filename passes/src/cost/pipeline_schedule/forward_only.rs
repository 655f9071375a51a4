//! The order of tasks on each stage where there are no gradients: inference, or the forward part
//! of a step by itself.
//!
//! A schedule then only decides where layers are, and which way microbatches pass them: `gpipe`,
//! `1f1b` and `zb-h1` run the same tasks in the same order. Where microbatches enter at both ends,
//! or turn around at the last stage, each stage has two *lanes*: the directions, or the chunks of
//! the V. It runs them in turns, each task in the turn in which it arrives if all take equally
//! long. A lane has a task every second turn, and the lanes of a stage begin an odd number of turns
//! apart, so that no two arrive together, and nothing waits but for the stages to fill and drain.
//!
//! Alternatives: an error, since these schedules gain nothing without gradients; but a model whose
//! layers were placed for training is asked about its forward part, and a program without its
//! `backward` is read as one with it. One microbatch through both lanes before the next one makes
//! all stages wait for each other: it is the order of one device.

use super::PipelineShape;
use super::order::{self, Pass, StageWork};

/// The tasks of a stage, in order.
pub(super) fn order(shape: &PipelineShape, stage: u64) -> Vec<StageWork> {
    if !shape.schedule.is_v() && !shape.schedule.is_bidirectional() {
        return order::forward_rounds(shape).collect();
    }
    let mut tasks: Vec<(u64, StageWork)> =
        (0..2).flat_map(|lane| own(shape, stage, lane)).collect();
    tasks.sort_unstable_by_key(|&(turn, _)| turn);
    tasks.into_iter().map(|(_, work)| work).collect()
}

/// The tasks of a lane, each with the turn in which it arrives.
fn own(shape: &PipelineShape, stage: u64, lane: u64) -> impl Iterator<Item = (u64, StageWork)> {
    let from_end = shape.stages - 1 - stage;
    let pass = Pass::Forward;
    let first_half = shape.microbatches.div_ceil(2);
    let (begin, chunk, microbatches) = match (shape.schedule.is_v(), lane) {
        (true, 0) => (stage, 0, 0..shape.microbatches),
        (true, _) => (shape.stages + from_end, 1, 0..shape.microbatches),
        (false, 0) => (stage, 0, 0..first_half),
        (false, _) => (from_end, 0, first_half..shape.microbatches),
    };
    let turns = (0..).map(move |number| begin + 2 * number);
    turns.zip(microbatches.map(move |microbatch| StageWork { microbatch, chunk, pass }))
}
