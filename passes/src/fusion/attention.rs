//! Attention: a product or a sum of several, element-wise operations (scale, mask, soft cap), a
//! softmax, the product that sums over what was looked at; and the gradients of all of these. A
//! softmax may be written out, as over blocks of a sequence with a running maximum: an `exp` whose
//! sum is taken.
//!
//! The scores are the values between the two products, and those of the same dimensions going
//! back. They never leave the chip: forward, since each block of them is summed up with a running
//! maximum and sum; backward, since they are computed again from what the first product reads.
//! Where anything else reads a score (it leaves the program, or is looked up), the scores have to
//! be written, and there is no such kernel.
//!
//! Every product that scores are a sum of belongs to the kernel (latent attention has one over what
//! has positions and one over what has not). The alternative, one product in the kernel and the
//! others before it, writes and reads values of the scores' size, which is what the kernel is for.

use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::functions::{Arithmetic, Composite, Function};
use shardwise_ir::ids::{DimId, OpId, ValueId};
use shardwise_ir::program::{MapForm, Op, OpKind, Operand, Phase, Program, ReduceFn};
use shardwise_ir::rearrange::Rearrange;

use super::kernels::{Kernels, is_element_wise, readers, same_dims};

/// Joins every attention of the program.
pub(super) fn join(kernels: &mut Kernels<'_>) {
    let program = kernels.program;
    let seeds = program.ops.indices().filter_map(|op| Some((op, summed_over(program, op)?)));
    let seeds: Vec<(OpId, Vec<DimId>)> = seeds.collect();
    for (seed, over) in seeds {
        if let Some(found) = Attention::around(kernels, seed, &over) {
            kernels.join_attention(&found.forward);
            for kernel in found.backward(kernels) {
                kernels.join_attention(&kernel);
            }
        }
    }
}

/// Whether operations that a plan puts into one kernel are an attention: its softmax, perhaps
/// written out, or a part going back, with products that give or read scores. A plan may have
/// collectives between them, which [`join`] does not look for.
pub(super) fn is_attention(program: &Analyzed, ops: &[OpId]) -> bool {
    let is_seed = |op: &OpId| summed_over(program, *op).is_some();
    let goes_back = ops.iter().all(|&op| program.ops[op].phase == Phase::Backward);
    let mut seeds: Vec<OpId> = program.ops.indices().filter(is_seed).collect();
    seeds.retain(|seed| goes_back || ops.contains(seed));
    let dims = |value: ValueId| &program.values[value].dims;
    seeds.iter().any(|&seed| {
        let scores = dims(program.ops[seed].result);
        let is_scored = |value: ValueId| same_dims(dims(value), scores);
        ops.iter().map(|&op| &program.ops[op]).all(|op| {
            let reads_scores = op.operands.iter().any(|operand| is_scored(operand.value));
            let is_statistic =
                !op.is_product() && dims(op.result).iter().all(|dim| scores.contains(dim));
            is_scored(op.result) || reads_scores || is_statistic
        })
    })
}

/// The dimensions over which an operation's results are weights: those of a softmax, or, of an
/// `exp`, those of the `logsumexp` that is taken from its operand, or those over which its sum is
/// taken for the softmax that a running maximum makes.
fn summed_over(program: &Analyzed, id: OpId) -> Option<Vec<DimId>> {
    let op = &program.ops[id];
    match &op.kind {
        OpKind::Composite { function: Composite::Softmax, dims } => Some(dims.clone()),
        OpKind::Map(_) if op.is(&MapForm::call(Function::Exp)) => {
            let mut readers = program.dataflow().uses_of(op.result);
            // Going back it may be the gradient of a loss, whose scores are written.
            let is_forward = op.phase == Phase::Forward;
            is_forward.then(|| normalized_by(program, op)).flatten().or_else(|| {
                readers.find_map(|(reader, _)| match &program.ops[reader].kind {
                    OpKind::Reduce { function: ReduceFn::Sum, dims } => Some(dims.clone()),
                    _ => None,
                })
            })
        }
        _ => None,
    }
}

