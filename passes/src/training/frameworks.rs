//! What training frameworks hold in memory beside the values of a plan.
//!
//! * Gradients of parameters, all through the step: they are added into buffers that stay, and all
//!   parameters are updated when all gradients are there (`until=step`). A plan alone frees each
//!   gradient of a layer when its parameter is updated, before the next layer's is computed
//!   (`until=update`). Sums over microbatches are kept for all layers anyhow.
//! * Copies of the logits in 32 bits: a loss keeps the logarithm of their softmax and its gradient.
//!
//! Both hold where rates are measured, as predictions of what runs take, and are left out at the
//! rates of data sheets. Alternatives: updates in a block of their own after the backward part
//! and casts around each loss would be statements that the author did not write, and would have to
//! be fused away again where times are computed; so they are counted, and change no statement.

use indexmap::IndexSet;
use shardwise_ir::Role;
use shardwise_ir::dtype::DType;
use shardwise_ir::functions::{Composite, Function};
use shardwise_ir::ids::ValueId;
use shardwise_ir::plan::{Step, StepKind};
use shardwise_ir::program::{Blocks, MapForm, Op, OpKind, Phase, Program, ReduceFn, Until};
use shardwise_ir::rates::Rates;
use shardwise_ir::unroll::is_loop_exit;

/// What frameworks hold of the values of a program.
pub(crate) struct Frameworks {
    /// Gradients that are kept for all layers, all through the step.
    kept_gradients: IndexSet<ValueId>,
    /// Logits of losses.
    logits: IndexSet<ValueId>,
    /// Bytes beside each element of logits.
    logit_bytes: f64,
}

impl Frameworks {
    /// Of a program whose gradients are derived.
    pub(crate) fn of(program: &Program) -> Self {
        let hardware = &program.hardware;
        let is_measured = hardware.rates == Rates::Measured && hardware.is_training;
        let until = program.gradients_until.unwrap_or(if is_measured {
            Until::Step
        } else {
            Until::Update
        });
        let logit_bytes = hardware.measured.logit_bytes.filter(|_| is_measured);
        Self {
            kept_gradients: if until == Until::Step { gradients(program) } else { IndexSet::new() },
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
        if self.logits.contains(&value) {
            1.0 + 8.0 * self.logit_bytes / f64::from(program.values[value].dtype.bits())
        } else {
            1.0
        }
    }
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
