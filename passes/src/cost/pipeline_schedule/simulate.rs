//! Simulates a pipeline task by task.
//!
//! A microbatch passes through chunk 0 of all stages, then through chunk 1 of all, and backward in
//! reverse. A task starts when its stage has finished the previous task in the stage's order, and
//! when the result of the microbatch's previous task has arrived. Links work concurrently with the
//! stages: a send delays the receiver, and occupies no stage.

use super::{PipelineShape, StageTimes, StageWork, order};

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
    orders: Vec<Vec<StageWork>>,
    /// The number of tasks of its order that each stage has run.
    done: Vec<usize>,
    /// The time at which each stage is free.
    free_s: Vec<f64>,
    /// The end of each task: by position on the microbatch's path, then by microbatch.
    ended: Vec<Vec<Option<f64>>>,
    run: PipelineRun,
}

/// Runs the simulation.
pub fn simulate(shape: &PipelineShape, times: &StageTimes) -> PipelineRun {
    let orders: Vec<Vec<StageWork>> = (0..shape.stages).map(|stage| order(shape, stage)).collect();
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
        while let Some(&work) = self.orders[number].get(self.done[number]) {
            let Some(arrived_s) = self.arrived(stage, work) else { break };
            let start_s = self.free_s[number].max(arrived_s);
            let end_s =
                start_s + if work.backward { self.times.backward_s } else { self.times.forward_s };
            let place = self.place(stage, work) as usize;
            self.ended[place][work.microbatch as usize] = Some(end_s);
            self.free_s[number] = end_s;
            self.done[number] += 1;
            self.run.makespan_s = self.run.makespan_s.max(end_s);
            self.run.placed.push(Placed { stage, work, start_s, end_s });
        }
        self.done[number] > before
    }

    /// The position of a task on the path of its microbatch.
    fn place(&self, stage: u64, work: StageWork) -> u64 {
        let forward = work.chunk * self.shape.stages + stage;
        if work.backward {
            2 * self.shape.stages * self.shape.chunks - 1 - forward
        } else {
            forward
        }
    }

    /// The time at which the input of a task arrives; `None`: not yet known.
    fn arrived(&self, stage: u64, work: StageWork) -> Option<f64> {
        let Some(before) = self.place(stage, work).checked_sub(1) else { return Some(0.0) };
        let ended_s = self.ended[before as usize][work.microbatch as usize]?;
        let turning = before + 1 == self.shape.stages * self.shape.chunks;
        let stays = turning || self.shape.stages == 1;
        let hop_s = if work.backward { self.times.hop_back_s } else { self.times.hop_s };
        Some(ended_s + if stays { 0.0 } else { hop_s })
    }
}
