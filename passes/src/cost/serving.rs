//! Sizes a serving step of a model: the parameters and caches that it reads, and its products, as a
//! plan shards them.
//!
//! The formula is that of *How To Scale Your Model*, Part 7: caches are read, then parameters are
//! read or multiplied with, whichever takes longer; element-wise operations count as fused, and
//! communication is left to the plan's own price. Everything is inferred from the statements: a
//! weight is a parameter, or computed from parameters alone; a cache is `state`, or state with
//! other elements, names or indices. So no names are matched, and a plan that reads a replicated
//! weight on every device, or computes twice, is priced accordingly. The alternative, total bytes
//! over total bandwidth, would price any sharding as the best one.

use index_vec::IndexVec;
use shardwise_ir::Role;
use shardwise_ir::ids::{DimId, OpId, ValueId};
use shardwise_ir::plan::{Materialization, Plan, Step, StepKind};
use shardwise_ir::program::{Blocks, Op, OpKind, Operand, Phase, Program};
use shardwise_ir::rearrange::Rearrange;
use shardwise_ir::sharding::Sharding;

use crate::cost::local;
use crate::layouts::local_shape;

/// The kinds of products of a serving step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MultipliesWith {
    /// With parameters, or anything but other tokens.
    Weights,
    /// Tokens with tokens: those of a cache, or of the same step.
    Attention,
}

/// The origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Weight,
    Cache,
    /// A mask that routes tokens, with other elements or without.
    Route,
    Activation,
}

/// A program as a serving step.
#[derive(Clone, Debug)]
pub struct Serving {
    /// The dimension of independent sequences (or requests, rows): in no parameter, and in the
    /// caches, where there are any.
    pub batch: DimId,
    /// The dimension that is resized for another batch: the batch, or the major one of its factors.
    pub grows: DimId,
    /// The dimensions of the operands multiplied with parameters that are in no parameter: the
    /// product of their sizes is the number of tokens of a step.
    pub rows: Vec<DimId>,
    /// Whether caches are read.
    pub reads_cache: bool,
    /// Whether tokens are multiplied with tokens.
    pub attends: bool,
    parts: IndexVec<OpId, MultipliesWith>,
    /// Values computed from scores element by element: they stay on the chip until the next
    /// product.
    scores: IndexVec<ValueId, bool>,
}

/// Why a program is not a serving step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotServing {
    /// It has gradients.
    Trains,
    /// No product with a parameter has a dimension that no parameter has.
    WithoutBatch,
    /// It reads caches that have no dimension of the tokens.
    CachesApart,
    /// Only a part of its tokens reads caches: requests beside chunks of prompts.
    Mixed,
}

/// The work of a device in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Bytes read from caches.
    pub cache_bytes: f64,
    /// Bytes read from parameters.
    pub weight_bytes: f64,
    /// FLOPs of tokens with tokens.
    pub attention_flops: f64,
    /// Bytes that these products read and write if scores never leave the chip and caches are read
    /// like any keys.
    pub attention_bytes: f64,
    /// Seconds of arithmetic of tokens with tokens.
    pub attention_s: f64,
    /// Seconds of arithmetic with parameters.
    pub flops_s: f64,
}

impl Serving {
    /// The program as a serving step, or why it is not one.
    pub fn of(program: &Program) -> Result<Self, NotServing> {
        if program.ops.iter().any(|op| op.phase == Phase::Backward) {
            return Err(NotServing::Trains);
        }
        let origins = origins(program);
        let free = free_dims(program);
        let rows = rows(program, &origins, &free);
        let caches = read_caches(program);
        let mut candidates =
            rows.iter().flat_map(|&row| atoms(program, row)).filter(|dim| free.contains(dim));
        let of_caches = |atom: DimId| {
            let mut dims =
                caches.iter().flat_map(|&cache| program.values[cache].dims.iter().copied());
            dims.find(|&dim| atoms(program, dim).first() == Some(&atom)).map(|dim| (dim, atom))
        };
        let first = candidates.next().ok_or(NotServing::WithoutBatch)?;
        let (batch, grows) = match caches[..] {
            [] => (first, first),
            _ => std::iter::once(first)
                .chain(candidates)
                .find_map(of_caches)
                .ok_or_else(|| apart(program, &rows, &caches))?,
        };
        let parts: IndexVec<OpId, MultipliesWith> =
            program.ops.iter().map(|op| part(program, op, &origins, &free)).collect();
        let attends = parts.contains(&MultipliesWith::Attention);
        let scores = scores(program, &parts);
        Ok(Self { batch, grows, rows, reads_cache: !caches.is_empty(), attends, parts, scores })
    }

