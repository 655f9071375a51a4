//! The schedule of a pipeline: which stage runs what and when, the makespan, and the microbatches
//! in flight.
//!
//! This module knows no programs: it computes a schedule from the times of a stage. The schedule is
//! simulated task by task, not computed by a formula: each task starts as soon as its stage is free
//! and its input has arrived. So `(Z-1)/(M+Z-1)` is a result, and times for which there is no
//! formula (gradients slower than the forward part, slow links) are correct, too.
//!
//! The order of tasks on a stage is fixed in advance (`order`): that of `gpipe`, and "one forward,
//! one backward" of Narayanan et al., *Efficient Large-Scale Language Model Training on GPU
//! Clusters Using Megatron-LM* (2021), which also defines how `v` chunks of a stage interleave;
//! [`zero_bubble`] and [`dual_pipe`] run gradients of weights apart from those of activations.
//! Without gradients all have the orders of [`forward_only`].

mod dual_pipe;
mod forward_only;
mod order;
mod simulate;
mod zero_bubble;

use shardwise_ir::stages::Schedule;

pub use order::{Pass, Slot, StageWork, order};
pub use simulate::{PipelineRun, Placed, simulate};

/// The shape of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipelineShape {
    /// `Z`.
    pub stages: u64,
    /// `M`.
    pub microbatches: u64,
    /// `v`: runs of layers a stage.
    pub chunks: u64,
    /// The order of tasks.
    pub schedule: Schedule,
    /// Whether gradients pass the stages in reverse.
    pub trains: bool,
}

/// Seconds of one microbatch in a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PassTimes {
    /// Forward.
    pub forward_s: f64,
    /// Backward.
    pub backward_s: f64,
    /// The part of `backward_s` that only gradients of weights take.
    pub weights_s: f64,
}

impl PassTimes {
    /// The seconds of a task.
    fn task_s(&self, pass: Pass) -> f64 {
        match pass {
            Pass::Forward => self.forward_s,
            Pass::Backward => self.backward_s,
            Pass::InputGradients => self.backward_s - self.weights_s,
            Pass::WeightGradients => self.weights_s,
        }
    }

    /// These, so many times.
    #[must_use]
    pub fn times(self, count: f64) -> Self {
        Self {
            forward_s: count * self.forward_s,
            backward_s: count * self.backward_s,
            weights_s: count * self.weights_s,
        }
    }

    /// Both, one after the other.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            forward_s: self.forward_s + other.forward_s,
            backward_s: self.backward_s + other.backward_s,
            weights_s: self.weights_s + other.weights_s,
        }
    }

    /// The seconds in which a stage computes; gradients only where it trains.
    pub fn busy_s(&self, trains: bool) -> f64 {
        self.forward_s + if trains { self.backward_s } else { 0.0 }
    }
}

/// Seconds of one microbatch in the chunks of a pipeline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StageTimes {
    /// Those of the chunk that takes the longest.
    pub longest: PassTimes,
    /// Those of the chunk at each position; empty where all take equally long.
    pub own: Vec<PassTimes>,
    /// The send to the neighbour, forward.
    pub hop_s: f64,
    /// The send to the neighbour, backward.
    pub hop_back_s: f64,
}

impl StageTimes {
    /// Those of the chunk at a position.
    pub fn at(&self, position: u64) -> PassTimes {
        self.own.get(position as usize).copied().unwrap_or(self.longest)
    }

    /// The seconds of a task.
    fn task_s(&self, position: u64, pass: Pass) -> f64 {
        self.at(position).task_s(pass)
    }
}

impl PipelineShape {
    /// The bubble: the share of a stage's time in which it is idle while the pipeline fills and
    /// drains. `(Z-1)/(vM+Z-1)` for `gpipe` and `1f1b` with equal stages; otherwise as simulated,
    /// without the time of sends, over all stages. What rounding makes of no bubble is none.
    pub fn bubble(&self, times: &StageTimes) -> f64 {
        let idle = self.stages as f64 - 1.0;
        let pieces = self.chunks as f64 * self.microbatches as f64;
        if !self.schedule.delays_weights() && times.own.is_empty() {
            return idle / (pieces + idle);
        }
        let alone = StageTimes { hop_s: 0.0, hop_back_s: 0.0, ..times.clone() };
        let makespan_s = self.makespan_s(&alone);
        let positions = 0..self.stages.saturating_mul(self.chunks);
        let path_s = match times.own[..] {
            [] => positions.end as f64 * alone.longest.busy_s(self.trains),
            _ => positions.map(|position| alone.at(position).busy_s(self.trains)).sum(),
        };
        let busy_s = self.microbatches as f64 * path_s;
        let all_s = self.stages as f64 * makespan_s;
        if busy_s < all_s { 1.0 - busy_s / all_s } else { 0.0 }
    }

    /// The largest number of in-flight microbatches on a stage; a fraction where each is in one of
    /// several chunks, or passes one of two copies of layers.
    pub fn in_flight(&self, stage: u64) -> f64 {
        let copies = if self.schedule.is_bidirectional() { 2 } else { self.chunks };
        if self.trains { order::most_held(self, stage) as f64 / copies as f64 } else { 1.0 }
    }

    /// The makespan, in seconds.
    ///
    /// A full pipeline is periodic, so that of very many microbatches only the first rounds are
    /// simulated and the rest are extrapolated. With more stages than are simulated, the closed
    /// formula for filling, running and draining is used.
    pub fn makespan_s(&self, times: &StageTimes) -> f64 {
        let round = self.stages.max(1);
        let rounds = (MOST_CARRIED_OUT / round).max(FEWEST_ROUNDS);
        let carried = self.microbatches.min((rounds + 1).saturating_mul(round));
        if self.chunks.saturating_mul(round).saturating_mul(carried) > MOST_PIECES {
            return self.in_turn_s(times);
        }
        if self.microbatches == carried {
            return simulate(self, times).makespan_s;
        }
        let with = |microbatches: u64| simulate(&Self { microbatches, ..*self }, times).makespan_s;
        let rest = self.microbatches % round;
        let (few, more) = (rounds / 2 * round + rest, rounds * round + rest);
        let (few_s, more_s) = (with(few), with(more));
        more_s + (more_s - few_s) / (more - few) as f64 * (self.microbatches - more) as f64
    }

    /// `(vM + Z-1)` times the time of a chunk: the closed formula, with the bubble of the schedule.
    fn in_turn_s(&self, times: &StageTimes) -> f64 {
        let thirds = self.schedule.bubble_thirds(self.stages, self.microbatches, self.trains);
        let idle = thirds as f64 / 3.0;
        let turns = self.chunks as f64 * self.microbatches as f64 + idle;
        turns * times.longest.busy_s(self.trains) + idle * (times.hop_s + times.hop_back_s)
    }
}

/// Microbatches that are simulated, and the least number of rounds of the stages.
const MOST_CARRIED_OUT: u64 = 512;
const FEWEST_ROUNDS: u64 = 4;

/// The limit of simulated tasks in each direction.
const MOST_PIECES: u64 = 1 << 21;
