//! Collective matmul: an `AllGather` and the product that reads it, or a product and the
//! `ReduceScatter` of its result, in as many chunks as devices, each as soon as the other's is
//! there (Wang et al., *Overlap Communication with Dependent Computation via Decomposition*,
//! 2023).
//!
//! Of an `AllGather` over `n` devices the own part is there at once, and a product in `n` chunks
//! begins with it; it ends no earlier than one chunk after the last part has come. The first part
//! of a `ReduceScatter` can be sent after the first chunk, and the last chunk is added on the
//! device that computes it. Chunks are evenly spaced, so both follow from the first and the last
//! one: with `p` seconds of the product in one piece, `p' ≥ p` in chunks, and `c` of the
//! collective, both together end `min(c - (p' - p), p - p'/n)` earlier than one after the other.
//!
//! The schedule keeps the durations and lets the later of the two start so much before the earlier
//! one ends, at the latest moment at which it waits for no chunk. What chunks cost more is taken
//! off what they save; where nothing is left, both run whole. Alternatives: a step for each chunk
//! makes plans longer by the number of devices, and what is printed is no longer the program; a
//! product that starts as early as it can and waits in between ends no earlier, and a
//! `ReduceScatter` that does so keeps a link busy that it does not need yet.
//!
//! Compilers do so where they are asked to (`collectives=chunked`): a gather that several products
//! read runs beside the first of them, and attention's kernel is not cut.

use shardwise_ir::collectives::Collectives;
use shardwise_ir::dataflow::Dataflow;
use shardwise_ir::ids::DimId;
use shardwise_ir::plan::{Plan, Step, StepKind};
use shardwise_ir::program::{CollectiveKind, Op, Program};

use crate::cost::local;
use crate::cost::report::StepCost;
use crate::layouts::composite::ExpandedPlan;
use crate::layouts::local_shape::parts;

/// How far a collective runs beside a product.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BesideProduct {
    /// Seconds in which both run.
    pub seconds: f64,
    /// Whether that is all of the collective, and a longer one would end no later.
    pub is_hidden: bool,
}

/// Notes at each collective of a plan how long it runs beside a product.
pub(crate) fn overlap(plan: &ExpandedPlan<'_>, costs: &mut [StepCost]) {
    if plan.program.collectives == Collectives::Whole {
        return;
    }
    for number in 0..plan.steps.len() {
        let Some((product, op)) = neighbour(plan, plan.dataflow(), number) else { continue };
        let together = Together::of(plan, number, (product, op), costs);
        costs[number].beside_product = together.beside();
    }
}

/// A step that may start before one whose result it reads ends, since both run in chunks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunked {
    /// The step that starts first.
    pub first: usize,
    /// How much before its end the other may start, seconds.
    pub lead_s: f64,
}

/// For each step, the one that it runs beside.
pub(crate) fn chunked(
    plan: &Plan,
    costs: &[StepCost],
    dataflow: &Dataflow<usize>,
) -> Vec<Option<Chunked>> {
    let mut chunked = vec![None; costs.len()];
    for (number, cost) in costs.iter().enumerate() {
        let lead_s = cost.beside_product.seconds;
        let product = Some(number).filter(|_| lead_s > 0.0);
        let product = product.and_then(|step| neighbour(plan, dataflow, step));
        if let Some((product, _)) = product {
            let (first, then) = (number.min(product), number.max(product));
            chunked[then] = Some(Chunked { first, lead_s });
        }
    }
    chunked
}

/// The product that a collective can run beside: the first that reads what it gathers, or the one
/// whose result it scatters.
fn neighbour<'p>(
    plan: &'p Plan,
    dataflow: &Dataflow<usize>,
    number: usize,
) -> Option<(usize, &'p Op)> {
    let step = &plan.steps[number];
    let StepKind::Collective(collective, _) = &step.kind else { return None };
    let product = match collective.kind {
        CollectiveKind::AllGather => dataflow.readers(number).map(|(reader, _)| reader).min(),
        CollectiveKind::ReduceScatter => dataflow.producers(number).next(),
        _ => None,
    }?;
    let is_beside = plan.steps[product].repeat == step.repeat;
    let op = product_of(&plan.program, &plan.steps[product]).filter(|_| is_beside)?;
    Some((product, op))
}

/// The operation of a step that is a product outside attention's kernels.
fn product_of<'p>(program: &'p Program, step: &Step) -> Option<&'p Op> {
    let StepKind::Local(op) = step.kind else { return None };
    let op = &program.ops[op];
    (op.is_product() && !op.kernel.is_attention).then_some(op)
}

/// A collective and a product next to it, seconds.
struct Together {
    collective_s: f64,
    product_s: f64,
    in_chunks_s: f64,
    chunks: f64,
}

impl Together {
    fn of(plan: &Plan, collective: usize, (product, op): (usize, &Op), costs: &[StepCost]) -> Self {
        let program = &plan.program;
        let split = split(program, &plan.steps[collective]);
        let step = &plan.steps[product];
        let operands: Vec<_> = step.operands.iter().map(|operand| &operand.sharding).collect();
        let result = &step.result.sharding;
        Self {
            collective_s: costs[collective].seconds,
            product_s: costs[product].seconds,
            in_chunks_s: local::in_chunks_s(program, op, &operands, result, &split),
            chunks: split.iter().map(|(_, parts)| parts).product(),
        }
    }

    fn beside(&self) -> BesideProduct {
        let of_collective_s = self.collective_s - (self.in_chunks_s - self.product_s);
        let of_product_s = self.product_s - self.in_chunks_s / self.chunks;
        let seconds = of_collective_s.min(of_product_s).max(0.0);
        BesideProduct { seconds, is_hidden: seconds > 0.0 && of_collective_s < of_product_s }
    }
}

/// The dimensions that a collective gathers or splits, each with the number of its parts.
fn split(program: &Program, step: &Step) -> Vec<(DimId, f64)> {
    let (from, to) = (&step.operands[0].sharding, &step.result.sharding);
    let dims = program.values[step.result.value].dims.iter().zip(from.dims.iter().zip(&to.dims));
    let changed = dims.filter(|(_, (from, to))| from != to);
    let number = |axes| parts(&program.mesh, axes) as f64;
    let ways = changed.map(|(&dim, (from, to))| {
        let (from, to) = (number(from), number(to));
        (dim, from.max(to) / from.min(to))
    });
    ways.collect()
}