/// The dimensions `S` of `exp(s - logsumexp_S(s))`, which is `softmax_S(s)`.
fn normalized_by(program: &Analyzed, exp: &Op) -> Option<Vec<DimId>> {
    let producer = |value: ValueId| program.dataflow().definition(value).map(|op| &program.ops[op]);
    let difference = producer(exp.operands.first()?.value)?;
    let [scores, normalizer] = &difference.operands[..] else { return None };
    let logsumexp = producer(normalizer.value)?;
    let is_of_scores = difference.is(&MapForm::Infix(Arithmetic::Sub))
        && logsumexp.operands.first().is_some_and(|operand| operand.value == scores.value);
    match &logsumexp.kind {
        OpKind::Composite { function: Composite::LogSumExp, dims } if is_of_scores => {
            Some(dims.clone())
        }
        _ => None,
    }
}

/// An attention, forward and backward.
struct Attention {
    /// The operations from the first products to the last one.
    forward: Vec<OpId>,
    /// The scores, in both directions.
    scores: IndexSet<ValueId, FxBuildHasher>,
    /// All operations that read or give scores.
    ops: IndexSet<OpId, FxBuildHasher>,
}

impl Attention {
    /// The attention whose weights `seed` gives, which are summed over `over`; `None` where its
    /// scores have to be written.
    fn around(kernels: &Kernels<'_>, seed: OpId, over: &[DimId]) -> Option<Self> {
        let program = kernels.program;
        let dims = &program.values[program.ops[seed].result].dims;
        let chain = scored(kernels, seed, dims)?;
        let mut found =
            Self { forward: chain, scores: IndexSet::default(), ops: IndexSet::default() };
        found.forward.push(seed);
        found.ops.extend(found.forward.iter().copied());
        found.scores.extend(found.forward.iter().map(|&op| program.ops[op].result));
        found.close(kernels, dims)?;
        let is_summed = found.add_weighted_sum(program, seed, over);
        if is_summed.is_none() && program.ops[seed].phase == Phase::Forward {
            return None;
        }
        found.add_running_sums(program, seed, over)?;
        if is_summed.is_none() {
            found.forward = found.ops.iter().copied().collect();
        }
        found.add_masks(program, seed);
        if found.is_summed_otherwise(program, seed, over) {
            return None;
        }
        let leaves = |&value: &ValueId| program.dataflow().outputs_of(value).next().is_some();
        (!found.scores.iter().any(leaves)).then_some(found)
    }

    /// Adds everything that reads scores, and the scores that these give or read. `None` where
    /// something does that no attention kernel can.
    fn close(&mut self, kernels: &Kernels<'_>, dims: &[DimId]) -> Option<()> {
        let program = kernels.program;
        let mut next = 0;
        while next < self.scores.len() {
            let value = self.scores[next];
            next += 1;
            for (reader, _) in kernels.program.dataflow().uses_of(value) {
                let op = &program.ops[reader];
                self.ops.insert(reader);
                if keeps_scores(kernels.program, op) && has_dims(kernels, op.result, dims) {
                    self.scores.insert(op.result);
                    self.add_operands(kernels, op, dims);
                } else if !ends(program, op) && op.result != value {
                    return None;
                }
            }
        }
        Some(())
    }

    /// Adds what an element-wise operation on scores reads besides: the gradient of the scores, and
    /// what is spread over them.
    fn add_operands(&mut self, kernels: &Kernels<'_>, op: &Op, dims: &[DimId]) {
        for operand in &op.operands {
            let Some(producer) = kernels.program.dataflow().definition(operand.value) else {
                continue;
            };
            let other = &kernels.program.ops[producer];
            let is_scored = matches!(&other.kind, OpKind::Einsum { .. })
                || keeps_scores(kernels.program, other);
            let is_near = (other.repeat, other.phase) == (op.repeat, op.phase);
            if is_scored
                && is_near
                && has_dims(kernels, operand.value, dims)
                && self.scores.insert(operand.value)
            {
                self.ops.insert(producer);
                if keeps_scores(kernels.program, other) {
                    self.add_operands(kernels, other, dims);
                }
            }
        }
    }

