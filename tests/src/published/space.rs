//! The space around a published configuration.

use shardwise::tune::{Recompute, Request};
use shardwise_ir::blocks::Pipeline;
use shardwise_ir::hardware::Wraparound;
use shardwise_ir::program::Program;

/// Every choice of the program, and what is near it.
pub(super) fn around(program: &Program) -> Request {
    let axes = program.mesh.declared().filter(|(axis, _)| axis.size > 1).count();
    let staged = program.repeats.iter().find_map(|block| block.pipeline.as_ref());
    let split = program.repeats.iter().find(|block| block.microbatches_of.is_some());
    let near = Request {
        axes: Some(axes.max(2)),
        recompute: recomputations(program),
        ..Request::of_chips(program.mesh.devices())
    };
    if let Some(pipeline) = staged {
        return staged_space(program, pipeline, near);
    }
    let own = split.map_or(1, |block| block.count);
    Request { stages: vec![1], microbatches: sorted([1, own, 2 * own]), ..near }
}

/// Layers or nothing; on TPUs also layers with their inputs on the host, as recipes of `MaxText`
/// have them.
fn recomputations(program: &Program) -> Vec<Recompute> {
    let chip = &program.hardware;
    let offloads = chip.host_bandwidth.is_some() && chip.wraparound != Wraparound::Switched;
    let offload = offloads.then_some(Recompute::Offload);
    [Recompute::Nothing, Recompute::Layers].into_iter().chain(offload).collect()
}

/// What a program computes again: its layers, or nothing.
pub(super) fn recomputed(text: &str) -> Recompute {
    if text.contains("checkpoint\n") { Recompute::Layers } else { Recompute::Nothing }
}

fn staged_space(program: &Program, pipeline: &Pipeline, near: Request) -> Request {
    let own = pipeline.microbatches;
    let stages = program.mesh.axes[pipeline.axis].size;
    let is_filled = |count: &u64| *count >= stages && own.is_multiple_of(*count);
    let microbatches = sorted([own / 2, own]).into_iter().filter(is_filled).collect();
    Request {
        stages: vec![stages],
        microbatches,
        chunks: sorted([1, pipeline.chunks]),
        schedules: vec![pipeline.schedule],
        ..near
    }
}

fn sorted<const N: usize>(numbers: [u64; N]) -> Vec<u64> {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}
