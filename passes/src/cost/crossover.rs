//! Crossovers: the size of a dimension at which a plan turns from communication-bound to
//! compute-bound.
//!
//! The statements of the plan stay the same and are priced at other sizes: sizes double from the
//! smallest that its shardings divide, and where the bound changes between two of them, bisection
//! finds the two neighbouring sizes between which it changes. Between neighbours every price is
//! interpolated linearly, so that a crossover between two integer sizes is exact (`2550 · 4096`
//! tokens, not the next multiple of the mesh).

use shardwise_ir::Role;
use shardwise_ir::blocks::BatchSplit;
use shardwise_ir::ids::DimId;
use shardwise_ir::plan::Plan;
use shardwise_ir::program::{OpKind, Program};
use shardwise_ir::rearrange::Rearrange;

use crate::cost::collective::Refinement;
use crate::cost::report::{host_s, price_steps};
use crate::layouts::local_shape;

/// The busiest resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Local operations.
    Compute,
    /// The links of some axis.
    Communication,
}

/// A size at which the bound changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crossover {
    /// The size; not always a whole number.
    pub size: f64,
    /// What bounds the plan above it.
    pub above: Bound,
}

/// No batch is larger.
const LARGEST: u64 = 1 << 40;
/// The relative tolerance of sums in different orders.
const ROUNDING: f64 = 1e-12;

/// Dimensions whose size may change: those of a value, but of no parameter (itself or as a factor).
pub fn batch_like(program: &Program) -> Vec<DimId> {
    let of_params: Vec<DimId> = program
        .values
        .iter()
        .filter(|value| value.role == Some(Role::Param))
        .flat_map(|value| value.dims.iter().copied())
        .collect();
    if of_params.is_empty() {
        return Vec::new();
    }
    let used = |dim: DimId| program.values.iter().any(|value| value.dims.contains(&dim));
    let fixed = |dim: DimId| {
        of_params.iter().any(|&param| param == dim || program.dims[param].factors.contains(&dim))
    };
    let free = |dim: DimId| used(dim) && !fixed(dim) && program.dims[dim].factors.is_empty();
    (0..program.dims.len()).map(DimId::new).filter(|&dim| free(dim)).collect()
}

/// The same without the dimensions of microbatches, which change with their batch.
pub fn batches(program: &Program) -> Vec<DimId> {
    let is_whole = |dim: &DimId| !splits(program).any(|(split, _)| split.microbatch == *dim);
    batch_like(program).into_iter().filter(is_whole).collect()
}

/// The dimensions that are split into microbatches, with the number of these.
fn splits(program: &Program) -> impl Iterator<Item = (BatchSplit, u64)> {
    program.repeats.iter().filter_map(|repeat| Some((repeat.microbatches_of?, repeat.count)))
}

/// The bound of the plan, and the ratio of the busier of compute and links to the other.
pub fn bound(compute_s: f64, links_s: f64) -> (Bound, f64) {
    if compute_s >= links_s * (1.0 - ROUNDING) {
        (Bound::Compute, compute_s / links_s)
    } else {
        (Bound::Communication, links_s / compute_s)
    }
}

/// The sizes of `dim` at which the bound of `plan` changes, smallest first; empty where it never
/// does.
pub fn crossovers(plan: &Plan, dim: DimId, refinement: Refinement) -> Vec<Crossover> {
    let granule = granule(plan, dim);
    let mut trial = Trial { plan: plan.clone(), dim, granule, refinement };
    let mut crossovers = Vec::new();
    let mut low = 1_u64;
    let mut below = trial.verdict(low);
    while low.saturating_mul(granule) <= LARGEST / 2 {
        let high = low * 2;
        let above = trial.verdict(high);
        if above.0 != below.0 {
            crossovers.push(trial.between(low, high));
        }
        (low, below) = (high, above);
    }
    crossovers
}

