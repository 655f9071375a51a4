//! Simulates a pipeline task by task.
//!
//! A microbatch passes through chunk 0 of all stages, then through chunk 1 of all, and backward in
//! reverse. A task starts when its stage has finished the previous task in the stage's order, and
//! when the result of the microbatch's previous task has arrived. Links work concurrently with the
//! stages: a send delays the receiver, and occupies no stage.

use super::order::{self, Pass, Slot};
use super::{PipelineShape, StageTimes, StageWork};

/// A task with its start and end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placed {
    /// The stage.
    pub stage: u64,
    /// The task.
    pub work: StageWork,
    /// Start, seconds.
    pub start_s: f64,
    /// End, seconds.
    pub end_s: f64,
}

/// The simulated schedule of a pipeline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PipelineRun {
    /// All tasks, those of each stage in order.
    pub placed: Vec<Placed>,
    /// The end of the last task, seconds.
    pub makespan_s: f64,
}

struct PipelineSimulation<'s> {
    shape: &'s PipelineShape,
    times: &'s StageTimes,
    orders: Vec<Vec<Slot>>,
    /// The number of slots of its order that each stage has run.
    done: Vec<usize>,
    /// The time at which each stage is free.
    free_s: Vec<f64>,
    /// The end of each task: by position on the microbatch's path, then by microbatch.
    ended: Vec<Vec<Option<f64>>>,
    run: PipelineRun,
}

/// Runs the simulation.
pub fn simulate(shape: &PipelineShape, times: &StageTimes) -> PipelineRun {
    let orders: Vec<Vec<Slot>> =
        (0..shape.stages).map(|stage| order::order(shape, stage)).collect();
    let places = 2 * shape.stages * shape.chunks;
    let mut simulation = PipelineSimulation {
        shape,
        times,
        done: vec![0; orders.len()],
        free_s: vec![0.0; orders.len()],
        ended: vec![vec![None; shape.microbatches as usize]; places as usize],
        run: PipelineRun::default(),
        orders,
    };
    // A stage that advances may unblock others; the orders have no deadlock.
    while (0..shape.stages).any(|stage| simulation.advance(stage)) {}
    debug_assert!(
        simulation.done.iter().zip(&simulation.orders).all(|(done, order)| *done == order.len()),
        "{shape:?}"
    );
    simulation.run
}

impl PipelineSimulation<'_> {
    /// Runs the tasks of a stage whose inputs are known; returns whether there were any.
    fn advance(&mut self, stage: u64) -> bool {
        let number = stage as usize;
        let before = self.done[number];
        while let Some(&slot) = self.orders[number].get(self.done[number]) {
            let Some(start_s) = slot.works().try_fold(self.free_s[number], |so_far: f64, work| {
                Some(so_far.max(self.arrived(stage, work)?))
            }) else {
                break;
            };
            self.run(stage, slot, start_s);
            self.done[number] += 1;
        }
        self.done[number] > before
    }

    /// Runs the tasks of a slot one after the other; their results are complete at its end.
    fn run(&mut self, stage: u64, slot: Slot, start_s: f64) {
        let mut end_s = start_s;
        for work in slot.works() {
            let start_s = end_s;
            end_s += self.times.task_s(work.position(self.shape, stage), work.pass);
            self.run.placed.push(Placed { stage, work, start_s, end_s });
        }
        for work in slot.works() {
            if let Some(place) = self.place(stage, work) {
                self.ended[place as usize][work.microbatch as usize] = Some(end_s);
            }
        }
        self.free_s[stage as usize] = end_s;
        self.run.makespan_s = self.run.makespan_s.max(end_s);
    }

    /// The place of a task on the path of its microbatch, forward and back; none for gradients of
    /// weights, which nothing waits for.
    fn place(&self, stage: u64, work: StageWork) -> Option<u64> {
        let position = work.position(self.shape, stage);
        match work.pass {
            Pass::Forward => Some(position),
            Pass::Backward | Pass::InputGradients => {
                Some(2 * self.shape.stages * self.shape.chunks - 1 - position)
            }
            Pass::WeightGradients => None,
        }
    }

    /// The time at which the input of a task arrives; `None`: not yet known.
    fn arrived(&self, stage: u64, work: StageWork) -> Option<f64> {
        let Some(before) = self.place(stage, work).and_then(|place| place.checked_sub(1)) else {
            return Some(0.0);
        };
        let ended_s = self.ended[before as usize][work.microbatch as usize]?;
        let positions = self.shape.stages * self.shape.chunks;
        let position = if before < positions { before } else { 2 * positions - 1 - before };
        let stays = order::stage_of(self.shape, work.microbatch, position) == stage;
        let is_forward = work.pass == Pass::Forward;
        let hop_s = if is_forward { self.times.hop_s } else { self.times.hop_back_s };
        Some(ended_s + if stays { 0.0 } else { hop_s })
    }
}
