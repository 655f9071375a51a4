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
    /// Which part of the batch.
    pub microbatch: u64,
    /// Which of the stage's runs of layers, from the front.
    pub chunk: u64,
    /// Whether it is a gradient's.
    pub backward: bool,
}

/// What a stage does, in order.
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

/// How many pieces of work wait at most for their gradients: what goes forward first, and the one
/// that follows in turns.
pub(super) fn most_held(shape: &PipelineShape, stage: u64) -> u64 {
    let pieces = shape.chunks.saturating_mul(shape.microbatches);
    ahead(shape, stage).saturating_add(1).min(pieces)
}

/// How many pieces of work a stage goes forward before it goes back for the first time in turns.
fn ahead(shape: &PipelineShape, stage: u64) -> u64 {
    let after = shape.stages - 1 - stage.min(shape.stages - 1);
    match shape.schedule {
        Schedule::GPipe => u64::MAX,
        Schedule::OneForwardOneBackward if shape.chunks == 1 => after,
        Schedule::OneForwardOneBackward => 2 * after + (shape.chunks - 1) * shape.stages,
    }
}

/// The `piece`th forward: rounds of `Z` microbatches, each through all chunks.
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