    /// Tokens of a step.
    pub fn tokens(&self, program: &Program) -> f64 {
        self.rows.iter().map(|&dim| program.dims[dim].size as f64).product()
    }

    /// The number of sequences in the granule of a batch: more than one where it is a product.
    pub fn unit(&self, program: &Program) -> u64 {
        let size = |dim: DimId| program.dims[dim].size;
        (size(self.batch) / size(self.grows)).max(1)
    }

    /// The length dimensions of `cache`: those that are neither the batch's nor a parameter's.
    pub fn context(&self, program: &Program, cache: ValueId) -> Vec<DimId> {
        let free = free_dims(program);
        let dims = program.values[cache].dims.iter().copied();
        dims.filter(|dim| *dim != self.batch && free.contains(dim)).collect()
    }

    /// The work of a device in a step of `plan`, whose program this was built from (at any sizes).
    pub fn load(&self, plan: &Plan) -> Load {
        let program = &plan.program;
        let stored = stored(program);
        let mut load = Load::default();
        let mut read: IndexVec<ValueId, f64> = program.values.iter().map(|_| 0.0).collect();
        for step in &plan.steps {
            let StepKind::Local(number) = step.kind else { continue };
            let op = &program.ops[number];
            for (position, operand) in step.operands.iter().enumerate() {
                let stored = stored[operand.value];
                read[stored] = read[stored].max(read_bytes(program, op, position, operand, step));
            }
            if matches!(op.kind, OpKind::Einsum { .. }) {
                let operands: Vec<&Sharding> =
                    step.operands.iter().map(|operand| &operand.sharding).collect();
                let work = local::work(program, op, &operands, &step.result.sharding);
                let times = program
                    .trip_count(step.repeat, program.is_per_microbatch(op))
                    .per_device as f64;
                match self.parts[number] {
                    MultipliesWith::Attention => {
                        load.attention_s += times * work.flops_s;
                        load.attention_flops += times * work.flops;
                        load.attention_bytes += times * self.outside(program, step);
                    }
                    MultipliesWith::Weights => load.flops_s += times * work.flops_s,
                }
            }
        }
        for (value, bytes) in program.values.iter().zip(read) {
            let bytes = program.trip_count(value.repeat, true).per_device as f64 * bytes;
            match value.role {
                Some(Role::Param) => load.weight_bytes += bytes,
                Some(Role::State) => load.cache_bytes += bytes,
                _ => {}
            }
        }
        load
    }
}

impl Serving {
    /// Bytes of HBM traffic of a product of tokens with tokens: queries and keys, or values and the
    /// result.
    fn outside(&self, program: &Program, step: &Step) -> f64 {
        let bytes =
            |of: &Materialization| local_shape::local_bytes(program, of.value, &of.sharding);
        let read: f64 = step.operands.iter().filter(|of| !self.scores[of.value]).map(bytes).sum();
        let is_last = step.operands.iter().any(|of| self.scores[of.value]);
        read + if is_last { bytes(&step.result) } else { 0.0 }
    }
}

/// Why caches have no dimension of the tokens: it may be that of a slice of them.
fn apart(program: &Program, rows: &[DimId], caches: &[ValueId]) -> NotServing {
    let of_caches = |dim: DimId| caches.iter().any(|&of| program.values[of].dims.contains(&dim));
    let takes_tokens = |op: &Op| match &op.kind {
        OpKind::Rearrange(Rearrange::Slice(part)) => {
            rows.contains(&part.from) && of_caches(part.to)
        }
        _ => false,
    };
    if program.ops.iter().any(takes_tokens) { NotServing::Mixed } else { NotServing::CachesApart }
}

/// Outputs of layers without caches that have every token of a sequence: the caches that later
/// steps read.
pub fn given_caches(program: &Program, serving: &Serving) -> Vec<ValueId> {
    let leaves = program
        .outputs
        .iter()
        .filter(|output| output.yields_to.is_none())
        .map(|output| output.value);
    let of_layers = leaves.filter(|&value| {
        program.values[value].repeat.is_some()
            && program.values[value].dims.contains(&serving.batch)
    });
    of_layers.filter(|&value| !serving.context(program, value).is_empty()).collect()
}

