//! `tune`: what bounds candidates that are not planned holds for their plans.

use shardwise::options::{AxisParts, Grouping};
use shardwise::{Options, Planned, plan};
use shardwise_ir::stages::{Schedule, Stages};

/// Layers in training.
const LAYERS: &str = "hardware h100\ndim B=512, D=1024, F=4096\ninput x[B, D], dy[B, D]\n\
    repeat L=4 {\n  carry x\n  param win[D, F], wout[F, D]\n  x = x + gelu(x *D win) *F wout\n}\n\
    backward from x given dy\n";

/// A gradient without layers.
const PRODUCT: &str = "hardware h100\ndim B=512, D=1024, F=4096\ninput x[B, D], dy[B, F]\n\
    param w[D, F]\ny = x *D w\nbackward from y given dy\noptimizer adam\n";

/// The options of a candidate where memory is no limit.
fn unlimited() -> Options {
    Options {
        parts: AxisParts::AsWritten,
        grouping: Grouping::AsWritten,
        memory: Some(f64::INFINITY),
        ..Options::default()
    }
}

/// What candidates of fewer microbatches are bounded by.
#[test]
fn without_a_limit_more_microbatches_take_no_less() {
    let meshes = ["X=8 over 2x4", "X=4 ib, Y=2 nvlink", "X=2 ib, Y=4 nvlink", "X=16 ib"];
    let programs = [LAYERS.to_owned(), PRODUCT.to_owned(), LAYERS.replace("B=512", "B=24")];
    for source in programs {
        for mesh in meshes {
            let of = |count: u64| {
                let parts =
                    if count == 1 { String::new() } else { format!(", microbatches={count}") };
                let source = source.replace(" given dy", &format!(" given dy{parts}"));
                let lines = source.replacen('\n', &format!("\nmesh {mesh}\n"), 1);
                let planned = plan("program", &lines, &unlimited());
                planned.unwrap_or_else(|no| panic!("{no}")).report.serial_s
            };
            let times = [1, 2, 4, 8].map(of);
            let rises = times.windows(2).all(|pair| pair[0] <= pair[1] * (1.0 + 1e-9));
            assert!(rises, "{mesh}: {times:?}\n{source}");
        }
    }
}

/// A pipeline of the layers.
struct Piped {
    stages: u64,
    chunks: u64,
    microbatches: u64,
    planned: Planned,
}

impl Piped {
    fn new(mesh: &str, (stages, layers): (u64, u64), chunks: u64, microbatches: u64) -> Self {
        let parts = if chunks == 1 { "" } else { ", chunks=2" };
        let begin = format!("pipeline P, microbatches={microbatches}, schedule=1f1b{parts} {{");
        let source = LAYERS.replace("repeat L=4", &format!("{begin}\nrepeat L={layers}"));
        let source = source.replace("}\nbackward", "}\n}\nbackward");
        let source = source.replacen('\n', &format!("\nmesh {mesh}\n"), 1);
        let planned = plan("program", &source, &unlimited());
        let planned = planned.unwrap_or_else(|no| panic!("{no}\n{source}"));
        Self { stages, chunks, microbatches, planned }
    }

    /// How often steps of layers count for each microbatch, sends between stages, and steps of
    /// layers that run once.
    fn counted(&self, layers: u64) -> [f64; 3] {
        let schedule = Schedule::OneForwardOneBackward;
        let of = Stages::spread(schedule, self.stages, self.chunks, layers);
        let turns = of.trip_count(self.microbatches, 1, true);
        let sends = of.receives(self.microbatches, true);
        [turns, sends, of.once_count(1)].map(|count| count.including_bubble as f64)
    }

    /// What another takes at least, by a bound of this one.
    fn bound_of(&self, other: &Self, layers: u64) -> f64 {
        let rows = (other.microbatches / self.microbatches) as f64;
        let (own, others) = (self.counted(layers), other.counted(layers));
        let ratios = [rows * own[0] / others[0], rows * own[1] / others[1], own[2] / others[2]];
        self.planned.lower_bound_s() / ratios.into_iter().fold(1.0, f64::max)
    }
}

/// What pipelines of more microbatches, or of more chunks, are bounded by.
#[test]
fn without_a_limit_a_shorter_bubble_saves_no_more_than_itself() {
    let (mut pairs, mut nearest) = (0, 0.0_f64);
    let meshes = [
        ("P=2 ib, X=8 nvlink", 2, 8),
        ("P=2 ib, X=2 ib, Y=4 nvlink", 2, 9),
        ("P=4 ib, X=4 nvlink", 4, 9),
        ("P=4 ib, X=32 over 4x8", 4, 16),
    ];
    for (mesh, stages, layers) in meshes {
        let all = [1, 2].map(|chunks| {
            [4, 8, 16].map(|count| Piped::new(mesh, (stages, layers), chunks, count))
        });
        let all = all.as_flattened();
        let known = all.iter().flat_map(|few| all.iter().map(move |many| (few, many)));
        for (few, many) in known.filter(|(few, many)| few.chunks <= many.chunks) {
            if !many.microbatches.is_multiple_of(few.microbatches) || std::ptr::eq(few, many) {
                continue;
            }
            let share = few.bound_of(many, layers) / many.planned.report.serial_s;
            let (chunks, count) = (many.chunks, many.microbatches);
            assert!(share <= 1.0 + 1e-9, "{mesh}: {share} of {chunks} chunks, {count}");
            (pairs, nearest) = (pairs + 1, nearest.max(share));
        }
    }
    assert_eq!(pairs, 4 * (3 + 3 + 6));
    assert!(nearest > 0.9, "a bound is near: {nearest}");
}
