//! What training frameworks hold in memory beside the values of a plan.
//!
//! * Gradients of parameters, until the end of the step: all parameters are updated when all
//!   gradients are there (`until=step`). A plan alone frees each gradient of a layer when its
//!   parameter is updated, before the next layer's is computed (`until=update`). Sums over
//!   microbatches are kept for all layers anyhow. Gradients that are all-reduced are in buckets,
//!   which stay from step to step; the others are freed after the update.
//! * Gradients in 32 bits beside a master copy in 32 bits, into which they are added. Where the
//!   master copy has the sharding of its parameter, the parameter's own shard in 16 bits stands for
//!   half of that: FSDP and `MaxText` have none, but cast the master copy when they gather it.
//! * Of what enters or leaves a pipeline as it is given, one microbatch: loaders, embeddings and
//!   losses, for which such inputs and outputs stand, give and take them one by one.
//! * Copies of the logits in 32 bits: a loss keeps the logarithm of their softmax and its gradient.
//!
//! And what they do otherwise than the cheapest plan:
//!
//! * Weights of layers that are sharded are gathered for each layer, each microbatch, and again
//!   going back (the defaults of FSDP, `DeepSpeed` and `MaxText`); stages of a pipeline keep them
//!   gathered (torchtitan's default there). So does the textbook's plan at any rates. A program
//!   may say it (`weights=regathered`, `kept`, or `chosen` by the search, which is the default at
//!   peak rates).
//! * What products read going back is kept (see `fusion/recompute.rs`).
//!
//! All of it holds where rates are measured, as predictions of what runs take, and is left out at
//! the rates of data sheets. Where there is no room for it, what products read is computed again,
//! and losses copy no logits (`Workload::Training`). Alternatives: updates in a block of their own
//! after the backward part and casts around each loss would be statements that the author did not
//! write, and would have to be fused away again where times are computed; so they are counted, and
//! change no statement.

use indexmap::{IndexMap, IndexSet};
use shardwise_ir::Role;
use shardwise_ir::dtype::DType;
use shardwise_ir::functions::{Composite, Function};
use shardwise_ir::ids::{RepeatId, ValueId};
use shardwise_ir::plan::{Plan, Step, StepKind};
use shardwise_ir::program::{
    Blocks, MapForm, Op, OpKind, Operand, Output, Phase, Program, ReduceFn, Until, Weights,
};
use shardwise_ir::rates::Rates;
use shardwise_ir::unroll::is_loop_exit;
use shardwise_ir::weights::uncast;

/// What frameworks hold of the values of a program.
pub(crate) struct Frameworks {
    /// Gradients that are kept for all layers, until the end of the step.
    kept_gradients: IndexSet<ValueId>,
    /// Gradients that are added up in 32 bits, whatever their dtype.
    wide_gradients: IndexSet<ValueId>,
    /// What enters or leaves a pipeline one microbatch at a time, and the share that is.
    passed_on: IndexMap<ValueId, f64>,
    /// Logits of losses.
    logits: IndexSet<ValueId>,
    /// Bytes beside each element of logits.
    logit_bytes: f64,
}

impl Frameworks {
    /// Of a program whose gradients are derived.
    pub(crate) fn of(program: &Program) -> Self {
        let is_measured = are_predicted(program);
        let until = program.gradients_until.unwrap_or(if is_measured {
            Until::Step
        } else {
            Until::Update
        });
        let saves_memory = program.hardware.saves_memory();
        let logit_bytes =
            program.hardware.measured.logit_bytes.filter(|_| is_measured && !saves_memory);
        Self {
            kept_gradients: if until == Until::Step { gradients(program) } else { IndexSet::new() },
            wide_gradients: if is_measured { wide_gradients(program) } else { IndexSet::new() },
            passed_on: if is_measured { passed_on(program) } else { IndexMap::new() },
            logits: logit_bytes.map_or_else(IndexSet::new, |_| logits(program)),
            logit_bytes: logit_bytes.unwrap_or_default(),
        }
    }

    /// Whether a value is a gradient that is kept all through the step.
    pub(crate) fn keep(&self, value: ValueId) -> bool {
        self.kept_gradients.contains(&value)
    }

    /// Whether a step reads a gradient that is kept: then the materialization that it reads is.
    pub(crate) fn kept_operand(&self, program: &Program, step: &Step) -> Option<usize> {
        let StepKind::Local(op) = step.kind else { return None };
        let gradient = operand_of(&program.ops[op], &UPDATES)?;
        step.operands.iter().position(|of| of.value == gradient && self.keep(gradient))
    }