/// The granule: the product of the shards and microbatches that the plan splits `dim` into. Sizes
/// are multiples of it.
fn granule(plan: &Plan, dim: DimId) -> u64 {
    let program = &plan.program;
    let shown = plan.steps.iter().flat_map(|step| step.operands.iter().chain([&step.result]));
    let parts = shown.filter_map(|held| {
        let position = program.values[held.value].dims.iter().position(|&other| other == dim)?;
        Some(local_shape::parts(&program.mesh, &held.sharding.dims[position]))
    });
    let of_microbatches = splits(program)
        .filter(|(split, _)| split.batch == dim)
        .map(|(split, count)| granule(plan, split.microbatch).saturating_mul(count));
    let pipelines = program
        .repeats
        .iter()
        .filter_map(|repeat| repeat.pipeline.as_ref())
        .filter(|pipeline| pipeline.batch == dim);
    let microbatches =
        pipelines.map(|pipeline| pipeline.microbatches).fold(1, least_common_multiple);
    let parts = parts.fold(1, least_common_multiple).saturating_mul(microbatches);
    of_microbatches.fold(parts, least_common_multiple)
}

/// Saturating.
pub fn least_common_multiple(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).saturating_mul(b)
}

/// A plan that is priced at many sizes of a dimension.
struct Trial {
    plan: Plan,
    dim: DimId,
    granule: u64,
    refinement: Refinement,
}

impl Trial {
    /// The bound at `multiple` granules, and the seconds by which compute exceeds the links.
    fn verdict(&mut self, multiple: u64) -> (Bound, f64) {
        resize(&mut self.plan.program, self.dim, multiple.saturating_mul(self.granule));
        let costs = price_steps(&self.plan, self.refinement);
        let mut compute_s = 0.0;
        let mut axis_s = vec![0.0; self.plan.program.mesh.axes.len()];
        for (step, cost) in self.plan.steps.iter().zip(&costs) {
            if cost.is_move(step) {
                cost.links.iter().for_each(|axis| axis_s[axis.index()] += cost.total_s());
            } else {
                compute_s += cost.total_s();
            }
        }
        let links_s = axis_s.into_iter().fold(host_s(&costs), f64::max);
        (bound(compute_s, links_s).0, compute_s - links_s)
    }

    /// The crossover between two multiples with different bounds.
    fn between(&mut self, mut low: u64, mut high: u64) -> Crossover {
        let (mut below, mut above) = (self.verdict(low), self.verdict(high));
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let there = self.verdict(middle);
            if there.0 == below.0 {
                (low, below) = (middle, there);
            } else {
                (high, above) = (middle, there);
            }
        }
        let share = below.1 / (below.1 - above.1);
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 1.0 };
        Crossover {
            size: (low as f64 + share * (high - low) as f64) * self.granule as f64,
            above: above.0,
        }
    }
}

/// Sets the size of `dim`, of the dimensions that it is renamed to and of their microbatches, and
/// updates every declared product of it.
pub fn resize(program: &mut Program, dim: DimId, size: u64) {
    let mut alike = vec![dim];
    for op in &program.ops {
        if let OpKind::Rearrange(Rearrange::Rename(pairs)) = &op.kind {
            let renamed = pairs
                .iter()
                .filter(|(a, b)| alike.contains(a) != alike.contains(b))
                .flat_map(|&(a, b)| [a, b]);
            alike.extend(renamed.collect::<Vec<_>>());
        }
    }
    let microbatches: Vec<(BatchSplit, u64)> =
        splits(program).filter(|(split, _)| alike.contains(&split.batch)).collect();
    for dim in alike {
        program.dims[dim].size = size;
    }
    for (BatchSplit { microbatch, .. }, count) in microbatches {
        program.dims[microbatch].size = size / count.max(1);
    }
    for product in (0..program.dims.len()).map(DimId::new) {
        let factors = program.dims[product].factors.clone();
        if !factors.is_empty() {
            program.dims[product].size =
                factors.iter().fold(1, |n, &factor| n.saturating_mul(program.dims[factor].size));
        }
    }
}