    /// Adds the second product, and what is between the weights and it, to the forward kernel.
    /// `None` where there is none: after the softmax of a loss, or of scores that a program itself
    /// computes again for their gradients, which are then of one kernel with these.
    fn add_weighted_sum(&mut self, program: &Analyzed, seed: OpId, over: &[DimId]) -> Option<()> {
        let phase = program.ops[seed].phase;
        let dims = &program.values[program.ops[seed].result].dims;
        let mut is_summed = None;
        let mut open = vec![program.ops[seed].result];
        let mut weights = open.clone();
        while let Some(value) = open.pop() {
            for (reader, _) in program.dataflow().uses_of(value) {
                let op = &program.ops[reader];
                let sums = matches!(&op.kind, OpKind::Einsum { contracted }
                    if over.iter().all(|dim| contracted.contains(dim)));
                let is_weight = |operand: &Operand| weights.contains(&operand.value);
                let follows = keeps_scores(program, op)
                    && same_dims(&program.values[op.result].dims, dims)
                    && (phase == Phase::Forward || op.operands.iter().all(is_weight));
                if op.phase == phase && (sums || follows) && !self.forward.contains(&reader) {
                    self.forward.push(reader);
                    open.extend(follows.then_some(op.result));
                    weights.extend(follows.then_some(op.result));
                    is_summed = is_summed.or(sums.then_some(()));
                }
            }
        }
        is_summed
    }

    /// Adds the sum of the weights, and what the forward kernel computes from scores to go on with
    /// (a running maximum). `None` where no attention kernel can compute that.
    fn add_running_sums(&mut self, program: &Analyzed, seed: OpId, over: &[DimId]) -> Option<()> {
        let place = |op: OpId| (program.ops[op].repeat, program.ops[op].phase);
        let sums = |&op: &OpId| match &program.ops[op].kind {
            OpKind::Reduce { dims, .. } => dims == over && place(op) == place(seed),
            _ => false,
        };
        let readers = program.dataflow().uses_of(program.ops[seed].result);
        self.forward.extend(readers.map(|(reader, _)| reader).filter(sums));
        let needed = between(program, &self.forward);
        let all_simple = needed.iter().all(|&op| is_simple(program, op));
        self.forward.extend(needed);
        all_simple.then_some(())
    }

    /// Adds what only the forward kernel reads, and that is computed from positions and the like:
    /// masks and biases.
    fn add_masks(&mut self, program: &Analyzed, seed: OpId) {
        let place = |op: OpId| (program.ops[op].repeat, program.ops[op].phase);
        let scores = &program.values[program.ops[seed].result].dims;
        let mut next = 0;
        while let Some(&op) = self.forward.get(next) {
            next += 1;
            for of in program.dataflow().producers(op) {
                let mask = &program.ops[of];
                let mut later = readers(program, mask.result).filter(|&it| place(it) == place(of));
                if place(of) == place(seed)
                    && keeps_scores(program, mask)
                    && program.values[mask.result].dims.iter().all(|dim| scores.contains(dim))
                    && !self.forward.contains(&of)
                    && later.all(|reader| self.forward.contains(&reader))
                {
                    self.forward.push(of);
                }
            }
        }
    }

    /// Whether something beside the forward kernel sums scores that this does not write: another
    /// product, or a reduction over other dimensions. What it computes for each row is a statistic,
    /// which the kernel can yield as well.
    fn is_summed_otherwise(&self, program: &Analyzed, seed: OpId, over: &[DimId]) -> bool {
        let place = |op: OpId| (program.ops[op].repeat, program.ops[op].phase);
        let is_statistic = |op: &Op| match &op.kind {
            OpKind::Reduce { dims, .. } | OpKind::Composite { dims, .. } => dims == over,
            _ => false,
        };
        let is_sum = |&id: &OpId| {
            let op = &program.ops[id];
            place(id) == place(seed)
                && !self.forward.contains(&id)
                && !self.scores.contains(&op.result)
                && !is_statistic(op)
        };
        program.ops[seed].phase == Phase::Forward && self.ops.iter().any(is_sum)
    }

    /// The other operations, as those going back: those of each block and phase together, with what
    /// is computed between them for each row, as the gradient of a maximum is.
    fn backward(&self, kernels: &Kernels<'_>) -> Vec<Vec<OpId>> {
        let mut blocks: Vec<Vec<OpId>> = Vec::new();
        let mut others: Vec<OpId> =
            self.ops.iter().copied().filter(|op| !self.forward.contains(op)).collect();
        others.sort_unstable();
        let ops = &kernels.program.ops;
        for op in others {
            let place = |op: OpId| (ops[op].repeat, ops[op].phase);
            let is_its = |block: &&mut Vec<OpId>| place(block[0]) == place(op);
            match blocks.iter_mut().find(is_its) {
                Some(block) => block.push(op),
                None => blocks.push(vec![op]),
            }
        }
        for block in &mut blocks {
            let needed = between(kernels.program, block);
            block.extend(needed.into_iter().filter(|&op| is_simple(kernels.program, op)));
        }
        blocks
    }
}