    /// How many times its own bytes a value takes.
    pub(crate) fn copies(&self, program: &Program, value: ValueId) -> f64 {
        let bits = f64::from(program.values[value].dtype.bits());
        if self.logits.contains(&value) {
            1.0 + 8.0 * self.logit_bytes / bits
        } else if self.wide_gradients.contains(&value) {
            f64::from(DType::F32.bits()) / bits
        } else {
            self.share(value)
        }
    }

    /// The share of a value that is there at a time.
    pub(crate) fn share(&self, value: ValueId) -> f64 {
        self.passed_on.get(&value).copied().unwrap_or(1.0)
    }
}

/// Whether a program is a step of training whose times and memory are predicted as they are
/// measured. Its hardware knows that from the assignment of kernels on; products are converted
/// before that, for which the backward part says it.
fn are_predicted(program: &Program) -> bool {
    let goes_back = || program.ops.iter().any(|op| op.phase == Phase::Backward);
    program.hardware.rates == Rates::Measured && (program.hardware.is_training() || goes_back())
}

/// Weights of layers that are gathered again going back and in every microbatch: as the program
/// says, else those that no stage of a pipeline keeps.
pub(crate) fn regathered(program: &Program) -> IndexSet<ValueId> {
    let written = program.gathered_weights;
    let is_regathered = |value: &ValueId| match written {
        Some(weights) => weights == Weights::Regathered,
        None => are_predicted(program) && program.pipeline(program.values[*value].repeat).is_none(),
    };
    weights_of_layers(program).filter(is_regathered).collect()
}

/// Whether a plan gathers a weight again that its program leaves open: a plan that kept it, as
/// `weights=chosen` may, is not among those that were searched.
pub fn regathers_by_default(plan: &Plan) -> bool {
    let (program, uncast) = (&plan.program, uncast(&plan.program));
    let regathered = regathered(program);
    let mut blocks: IndexMap<ValueId, Option<RepeatId>> = IndexMap::new();
    let is_again = |step: &Step| {
        let value = step.result.value;
        let is_gather =
            matches!(step.kind, StepKind::Collective(..)) && regathered.contains(&value);
        is_gather && *blocks.entry(uncast[value]).or_insert(step.repeat) != step.repeat
    };
    program.gathered_weights.is_none() && plan.steps.iter().any(is_again)
}

/// Weights of layers that stay gathered, whatever memory that takes.
pub(crate) fn kept_gathered(program: &Program) -> IndexSet<ValueId> {
    let is_kept = program.gathered_weights == Some(Weights::Kept);
    weights_of_layers(program).filter(|_| is_kept).collect()
}

/// Parameters of layers, and what they are in another dtype, which may be gathered in their place.
fn weights_of_layers(program: &Program) -> impl Iterator<Item = ValueId> {
    let in_layers =
        |value: ValueId| program.repeats.layer_block(program.values[value].repeat).is_some();
    let weights = uncast(program).into_iter_enumerated().filter(move |&(value, of)| {
        let is_weight = program.values[of].role == Some(Role::Param);
        is_weight && in_layers(of) && in_layers(value)
    });
    weights.map(|(value, _)| value)
}

/// The operations of a program, without the collectives of one that is a plan: these move values,
/// and neither make nor read them.
fn computing(program: &Program) -> impl Iterator<Item = &Op> {
    program.ops.iter().filter(|op| !matches!(op.kind, OpKind::Collective(_)))
}

/// Gradients in fewer than 32 bits of parameters whose master copy in 32 bits is sharded otherwise.
fn wide_gradients(program: &Program) -> IndexSet<ValueId> {
    let producer: IndexMap<ValueId, &Op> = computing(program).map(|op| (op.result, op)).collect();
    let update = |output: &Output| {
        let param = output.yields_to.filter(|&of| program.values[of].role == Some(Role::Param))?;
        let cast = producer.get(&output.value)?;
        let step = producer.get(&cast.operands.first()?.value)?;
        let &Operand { value: master, .. } = step.operands.first()?;
        let sharding = |value: ValueId| &program.values[value].declared_sharding;
        let is_master = program.values[master].role == Some(Role::State)
            && program.values[master].dtype == DType::F32
            && sharding(master) != sharding(param);
        let moved_by = step.operands.get(1).filter(|_| is_master)?.value;
        let moment = producer.get(&moved_by).and_then(|op| operand_of(op, &UPDATES));
        Some(moment.unwrap_or(moved_by))
    };
    let gradients = program.outputs.iter().filter_map(update);
    gradients.filter(|&of| program.values[of].dtype.bits() < DType::F32.bits()).collect()
}

