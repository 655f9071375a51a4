//! The schedule of a pipeline: which stage runs what and when, the makespan, and the microbatches
//! in flight.
//!
//! Nothing here knows of programs: times of a stage go in, a schedule comes out. The schedule is
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

/// A pipeline without its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipelineShape {
    /// `Z`.
    pub stages: u64,
    /// `M`.
    pub microbatches: u64,
    /// `v`: runs of layers a stage.
    pub chunks: u64,
    /// Who goes first.
    pub schedule: Schedule,
    /// Whether gradients go back through the stages.
    pub trains: bool,
}

/// Seconds of one microbatch in one chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StageTimes {
    /// Going forward.
    pub forward_s: f64,
    /// Going back.
    pub backward_s: f64,
    /// On the way to the neighbour, going forward.
    pub hop_s: f64,
    /// On the way to the neighbour, going back.
    pub hop_back_s: f64,
}

impl PipelineShape {
    /// The share of a stage's time in which it has nothing to do while the pipeline fills and
    /// drains: `(Z-1)/(vM+Z-1)`.
    pub fn bubble(&self) -> f64 {
        let idle = self.stages as f64 - 1.0;
        idle / (self.chunks as f64 * self.microbatches as f64 + idle)
    }

    /// How many microbatches' values a stage holds at most for gradients that are still to come;
    /// parts, where it has several chunks.
    pub fn in_flight(&self, stage: u64) -> f64 {
        if self.trains { order::most_held(self, stage) as f64 / self.chunks as f64 } else { 1.0 }
    }

    /// When the last piece of work is done.
    ///
    /// A full pipeline repeats itself, so that of very many microbatches only the first rounds are
    /// carried out; the rest take as long as those. Of more stages than can be carried out, it is
    /// what fills, works and drains in turn.
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

    /// `(vM + Z-1)` turns of a chunk, the first and the last microbatch on their way through all
    /// stages.
    fn in_turn_s(&self, times: &StageTimes) -> f64 {
        let idle = self.stages as f64 - 1.0;
        let turns = self.chunks as f64 * self.microbatches as f64 + idle;
        turns * (times.forward_s + times.backward_s) + idle * (times.hop_s + times.hop_back_s)
    }
}

/// Microbatches of which every piece of work is placed, and how many rounds of the stages these are
/// at least.
const MOST_CARRIED_OUT: u64 = 512;
const FEWEST_ROUNDS: u64 = 4;

/// Pieces of work that are placed at most, each way.
const MOST_PIECES: u64 = 1 << 21;