/// The operations that read what those of a kernel yield, and that one of these reads.
fn between(program: &Analyzed, kernel: &[OpId]) -> Vec<OpId> {
    let ends = kernel.iter().min().zip(kernel.iter().max());
    let Some((first, last)) = ends else { return Vec::new() };
    let mut after: IndexSet<OpId, FxBuildHasher> = IndexSet::default();
    for op in (first.index()..last.index()).map(OpId::new) {
        let follows = |producer| kernel.contains(&producer) || after.contains(&producer);
        if !kernel.contains(&op) && program.dataflow().producers(op).any(follows) {
            after.insert(op);
        }
    }
    let mut between: IndexSet<OpId, FxBuildHasher> = IndexSet::default();
    for &op in after.iter().rev() {
        let mut readers = program.dataflow().uses_of(program.ops[op].result);
        if readers.any(|(reader, _)| kernel.contains(&reader) || between.contains(&reader)) {
            between.insert(op);
        }
    }
    between.into_iter().collect()
}

/// Whether a kernel of attention can compute an operation between those on scores.
fn is_simple(program: &Analyzed, op: OpId) -> bool {
    let op = &program.ops[op];
    let is_reduction = match op.kind {
        OpKind::Composite { function, .. } => function == Composite::LogSumExp,
        _ => matches!(op.kind, OpKind::Reduce { .. }),
    };
    is_reduction || is_element_wise(program, op)
}

/// The operations before a softmax that give its operand, down to products: one, or several that
/// are added up, as those of a part with positions and one without. `None` where no product
/// produces it. What has the dimensions of scores and no product before it, as a bias has, is read
/// by the kernel.
fn scored(kernels: &Kernels<'_>, softmax: OpId, dims: &[DimId]) -> Option<Vec<OpId>> {
    let program = kernels.program;
    let place = |op: OpId| (program.ops[op].repeat, program.ops[op].phase);
    let before = |op: OpId| {
        let operands = program.ops[op].operands.iter().map(|operand| operand.value);
        let scores = operands.filter(|&value| has_dims(kernels, value, dims));
        scores.filter_map(|value| program.dataflow().definition(value))
    };
    let is_inside = |&op: &OpId| {
        let kind = &program.ops[op];
        place(op) == place(softmax) && (kind.is_product() || keeps_scores(program, kind))
    };
    let mut found: IndexSet<OpId, FxBuildHasher> = before(softmax).filter(is_inside).collect();
    let mut next = 0;
    while let Some(&op) = found.get_index(next) {
        next += 1;
        if !program.ops[op].is_product() {
            found.extend(before(op).filter(is_inside));
        }
    }
    // In program order, so that those before an operation are decided before it.
    found.sort_unstable();
    let mut chain: IndexSet<OpId, FxBuildHasher> = IndexSet::default();
    for &op in &found {
        if program.ops[op].is_product() || before(op).any(|of| chain.contains(&of)) {
            chain.insert(op);
        }
    }
    (!chain.is_empty()).then(|| chain.into_iter().collect())
}

/// Whether an operation is computed score by score. A reshape is not: its blocks are others.
fn keeps_scores(program: &Program, op: &Op) -> bool {
    let is_reshape = matches!(op.kind, OpKind::Rearrange(Rearrange::Reshape(_)));
    is_element_wise(program, op) && !is_reshape
}

/// Whether an attention kernel can end with an operation on scores.
fn ends(program: &Program, op: &Op) -> bool {
    matches!(op.kind, OpKind::Einsum { .. } | OpKind::Reduce { .. } | OpKind::Composite { .. })
        || keeps_scores(program, op)
}

fn has_dims(kernels: &Kernels<'_>, value: ValueId, dims: &[DimId]) -> bool {
    same_dims(&kernels.program.values[value].dims, dims)
}
