//! `backward from Loss, microbatches=8`: moves the step into a block that runs once per microbatch.
//!
//! Before, gradients derived:            After:
//!
//! ```text
//! Tmp = In *D Win                       microbatches B=B'*8 {
//! Out = Tmp *F Wout                       In.part = part(In)
//! dWout = Tmp *B dOut                     dOut.part = part(dOut)
//! dTmp = dOut *D Wout                     Tmp = In.part *D Win
//! dWin = In *B dTmp                       Out = Tmp *F Wout
//!                                         dWout.part = Tmp *B' dOut.part
//!                                         dTmp = dOut.part *D Wout
//!                                         dWin.part = In.part *B' dTmp
//!                                       }
//!                                       dWout = total(dWout.part)
//!                                       dWin = total(dWin.part)
//! ```
//!
//! The gradients of the batch are split, instead of deriving those of a microbatch: then the result
//! is correct if splitting is, and splitting only needs to know in which operands an operation is
//! linear (`forms`). A microbatch is to a step what a device is to a sharded batch, in time and
//! not in space: rows stay rows, and a sum over the batch is partial until it is accumulated.
//! Accumulated sums stay partial over mesh axes, too, so the search may reduce once after the
//! microbatches, or in each of them where the memory for pending sums is too small.
//!
//! A pipeline has microbatches of its own, and is not nested in these: it would have a bubble in
//! each of them, while more microbatches of its own cost nothing, since with "one forward, one
//! backward" a stage has no more of them in flight than there are stages.
//! [`MicrobatchFault::Staged`] reports it, with the line to write. Only values outside the stages
//! (a head's logits) would be smaller; they are sharded over the stage axis instead.
//!
//! Operations that depend on sums over the batch are placed after the block: for layers, in a
//! second block over them. Statements after `backward` (an optimizer) are placed after it
//! unchanged, and read the values of the complete batch.

mod dims;
mod forms;
mod rewrite;

use index_vec::IndexVec;
use indexmap::IndexMap;
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::functions::Arithmetic;
use shardwise_ir::ids::{DimId, OpId, RepeatId, ValueId};
use shardwise_ir::program::{
    Backward, Dim, MapFn, MapForm, Op, OpKind, Operand, Program, ReduceFn, Value,
};
use shardwise_ir::{Role, Span, renumber};

/// Why a step cannot be split into microbatches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MicrobatchFault {
    /// All inputs share none, or several dimensions that no parameter has: these.
    Unclear(Vec<DimId>),
    /// A parameter has the batch dimension.
    OfParameter(ValueId),
    /// The batch is a product of other dimensions, or padded.
    NotPlain(DimId),
    /// The number of microbatches does not divide the batch.
    Indivisible(DimId, u64),
    /// The layers of a block are in a pipeline, which has microbatches of its own.
    Staged(RepeatId),
    /// The rows of a microbatch cannot be sharded as the brackets of a value ask.
    Uneven {
        /// The value's name.
        value: String,
        /// Its declaration or definition.
        span: Span,
        /// The number of rows of a microbatch.
        rows: u64,
    },
    /// A statement needs the complete batch at once.
    Mixed {
        /// Its result.
        value: String,
        /// The statement.
        span: Span,
    },
}

/// The number of microbatches, and the batch dimension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    pub(crate) dim: DimId,
    pub(crate) count: u64,
    pub(crate) span: Span,
}

/// The split that `backward` asks for; `None` where it asks for none, or for one microbatch, which
/// is the step unchanged.
pub(crate) fn asked(
    program: &Analyzed,
    directive: &Backward,
) -> Result<Option<Batch>, MicrobatchFault> {
    let Some((count, of)) = directive.microbatches.filter(|(count, _)| *count > 1) else {
        return Ok(None);
    };
    let dim = match of {
        Some(dim) => dim,
        None => inferred(program, directive)?,
    };
    if let Some(block) = program.repeats.position(|repeat| repeat.pipeline.is_some()) {
        return Err(MicrobatchFault::Staged(block));
    }
    let has = |value: &Value| value.role == Some(Role::Param) && value.dims.contains(&dim);
    let batch = &program.dims[dim];
    if let Some(param) = program.values.position(has) {
        Err(MicrobatchFault::OfParameter(param))
    } else if batch.pad || !batch.factors.is_empty() {
        Err(MicrobatchFault::NotPlain(dim))
    } else if !batch.size.is_multiple_of(count) {
        Err(MicrobatchFault::Indivisible(dim, count))
    } else {
        Ok(Some(Batch { dim, count, span: directive.span }))
    }
}

