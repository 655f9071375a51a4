//! `DualPipe`, the schedule of DeepSeek-V3 (2024): microbatches enter at both ends of the pipeline,
//! so that stages that would fill and drain late have work from the other end.
//!
//! A stage has two *lanes*. With `dualpipe` these are the two directions, each with its own copy of
//! layers; with `dualpipe-v` (the same cut in half) they are the two chunks of a V, which every
//! microbatch passes one after the other. The phases are those of the reference implementation
//! (`deepseek-ai/DualPipe`): forward in one lane, in both, gradients of activations against the
//! other lane's forward, then forward of one lane beside backward of the other, and back again.
//! What runs side by side takes the time of both, and both are complete at its end: that is the
//! `F&B` of the formula `(Z/2-1)(F&B+B-3W)`. Their layers are interleaved so that collectives of
//! one run during compute of the other; how much that hides is part of the stage's time.

use super::PipelineShape;
use super::order::{Pass, Slot, StageWork};

/// The largest number of tasks in flight on a stage.
pub(super) fn most_held(shape: &PipelineShape) -> u64 {
    half(shape) * 2 + 1
}

/// The stages between one end and the turning point.
fn half(shape: &PipelineShape) -> u64 {
    if shape.schedule.is_v() { shape.stages } else { shape.stages / 2 }
}

/// The tasks of a stage, in order.
pub(super) fn order(shape: &PipelineShape, stage: u64) -> Vec<Slot> {
    let stages = shape.stages;
    let is_second_half = !shape.schedule.is_v() && stage >= stages / 2;
    let place = if is_second_half { stages - 1 - stage } else { stage };
    let mut lanes = Lanes {
        shape,
        is_second_half,
        forward: [0; 2],
        backward: [0; 2],
        delayed: Vec::new(),
        written: 0,
        order: Vec::new(),
    };
    let per_lane = if shape.schedule.is_v() { shape.microbatches } else { shape.microbatches / 2 };
    lanes.list(half(shape), place, per_lane);
    lanes.order
}

/// The two lanes of a stage while their tasks are listed.
struct Lanes<'s> {
    shape: &'s PipelineShape,
    is_second_half: bool,
    /// By lane: the next microbatch.
    forward: [u64; 2],
    backward: [u64; 2],
    /// Gradients of weights that are delayed, and how many of them are listed.
    delayed: Vec<StageWork>,
    written: usize,
    order: Vec<Slot>,
}

impl Lanes<'_> {
    /// The phases of a stage `place` places from its end, of `half` that are this side of the
    /// turning point.
    fn list(&mut self, half: u64, place: u64, per_lane: u64) {
        let from_middle = half - 1 - place;
        (0..2 * from_middle).for_each(|_| self.forward(0));
        for _ in 0..=place {
            self.forward(0);
            self.forward(1);
        }
        for _ in 0..from_middle {
            self.backward(1, true);
            self.weights();
            self.forward(1);
        }
        for round in 0..=per_lane - 2 * half + place {
            if round == 0 && from_middle == 0 {
                self.forward(0);
                self.backward(1, false);
            } else {
                self.both(0, 1);
            }
            self.both(1, 0);
        }
        for _ in 0..from_middle {
            self.backward(1, false);
            self.both(1, 0);
        }
        self.drain(place);
        for _ in 0..from_middle {
            self.weights();
            self.backward(0, true);
        }
        (0..=place).for_each(|_| self.weights());
    }

    /// Backward in both lanes; from the middle of it on gradients of weights are delayed.
    fn drain(&mut self, place: u64) {
        let pairs = place + 1;
        let mut is_delayed = false;
        for pair in 0..pairs {
            is_delayed |= pair == pairs / 2 && place % 2 == 1;
            self.backward(1, is_delayed);
            is_delayed |= pair == pairs / 2 && place.is_multiple_of(2);
            self.backward(0, is_delayed);
        }
    }

    fn work(&self, lane: u64, number: u64, pass: Pass) -> StageWork {
        let lane = if self.is_second_half { 1 - lane } else { lane };
        if self.shape.schedule.is_v() {
            return StageWork { microbatch: number, chunk: lane, pass };
        }
        let first = lane * self.shape.microbatches.div_ceil(2);
        StageWork { microbatch: first + number, chunk: 0, pass }
    }

    /// Lists a task alone.
    fn push(&mut self, work: StageWork) {
        self.order.push(Slot { work, beside: None });
    }

    fn next_forward(&mut self, lane: u64) -> StageWork {
        let number = self.forward[lane as usize];
        self.forward[lane as usize] += 1;
        self.work(lane, number, Pass::Forward)
    }

    fn next_backward(&mut self, lane: u64, pass: Pass) -> StageWork {
        let number = self.backward[lane as usize];
        self.backward[lane as usize] += 1;
        self.work(lane, number, pass)
    }

    fn forward(&mut self, lane: u64) {
        let work = self.next_forward(lane);
        self.push(work);
    }

    fn backward(&mut self, lane: u64, is_delayed: bool) {
        let pass = if is_delayed { Pass::InputGradients } else { Pass::Backward };
        let work = self.next_backward(lane, pass);
        self.push(work);
        if is_delayed {
            self.delayed.push(StageWork { pass: Pass::WeightGradients, ..work });
        }
    }

    /// Forward of one lane beside backward of the other.
    fn both(&mut self, forward: u64, backward: u64) {
        let work = self.next_forward(forward);
        let beside = Some(self.next_backward(backward, Pass::Backward));
        self.order.push(Slot { work, beside });
    }

    /// The first gradients of weights that are delayed.
    fn weights(&mut self) {
        if let Some(&work) = self.delayed.get(self.written) {
            self.push(work);
        }
        self.written += 1;
    }
}
