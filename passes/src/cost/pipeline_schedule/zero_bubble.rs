//! Zero-bubble schedules of Qi et al., *Zero Bubble Pipeline Parallelism* (2023): a stage fills the
//! time in which it would wait with gradients of weights, which no other stage waits for.
//!
//! ZB-H1 is `1f1b` in which stage `s` delays gradients of weights by `s` microbatches, so that
//! every stage keeps as many microbatches as the first stage of `1f1b`. ZB-V places two chunks in a
//! V: the first stage also has the last layers, and gradients begin where microbatches entered.
//! With equal times of its three kinds of tasks no stage waits between its first task and its last.
//!
//! Deriving the orders (whenever a stage is free it takes the first possible of gradients, forward,
//! gradients of weights) gives longer bubbles than these orders by hand.

use super::PipelineShape;
use super::order::{Pass, StageWork};

/// The largest number of tasks in flight on a stage.
pub(super) fn most_held(shape: &PipelineShape) -> u64 {
    shape.chunks.saturating_mul(shape.stages)
}

/// The tasks of a stage with ZB-H1.
pub(super) fn h1(shape: &PipelineShape, stage: u64) -> Vec<StageWork> {
    let mut tasks = Tasks::default();
    let count = shape.microbatches;
    for _ in 0..(shape.stages - 1 - stage).min(count) {
        tasks.push(0, Pass::Forward);
    }
    while tasks.done(0, Pass::InputGradients) < count {
        if tasks.done(0, Pass::Forward) < count {
            tasks.push(0, Pass::Forward);
        }
        tasks.push(0, Pass::InputGradients);
        if tasks.done(0, Pass::InputGradients) > stage {
            tasks.push(0, Pass::WeightGradients);
        }
    }
    tasks.finish(shape)
}

/// The tasks of a stage with ZB-V.
pub(super) fn v(shape: &PipelineShape, stage: u64) -> Vec<StageWork> {
    // Of fewer microbatches than the phases need, those that are not there are left out.
    let count = shape.microbatches.max(2 * shape.stages - 1);
    let ahead = shape.stages - stage;
    let mut tasks = Tasks::default();
    let all = |chunk| {
        [(chunk, Pass::Forward), (chunk, Pass::InputGradients), (chunk, Pass::WeightGradients)]
    };
    tasks.repeat(2 * ahead - 1, &[(0, Pass::Forward)]);
    tasks.repeat(stage, &[(1, Pass::Forward), (0, Pass::Forward)]);
    tasks.repeat(ahead, &all(1));
    while tasks.done(1, Pass::Forward) < count {
        let is_left = tasks.done(0, Pass::Forward) < count;
        tasks.repeat(1, &all(0)[usize::from(!is_left)..]);
        tasks.repeat(1, &all(1));
    }
    tasks.repeat(stage, &[(0, Pass::InputGradients), (1, Pass::InputGradients)]);
    tasks.repeat(ahead, &all(0)[1..]);
    tasks.order.retain(|work| work.microbatch < shape.microbatches);
    tasks.finish(shape)
}

/// The tasks of a stage while they are listed.
#[derive(Default)]
struct Tasks {
    order: Vec<StageWork>,
    /// By chunk: how often forward, gradients of activations and of weights are listed.
    done: [[u64; 3]; 2],
}

impl Tasks {
    fn done(&self, chunk: u64, pass: Pass) -> u64 {
        self.done[chunk as usize][kind(pass)]
    }

    /// Lists the next microbatch of a chunk.
    fn push(&mut self, chunk: u64, pass: Pass) {
        let done = &mut self.done[chunk as usize][kind(pass)];
        self.order.push(StageWork { microbatch: *done, chunk, pass });
        *done += 1;
    }

    fn repeat(&mut self, times: u64, tasks: &[(u64, Pass)]) {
        for _ in 0..times {
            for &(chunk, pass) in tasks {
                self.push(chunk, pass);
            }
        }
    }

    /// The order with the gradients of weights that are missing at its end.
    fn finish(mut self, shape: &PipelineShape) -> Vec<StageWork> {
        for chunk in (0..shape.chunks).rev() {
            while self.done(chunk, Pass::WeightGradients) < shape.microbatches {
                self.push(chunk, Pass::WeightGradients);
            }
        }
        self.order
    }
}

fn kind(pass: Pass) -> usize {
    match pass {
        Pass::Forward => 0,
        Pass::Backward | Pass::InputGradients => 1,
        Pass::WeightGradients => 2,
    }
}
