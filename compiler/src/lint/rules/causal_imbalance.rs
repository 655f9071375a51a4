//! `causal-imbalance`: a causal mask along a split sequence leaves the devices unequal work.

use shardwise_ir::ids::DimId;
use shardwise_ir::plan::{Step, StepKind};
use shardwise_ir::program::{BandMask, Op, Program, Share};
use shardwise_passes::{local, local_shape};

use crate::display::units;
use crate::lint::analysis::program::is_worth_reporting;
use crate::lint::definition::{Finding, Group, Level, Lint, LintContext};

pub(crate) const LINT: Lint = Lint {
    code: "SW325",
    name: "causal-imbalance",
    group: Group::Compute,
    level: Level::Warn,
    of_plans: false,
    what: "Causal attention is split along the sequence in its own order, so the device with the \
        last queries computes up to twice the average, and the others wait for it.",
    why: "Half of all scores are masked, but nearly none of those of the last block of queries: \
        the last of 8 devices does 1.9 times the average. With `zigzag 8` the sequence is cut into \
        16 blocks, and each device has one from the beginning and one from the end: all have half. \
        The tokens, and whatever else has the dimension, are then given in this order.",
    bad_example: "hardware tpu-v5p
mesh X=8
dim B=1, T=32768, S=T, N=2, H=128
input Q[B, T_X, N, H], K[B, T_X, N, H], V[B, T_X, N, H]
A = attention(Q, rename_{T->S}(K), rename_{T->S}(V), causal)
output A[B, T_X, N, H]
",
    good_example: "hardware tpu-v5p
mesh X=8
dim B=1, T=32768 zigzag 8, S=T, N=2, H=128
input Q[B, T_X, N, H], K[B, T_X, N, H], V[B, T_X, N, H]
A = attention(Q, rename_{T->S}(K), rename_{T->S}(V), causal)
output A[B, T_X, N, H]
",
    parameters: &[],
    check,
};

/// The work of a split sequence that waits for the busiest device.
struct Uneven {
    /// The dimension that is split, and into how many parts.
    dim: DimId,
    parts: u64,
    /// How many times the average the busiest device computes.
    imbalance: f64,
    /// Seconds that an equal share would save.
    lost_s: f64,
}

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    let mut found: Vec<Uneven> = Vec::new();
    for (step, cost, _) in context.best().work() {
        let Some(uneven) = uneven(context.program, step, cost.total_s()) else { continue };
        match found.iter_mut().find(|other| other.dim == uneven.dim) {
            Some(other) => {
                other.lost_s += uneven.lost_s;
                other.imbalance = other.imbalance.max(uneven.imbalance);
                other.parts = other.parts.max(uneven.parts);
            }
            None => found.push(uneven),
        }
    }
    found.retain(|it| is_worth_reporting(it.lost_s, context.best().report.serial_s));
    found.iter().map(|uneven| finding(context.program, uneven)).collect()
}

/// What the devices lose in a step that takes `seconds` in all.
fn uneven(program: &Program, step: &Step, seconds: f64) -> Option<Uneven> {
    let StepKind::Local(op) = step.kind else { return None };
    let op = &program.ops[op];
    let BandMask { query, key, .. } = op.share.band.filter(|band| band.is_causal())?;
    let (read, result) = (step.operands.iter().map(|of| &of.sharding), &step.result.sharding);
    let read: Vec<_> = read.collect();
    let imbalance = local::imbalance(program, op, &read, result);
    if imbalance <= 1.0 {
        return None;
    }
    let even = Op { share: Share { band: None, ..op.share }, ..op.clone() };
    let work = |op: &Op| local::work(program, op, &read, result).seconds;
    let parts = |dim: DimId| {
        let all = step.operands.iter().chain([&step.result]);
        let of = all.filter_map(|of| {
            let place = program.values[of.value].dims.iter().position(|&other| other == dim)?;
            Some(local_shape::parts(&program.mesh, &of.sharding.dims[place]))
        });
        of.max().unwrap_or(1)
    };
    let (dim, parts) =
        [query, key].map(|dim| (dim, parts(dim))).into_iter().max_by_key(|it| it.1)?;
    let lost_s = seconds * (1.0 - work(&even) / work(op));
    Some(Uneven { dim, parts, imbalance, lost_s })
}

fn finding(program: &Program, uneven: &Uneven) -> Finding {
    let Uneven { dim, parts, imbalance, lost_s } = *uneven;
    let dim = &program.dims[dim];
    let (name, size) = (&dim.name, dim.size);
    let message = format!(
        "the causal mask leaves one of {parts} parts of `{name}` {imbalance:.1} times the average \
        work: {} are lost",
        units::seconds(lost_s)
    );
    let finding = Finding::new(&LINT, message, dim.span, "in the order of the sequence");
    let even = size.is_multiple_of(2 * parts);
    let help = if even {
        format!(
            "write `{name}={size} zigzag {parts}` and give tokens in this order: each device has \
            one block from the beginning and one from the end"
        )
    } else {
        format!("a size that {} divides can be in zigzag order: `zigzag {parts}`", 2 * parts)
    };
    finding.help(help).costs(lost_s, 0.0)
}
