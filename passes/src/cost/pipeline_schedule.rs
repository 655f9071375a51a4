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
//! Clusters Using Megatron-LM* (2021), which also defines how `v` chunks of a stage interleave.

mod order;
mod simulate;

use shardwise_ir::pipeline::Schedule;

pub use order::{StageWork, order};
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

/// Seconds of one microbatch in one chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StageTimes {
    /// Forward.
    pub forward_s: f64,
    /// Backward.
    pub backward_s: f64,
    /// The send to the neighbour, forward.
    pub hop_s: f64,
    /// The send to the neighbour, backward.
    pub hop_back_s: f64,
}

impl PipelineShape {
    /// The bubble: the share of a stage's time in which it is idle while the pipeline fills and
    /// drains, `(Z-1)/(vM+Z-1)`.
    pub fn bubble(&self) -> f64 {
        let idle = self.stages as f64 - 1.0;
        idle / (self.chunks as f64 * self.microbatches as f64 + idle)
    }

    /// The largest number of in-flight microbatches on a stage; a fraction where it has several
    /// chunks.
    pub fn in_flight(&self, stage: u64) -> f64 {
        if self.trains { order::most_held(self, stage) as f64 / self.chunks as f64 } else { 1.0 }
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

    /// `(vM + Z-1)` times the time of a chunk: the closed formula.
    fn in_turn_s(&self, times: &StageTimes) -> f64 {
        let idle = self.stages as f64 - 1.0;
        let turns = self.chunks as f64 * self.microbatches as f64 + idle;
        turns * (times.forward_s + times.backward_s) + idle * (times.hop_s + times.hop_back_s)
    }
}

/// Microbatches that are simulated, and the least number of rounds of the stages.
const MOST_CARRIED_OUT: u64 = 512;
const FEWEST_ROUNDS: u64 = 4;

/// The limit of simulated tasks in each direction.
const MOST_PIECES: u64 = 1 << 21;
