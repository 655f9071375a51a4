//! The order of tasks on each stage.
//!
//! A task is one microbatch in one chunk, forward or backward. With one chunk a stage runs its
//! microbatches in order. With `v` of them it runs a round of `Z` microbatches in its first chunk,
//! the same in its second, and so on, so that the first microbatch returns when the last of the
//! round has left; gradients pass through the chunks in reverse.
//!
//! "One forward, one backward": a stage runs forward until the first gradient could arrive, then
//! alternates between backward and forward. That is `Z-1-s` microbatches ahead for stage `s`; with
//! several chunks twice as many tasks, and `v-1` more rounds.

use shardwise_ir::stages::{self, Schedule};

use super::{PipelineShape, dual_pipe, forward_only, zero_bubble};

/// What a task computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pass {
    /// The layers.
    Forward,
    /// All gradients.
    Backward,
    /// The gradients of activations only, which the stage before waits for.
    InputGradients,
    /// The gradients of weights, which no stage waits for.
    WeightGradients,
}

/// One microbatch in one chunk of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StageWork {
    /// The microbatch.
    pub microbatch: u64,
    /// The chunk of the stage, counted from the front.
    pub chunk: u64,
    /// What it computes.
    pub pass: Pass,
}

impl StageWork {
    /// The position of its layers on the path of its microbatch.
    pub(super) fn position(&self, shape: &PipelineShape, stage: u64) -> u64 {
        let enters_at_end =
            shape.schedule.is_bidirectional() && self.microbatch >= shape.microbatches.div_ceil(2);
        let is_mirrored = enters_at_end || (shape.schedule.is_v() && self.chunk % 2 == 1);
        let place = if is_mirrored { shape.stages - 1 - stage } else { stage };
        self.chunk * shape.stages + place
    }
}

/// The stage on which a microbatch passes a position.
pub(super) fn stage_of(shape: &PipelineShape, microbatch: u64, position: u64) -> u64 {
    let stage = stages::stage_at(shape.schedule, shape.stages, position);
    let enters_at_end =
        shape.schedule.is_bidirectional() && microbatch >= shape.microbatches.div_ceil(2);
    if enters_at_end { shape.stages - 1 - stage } else { stage }
}

/// What a stage runs at once: a task, or one forward beside one backward, whose results are both
/// complete when both are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The task.
    pub work: StageWork,
    /// The task beside it.
    pub beside: Option<StageWork>,
}

impl Slot {
    /// Its tasks.
    pub fn works(self) -> impl Iterator<Item = StageWork> {
        [Some(self.work), self.beside].into_iter().flatten()
    }
}

/// What a stage runs, in order.
pub fn order(shape: &PipelineShape, stage: u64) -> Vec<Slot> {
    let works = match shape.schedule {
        _ if !shape.trains => forward_only::order(shape, stage),
        Schedule::GPipe | Schedule::OneForwardOneBackward => in_rounds(shape, stage),
        Schedule::ZeroBubble => zero_bubble::h1(shape, stage),
        Schedule::ZeroBubbleV => zero_bubble::v(shape, stage),
        Schedule::DualPipe | Schedule::DualPipeV => return dual_pipe::order(shape, stage),
    };
    works.into_iter().map(|work| Slot { work, beside: None }).collect()
}

/// The tasks of a stage with `gpipe` or `1f1b`.
fn in_rounds(shape: &PipelineShape, stage: u64) -> Vec<StageWork> {
    let pieces = shape.chunks.saturating_mul(shape.microbatches);
    let forward = forward_rounds(shape);
    let backward = (0..pieces).map(|piece| backward(shape, piece));
    let ahead = ahead(shape, stage).min(pieces);
    let first: Vec<StageWork> = forward.clone().take(ahead as usize).collect();
    let in_turns = forward
        .skip(ahead as usize)
        .zip(backward.clone())
        .flat_map(|(forward, backward)| [forward, backward]);
    let last = backward.skip((pieces - ahead) as usize);
    first.into_iter().chain(in_turns).chain(last).collect()
}

/// Every forward task of a stage, in rounds.
pub(super) fn forward_rounds(shape: &PipelineShape) -> impl Iterator<Item = StageWork> + Clone {
    let pieces = shape.chunks.saturating_mul(shape.microbatches);
    (0..pieces).map(|piece| forward(shape, piece))
}

/// The largest number of tasks in flight: forward, and their last gradients not computed.
pub(super) fn most_held(shape: &PipelineShape, stage: u64) -> u64 {
    let pieces = shape.chunks.saturating_mul(shape.microbatches);
    let most = match shape.schedule {
        Schedule::GPipe | Schedule::OneForwardOneBackward => ahead(shape, stage).saturating_add(1),
        Schedule::ZeroBubble | Schedule::ZeroBubbleV => zero_bubble::most_held(shape),
        Schedule::DualPipe | Schedule::DualPipeV => dual_pipe::most_held(shape),
    };
    most.min(pieces)
}

/// The number of forward tasks of a stage's warm-up, before forward and backward alternate.
fn ahead(shape: &PipelineShape, stage: u64) -> u64 {
    let after = shape.stages - 1 - stage.min(shape.stages - 1);
    match shape.schedule {
        Schedule::OneForwardOneBackward if shape.chunks == 1 => after,
        Schedule::OneForwardOneBackward => 2 * after + (shape.chunks - 1) * shape.stages,
        _ => u64::MAX,
    }
}

/// The `piece`th forward task: rounds of `Z` microbatches, each through all chunks.
fn forward(shape: &PipelineShape, piece: u64) -> StageWork {
    let pass = Pass::Forward;
    if shape.chunks == 1 {
        return StageWork { microbatch: piece, chunk: 0, pass };
    }
    let round = shape.stages * shape.chunks;
    let chunk = piece % round / shape.stages;
    StageWork { microbatch: piece / round * shape.stages + piece % shape.stages, chunk, pass }
}

fn backward(shape: &PipelineShape, piece: u64) -> StageWork {
    let mirrored = forward(shape, piece);
    StageWork { chunk: shape.chunks - 1 - mirrored.chunk, pass: Pass::Backward, ..mirrored }
}