/// State that any operation reads.
pub fn read_caches(program: &Program) -> Vec<ValueId> {
    let is_read = |value: ValueId| {
        program.ops.iter().any(|op| op.operands.iter().any(|operand| operand.value == value))
    };
    let state =
        program.values.iter_enumerated().filter(|(_, value)| value.role == Some(Role::State));
    state.map(|(id, _)| id).filter(|&id| is_read(id)).collect()
}

fn scores(program: &Program, parts: &IndexVec<OpId, MultipliesWith>) -> IndexVec<ValueId, bool> {
    let mut scores: IndexVec<ValueId, bool> = program.values.iter().map(|_| false).collect();
    for (number, op) in program.ops.iter_enumerated() {
        let of_scores = op.operands.iter().any(|operand| scores[operand.value]);
        let is_score = match op.kind {
            OpKind::Einsum { .. } => parts[number] == MultipliesWith::Attention && !of_scores,
            _ => of_scores,
        };
        scores[op.result] = scores[op.result] || is_score;
    }
    scores
}

/// Dimensions that are in no parameter, themselves or as a factor; none without parameters.
/// Products of such dimensions are among them, which have no size of their own to choose.
fn free_dims(program: &Program) -> Vec<DimId> {
    let params = program.values.iter().filter(|value| value.role == Some(Role::Param));
    let fixed: Vec<DimId> =
        params.flat_map(|value| &value.dims).flat_map(|&dim| atoms(program, dim)).collect();
    let is_free = |&dim: &DimId| {
        !fixed.is_empty() && atoms(program, dim).iter().all(|atom| !fixed.contains(atom))
    };
    (0..program.dims.len()).map(DimId::new).filter(is_free).collect()
}

/// Plain sizes: a product's factors.
fn atoms(program: &Program, dim: DimId) -> Vec<DimId> {
    let factors = &program.dims[dim].factors;
    if factors.is_empty() {
        vec![dim]
    } else {
        factors.iter().flat_map(|&factor| atoms(program, factor)).collect()
    }
}

/// The cache that each value is stored in: a cache with rows written into it is that cache.
fn stored(program: &Program) -> IndexVec<ValueId, ValueId> {
    let mut stored: IndexVec<ValueId, ValueId> = program.values.indices().collect();
    for op in program.ops.iter().filter(|op| program.is_in_place(op)) {
        stored[op.result] = stored[op.operands[0].value];
    }
    stored
}

/// Bytes of an operand that an operation reads per execution.
fn read_bytes(
    program: &Program,
    op: &Op,
    position: usize,
    operand: &Materialization,
    step: &Step,
) -> f64 {
    let whole = local_shape::local_bytes(program, operand.value, &operand.sharding);
    match &op.kind {
        OpKind::Gather { .. } if position == 0 => {
            whole.min(local_shape::local_bytes(program, step.result.value, &step.result.sharding))
        }
        OpKind::Update { .. } if position == 0 && program.is_in_place(op) => 0.0,
        OpKind::Rearrange(Rearrange::Slice(_)) => {
            local_shape::local_bytes(program, step.result.value, &step.result.sharding)
        }
        OpKind::Einsum { .. } => {
            let operands: Vec<&Sharding> = step.operands.iter().map(|of| &of.sharding).collect();
            whole * local::chosen_share(program, op, position, &operands)
        }
        _ => whole,
    }
}

fn origins(program: &Program) -> IndexVec<ValueId, Origin> {
    let declared = |role: Option<Role>| match role {
        Some(Role::Param) => Origin::Weight,
        Some(Role::State) => Origin::Cache,
        _ => Origin::Activation,
    };
    let mut origins: IndexVec<ValueId, Origin> =
        program.values.iter().map(|value| declared(value.role)).collect();
    for op in &program.ops {
        let has =
            |origin: Origin| op.operands.iter().any(|operand| origins[operand.value] == origin);
        let all_weights = !op.operands.is_empty()
            && op.operands.iter().all(|operand| origins[operand.value] == Origin::Weight);
        let keeps_elements = match op.kind {
            OpKind::Map(_)
            | OpKind::Rearrange(_)
            | OpKind::Collective(_)
            | OpKind::Gather { .. }
            | OpKind::Update { .. } => true,
            OpKind::Einsum { .. }
            | OpKind::Reduce { .. }
            | OpKind::ScatterAdd { .. }
            | OpKind::Route(_)
            | OpKind::Along(_)
            | OpKind::Opaque(_)
            | OpKind::Composite { .. } => false,
        };
        let origin = match &op.kind {
            OpKind::Route(_) => Origin::Route,
            _ if all_weights => Origin::Weight,
            _ if keeps_elements && has(Origin::Cache) => Origin::Cache,
            // The mask times the scores is an einsum that sums over nothing.
            OpKind::Einsum { contracted } if contracted.is_empty() && has(Origin::Route) => {
                Origin::Route
            }
            _ if keeps_elements && has(Origin::Route) => Origin::Route,
            _ => Origin::Activation,
        };
        origins[op.result] =
            if program.values[op.result].role.is_some() { origins[op.result] } else { origin };
    }
    origins
}