/// Gradients that updates of parameters read, except those that microbatches add up.
fn gradients(program: &Program) -> IndexSet<ValueId> {
    let is_sum = |op: &&Op| {
        is_loop_exit(op)
            && program
                .exited_block(op.repeat, op.operands[0].value)
                .is_some_and(|block| program.repeats[block].microbatches_of.is_some())
    };
    let sums: IndexSet<ValueId> = program.ops.iter().filter(is_sum).map(|op| op.result).collect();
    let reads = |updates: &[Function]| -> Vec<ValueId> {
        program.ops.iter().filter_map(|op| operand_of(op, updates)).collect()
    };
    // What moves a parameter is its gradient, where no momentum comes between.
    let has_momentum = !reads(&[Function::Momentum]).is_empty();
    let updates = if has_momentum { &UPDATES[..3] } else { &UPDATES };
    reads(updates).into_iter().filter(|gradient| !sums.contains(gradient)).collect()
}

/// What updates read a gradient as their second operand.
const UPDATES: [Function; 4] =
    [Function::Ema, Function::EmaSquare, Function::Momentum, Function::SgdStep];

/// The second operand of an operation, if it is one of some functions.
fn operand_of(op: &Op, functions: &[Function]) -> Option<ValueId> {
    let OpKind::Map(function) = &op.kind else { return None };
    let MapForm::Call { function, .. } = &function.form else { return None };
    functions.contains(function).then(|| op.operands.get(1)).flatten().map(|of| of.value)
}

/// Inputs that nothing reads but stages of a pipeline, and outputs that these compute and nothing
/// reads, with the share of one microbatch.
fn passed_on(program: &Program) -> IndexMap<ValueId, f64> {
    let mut reads: IndexMap<ValueId, usize> = IndexMap::new();
    for operand in computing(program).flat_map(|op| &op.operands) {
        *reads.entry(operand.value).or_default() += 1;
    }
    let is_outside = |value: ValueId| program.pipeline(program.values[value].repeat).is_none();
    let share = |of: ValueId| {
        let block = program.values[of].repeat;
        let pipeline = program.pipeline(block).filter(|_| program.has_batch(block, of))?;
        Some(1.0 / pipeline.microbatches as f64)
    };
    let of_op = |op: &Op| {
        let given = op.operands.first()?.value;
        let reads = |value: ValueId| reads.get(&value).copied().unwrap_or(0);
        let is_input = program.values[given].role == Some(Role::Input) && reads(given) == 1;
        if op.is(&MapForm::LoopCarried) && is_input && is_outside(given) {
            Some((given, share(op.result)?))
        } else if op.is(&MapForm::Last) && reads(op.result) == 0 && is_outside(op.result) {
            Some((op.result, share(given)?))
        } else {
            None
        }
    };
    program.ops.iter().filter_map(of_op).collect()
}

/// Products with parameters outside layers whose exponentials are summed up: in 16 bits or fewer.
fn logits(program: &Program) -> IndexSet<ValueId> {
    let of_param = |op: &&Op| {
        let is_param = |value: ValueId| program.values[value].role == Some(Role::Param);
        let dtype = program.values[op.result].dtype;
        op.is_product()
            && op.phase == Phase::Forward
            && program.repeats.layer_block(op.repeat).is_none()
            && dtype.is_float()
            && dtype.bits() < DType::F32.bits()
            && op.operands.iter().any(|operand| is_param(operand.value))
    };
    let normalized: IndexSet<ValueId> = program
        .ops
        .iter()
        .filter(|op| {
            matches!(
                &op.kind,
                OpKind::Composite { function: Composite::Softmax | Composite::LogSumExp, .. }
                    | OpKind::Reduce { function: ReduceFn::Max, .. }
            )
        })
        .map(|op| op.operands[0].value)
        .collect();
    let products = program.ops.iter().filter(of_param).map(|op| op.result);
    products.filter(|value| normalized.contains(value)).collect()
}
