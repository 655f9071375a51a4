//! The order of tasks on a stage.
//!
//! A task is one microbatch in one chunk, forward or backward. With one chunk a stage runs its
//! microbatches in order. With `v` of them it runs a round of `Z` microbatches in its first chunk,
//! the same in its second, and so on, so that the first microbatch returns when the last of the
//! round has left; gradients pass through the chunks in reverse.
//!
//! "One forward, one backward": a stage runs forward until the first gradient could arrive, then
//! alternates between backward and forward. That is `Z-1-s` microbatches ahead for stage `s`; with
//! several chunks twice as many tasks, and `v-1` more rounds.

use shardwise_ir::pipeline::Schedule;

use super::PipelineShape;

/// One microbatch in one chunk of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StageWork {
    /// The microbatch.
    pub microbatch: u64,
    /// The chunk of the stage, counted from the front.
    pub chunk: u64,
    /// Whether it is backward.
    pub backward: bool,
}

/// The tasks of a stage, in order.
pub fn order(shape: &PipelineShape, stage: u64) -> Vec<StageWork> {
    let pieces = shape.chunks.saturating_mul(shape.microbatches);
    let forward = (0..pieces).map(|piece| forward(shape, piece));
    if !shape.trains {
        return forward.collect();
    }
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

/// The largest number of tasks in flight: the forward tasks of the warm-up, and one more while
/// forward and backward alternate.
pub(super) fn most_held(shape: &PipelineShape, stage: u64) -> u64 {
    let pieces = shape.chunks.saturating_mul(shape.microbatches);
    ahead(shape, stage).saturating_add(1).min(pieces)
}

/// The number of forward tasks of a stage's warm-up, before forward and backward alternate.
fn ahead(shape: &PipelineShape, stage: u64) -> u64 {
    let after = shape.stages - 1 - stage.min(shape.stages - 1);
    match shape.schedule {
        Schedule::GPipe => u64::MAX,
        Schedule::OneForwardOneBackward if shape.chunks == 1 => after,
        Schedule::OneForwardOneBackward => 2 * after + (shape.chunks - 1) * shape.stages,
    }
}

/// The `piece`th forward task: rounds of `Z` microbatches, each through all chunks.
fn forward(shape: &PipelineShape, piece: u64) -> StageWork {
    if shape.chunks == 1 {
        return StageWork { microbatch: piece, chunk: 0, backward: false };
    }
    let round = shape.stages * shape.chunks;
    let chunk = piece % round / shape.stages;
    StageWork {
        microbatch: piece / round * shape.stages + piece % shape.stages,
        chunk,
        backward: false,
    }
}

fn backward(shape: &PipelineShape, piece: u64) -> StageWork {
    let mirrored = forward(shape, piece);
    StageWork { chunk: shape.chunks - 1 - mirrored.chunk, backward: true, ..mirrored }
}