/// The tokens of a step of any program, in training too: the rows of the widest operand that a
/// weight is multiplied with, in all microbatches together; 0 where there is no such product.
/// Weights that are added or looked up, such as those of positions, may have rows of their own.
pub fn tokens(program: &Program) -> f64 {
    let origins = origins(program);
    let of_value = |value: ValueId| program.values[value].dims.iter().copied();
    let multiplied: Vec<DimId> = products_with_weights(program, &origins)
        .flat_map(|op| &op.operands)
        .filter(|operand| origins[operand.value] == Origin::Weight)
        .flat_map(|weight| of_value(weight.value))
        .flat_map(|dim| atoms(program, dim))
        .collect();
    let is_row = |dim: &DimId| atoms(program, *dim).iter().all(|atom| !multiplied.contains(atom));
    let rows = |op: &Op, operand: &Operand| {
        let microbatches = program.repeats.microbatches(op.repeat);
        let times = microbatches.map_or(1, |block| program.repeats[block].count);
        let dims = of_value(operand.value).filter(is_row);
        times as f64 * dims.map(|dim| program.dims[dim].size as f64).product::<f64>()
    };
    let others = multiplied_with_weights(program, &origins);
    others.map(|(op, operand)| rows(op, operand)).fold(0.0, f64::max)
}

/// Products of which a weight is an operand.
fn products_with_weights<'p>(
    program: &'p Program,
    origins: &'p IndexVec<ValueId, Origin>,
) -> impl Iterator<Item = &'p Op> {
    let has_weight = |op: &&Op| {
        op.is_product() && op.operands.iter().any(|of| origins[of.value] == Origin::Weight)
    };
    program.ops.iter().filter(has_weight)
}

/// What weights are multiplied with, and the products that do.
fn multiplied_with_weights<'p>(
    program: &'p Program,
    origins: &'p IndexVec<ValueId, Origin>,
) -> impl Iterator<Item = (&'p Op, &'p Operand)> {
    let is_weight = |operand: &Operand| origins[operand.value] == Origin::Weight;
    products_with_weights(program, origins).flat_map(move |op| {
        let others = op.operands.iter().filter(move |operand| !is_weight(operand));
        others.map(move |operand| (op, operand))
    })
}

/// The free dimensions of the widest operand that a weight is multiplied with, in its order.
fn rows(program: &Program, origins: &IndexVec<ValueId, Origin>, free: &[DimId]) -> Vec<DimId> {
    let rows = multiplied_with_weights(program, origins).map(|(_, operand)| {
        program.values[operand.value]
            .dims
            .iter()
            .copied()
            .filter(|dim| free.contains(dim))
            .collect::<Vec<_>>()
    });
    let tokens = |dims: &[DimId]| {
        dims.iter().fold(1, |n: u64, &dim| n.saturating_mul(program.dims[dim].size))
    };
    rows.reduce(|widest, other| if tokens(&other) > tokens(&widest) { other } else { widest })
        .unwrap_or_default()
}

fn part(
    program: &Program,
    op: &Op,
    origins: &IndexVec<ValueId, Origin>,
    free: &[DimId],
) -> MultipliesWith {
    let OpKind::Einsum { contracted } = &op.kind else { return MultipliesWith::Weights };
    let has = |origin: Origin| op.operands.iter().any(|operand| origins[operand.value] == origin);
    if contracted.is_empty() || has(Origin::Weight) || has(Origin::Route) {
        return MultipliesWith::Weights;
    }
    let dims = |position: usize| {
        op.operands.get(position).map_or(&[][..], |operand| &program.values[operand.value].dims)
    };
    let alone = |mine: &[DimId], other: &[DimId]| {
        mine.iter().any(|dim| free.contains(dim) && !other.contains(dim))
    };
    let of_tokens = contracted.iter().any(|dim| free.contains(dim))
        || (alone(dims(0), dims(1)) && alone(dims(1), dims(0)));
    if has(Origin::Cache) || of_tokens {
        MultipliesWith::Attention
    } else {
        MultipliesWith::Weights
    }
}