/// The dimension that all inputs share and no parameter has.
fn inferred(program: &Analyzed, directive: &Backward) -> Result<DimId, MicrobatchFault> {
    let read = |id: ValueId| {
        let mut readers = program.dataflow().uses_of(id);
        directive.given == Some(id) || readers.any(|(op, _)| op < directive.at)
    };
    let of = |role: Role| {
        program.values.iter_enumerated().filter(move |(_, value)| value.role == Some(role))
    };
    let inputs: Vec<&Value> =
        of(Role::Input).filter(|(id, _)| read(*id)).map(|(_, value)| value).collect();
    let shared =
        |dim: &DimId| !inputs.is_empty() && inputs.iter().all(|value| value.dims.contains(dim));
    let of_weights = |dim: &DimId| of(Role::Param).any(|(_, value)| value.dims.contains(dim));
    let candidates: Vec<DimId> =
        program.dims.indices().filter(|dim| shared(dim) && !of_weights(dim)).collect();
    if let [only] = candidates[..] { Ok(only) } else { Err(MicrobatchFault::Unclear(candidates)) }
}

/// Rewrites means over the batch as sums divided by its size, since the mean of a microbatch is not
/// a share of the mean of the batch.
pub(crate) fn without_means(program: &mut Program, directive: &mut Backward, batch: DimId) {
    let end = directive.at;
    let mut ops = IndexVec::new();
    for (id, op) in std::mem::take(&mut program.ops).into_iter_enumerated() {
        match &op.kind {
            OpKind::Reduce { function: ReduceFn::Mean, dims }
                if id < end && dims.contains(&batch) =>
            {
                let size =
                    dims.iter().map(|&dim| program.dims[dim].size).fold(1_u64, u64::saturating_mul);
                let name = fresh(program, &program.values[op.result].name, "sum");
                let sum = program.values.push(Value {
                    name,
                    declared_sharding: None,
                    ..program.values[op.result].clone()
                });
                let by_size = OpKind::Map(MapFn::new(MapForm::InfixScalar(
                    Arithmetic::Div,
                    size.to_string(),
                )));
                let operands = vec![Operand { value: sum, pin: None, span: op.span }];
                let kind = OpKind::Reduce { function: ReduceFn::Sum, dims: dims.clone() };
                ops.push(Op { kind, result: sum, result_pin: None, ..op.clone() });
                ops.push(Op { kind: by_size, operands, ..op });
                directive.at = OpId::new(directive.at.index() + 1);
            }
            _ => {
                ops.push(op);
            }
        }
    }
    program.ops = ops;
}

/// `In.part`: the first unused name of this kind.
fn fresh(program: &Program, name: &str, what: &str) -> String {
    let taken = |name: &String| program.values.iter().any(|value| value.name == *name);
    let plain = format!("{name}.{what}");
    let numbered = || {
        (2..=program.values.len() + 2)
            .map(|number| format!("{plain}{number}"))
            .find(|name| !taken(name))
            .unwrap_or_default()
    };
    if taken(&plain) { numbered() } else { plain }
}

/// The program with those operations before `end` that depend on the batch run once per microbatch.
pub(crate) fn cut(
    mut program: Program,
    batch: Batch,
    end: OpId,
) -> Result<Program, Vec<MicrobatchFault>> {
    let parts = add_parts(&mut program, batch);
    let program = Analyzed::from(program);
    let forms = forms::find(&program, &parts, end);
    let mut faults = forms.faults(&program);
    faults.extend(dims::uneven(&program, &parts, &forms));
    faults.extend(dims::without_batch(&program, batch.dim, &parts, end));
    if !faults.is_empty() {
        return Err(faults);
    }
    let mut program = rewrite::rewrite(program, batch, &parts, &forms);
    renumber::by_appearance(&mut program);
    shardwise_ir::sparse::mark(&mut program);
    Ok(program)
}

/// Dimensions that are replaced by smaller ones in a microbatch: the batch, and products that it is
/// a factor of.
pub(crate) type Parts = IndexMap<DimId, DimId>;

fn add_parts(program: &mut Program, batch: Batch) -> Parts {
    let mut parts = Parts::new();
    for whole in program.dims.indices() {
        if whole == batch.dim {
            let size = program.dims[whole].size / batch.count;
            let part = add_dim(program, whole, size, Vec::new());
            parts.insert(whole, part);
        }
    }
    for whole in program.dims.indices() {
        let factors = program.dims[whole].factors.clone();
        if factors.iter().any(|factor| parts.contains_key(factor)) {
            let factors: Vec<DimId> = factors
                .iter()
                .map(|factor| parts.get(factor).copied().unwrap_or(*factor))
                .collect();
            let size = program.dims[whole].size / batch.count;
            let part = add_dim(program, whole, size, factors);
            parts.insert(whole, part);
        }
    }
    parts
}

fn add_dim(program: &mut Program, whole: DimId, size: u64, factors: Vec<DimId>) -> DimId {
    let mut name = format!("{}'", program.dims[whole].name);
    while program.dims.iter().any(|dim| dim.name == name) {
        name.push('\'');
    }
    program.dims.push(Dim {
        name,
        size,
        factors,
        pad: false,
        zigzag: None,
        span: program.dims[whole].span,
    })
}
