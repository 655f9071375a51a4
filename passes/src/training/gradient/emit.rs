//! Turns formulas into statements: each part of a formula becomes an operation, named after its
//! gradient.
//!
//! The names are those that a reader would choose: the gradient of `Tmp` is `dTmp`, its
//! contributions are `dTmp.1`, `dTmp.2`, and so on. A result has its dimensions in the order in
//! which its statement produces them, since it is printed without brackets; a gradient that the
//! program names has those of its value, by brackets that leave its sharding open unless the
//! program declares it.

use indexmap::IndexSet;
use shardwise_ir::dataflow::Dataflow;
use shardwise_ir::dtype::DType;
use shardwise_ir::functions::{Arithmetic, Function};
use shardwise_ir::ids::{DimId, OpId, RepeatId, ValueId};
use shardwise_ir::program::{
    Backward, KernelPart, MapFn, MapForm, Op, OpKind, Operand, Output, Phase, Program, ReduceFn,
    Scan, Share, Value,
};
use shardwise_ir::rearrange::Rearrange;
use shardwise_ir::shape::{dtype, infer_shape};
use shardwise_ir::sharding::Pin;
use shardwise_ir::{Span, renumber, sparse};

use super::again;
use super::narrow::gradient_dtype;
use super::rules::GradientTerm;

/// The role of a statement's result.
#[derive(Clone, Copy, Debug)]
pub(super) enum Into {
    /// The gradient of a value.
    Gradient(ValueId),
    /// A contribution to it, or an intermediate value.
    Part(ValueId),
}

impl Into {
    /// The value whose gradient is concerned.
    pub(super) fn of(self) -> ValueId {
        match self {
            Self::Gradient(of) | Self::Part(of) => of,
        }
    }
}

/// A program that statements are added to.
pub(super) struct Emitter {
    pub(super) program: Program,
    /// The statements derived so far.
    pub(super) ops: Vec<Op>,
    /// Names that are taken: of values, and of all gradients that there may be.
    taken: IndexSet<String>,
    /// For each value, the gradient that the program names.
    pub(super) named: Vec<Option<ValueId>>,
    /// For each value, the declared sharding of its gradient.
    pub(super) shardings: Vec<Option<Pin>>,
    /// Gradients that are outputs: their brackets are written there.
    declared: IndexSet<ValueId>,
    /// Values that enter or leave a block: their gradients have their dimensions in the same order.
    carried: IndexSet<ValueId>,
    /// The open blocks, the outermost first, with the index of the first statement of each.
    open: Vec<(RepeatId, usize)>,
    directive: Backward,
    span: Span,
}

impl Emitter {
    pub(super) fn new(
        program: Program,
        named: Vec<Option<ValueId>>,
        shardings: Vec<Option<Pin>>,
        directive: &Backward,
    ) -> Self {
        let names = program.values.iter().map(|value| value.name.clone());
        let gradients = program.values.iter().map(|value| gradient_name(&value.name));
        let taken = names.chain(gradients).collect();
        let declared = program.outputs.iter().map(|output| output.value).collect();
        let carried = carried(&program);
        Self {
            program,
            ops: Vec::new(),
            taken,
            named,
            shardings,
            declared,
            carried,
            open: Vec::new(),
            directive: directive.clone(),
            span: directive.span,
        }
    }

    /// The current block.
    pub(super) fn block(&self) -> Option<RepeatId> {
        self.open.last().map(|(block, _)| *block)
    }

    /// Opens a block in the current one.
    pub(super) fn enter(&mut self, block: RepeatId) {
        self.open.push((block, self.ops.len()));
    }

    /// Closes the current block.
    pub(super) fn leave(&mut self) {
        self.open.pop();
    }

    /// Adds a statement before the current block.
    pub(super) fn before(&mut self, kind: OpKind, operands: Vec<ValueId>, into: Into) -> ValueId {
        let block = self.open.pop();
        let value = self.statement(kind, operands, into);
        self.open.extend(block);
        self.move_to_start(1);
        value
    }

    /// Makes `value` loop-carried in the current block.
    pub(super) fn carry(&mut self, value: ValueId, into: Into) -> ValueId {
        let entered = self.statement(map(MapForm::LoopCarried), vec![value], into);
        self.move_to_start(0);
        entered
    }

    fn move_to_start(&mut self, before: usize) {
        let Some((_, first)) = self.open.last_mut() else { return };
        let start = (*first).min(self.ops.len() - 1);
        self.ops[start..].rotate_right(1);
        *first += before;
    }

    /// Yields a value of the current block to `enters` in the next layer.
    pub(super) fn yield_value(&mut self, value: ValueId, enters: ValueId) {
        let pin = Pin::open(self.program.values[value].dims.len());
        self.program.outputs.push(Output { value, pin, yields_to: Some(enters), span: self.span });
    }

    /// Adds `last(…)`: the value of the last layer.
    pub(super) fn last(&mut self, value: ValueId, into: Into) -> ValueId {
        self.statement(map(MapForm::Last), vec![value], into)
    }

    /// Adds `total(…)`: the sum over all layers.
    pub(super) fn total(&mut self, value: ValueId, into: Into) -> ValueId {
        self.statement(map(MapForm::Total), vec![value], into)
    }

    /// Adds `chunk(…)`: what the current step of a scan has of a value.
    pub(super) fn chunk(&mut self, value: ValueId, scan: RepeatId, into: Into) -> ValueId {
        let Some(Scan { dim, chunk }) = self.program.repeats[scan].scan else { return value };
        let how = Rearrange::Chunk { from: dim, to: chunk, step: 0 };
        self.statement(OpKind::Rearrange(how), vec![value], into)
    }

    /// Adds `stack(…)`: the values of all steps of a scan.
    pub(super) fn stack(&mut self, value: ValueId, scan: Option<RepeatId>, into: Into) -> ValueId {
        let scan = scan.and_then(|block| self.program.repeats[block].scan);
        let Some(Scan { dim, chunk }) = scan else { return value };
        let how = Rearrange::Stack { from: chunk, to: dim };
        self.statement(OpKind::Rearrange(how), vec![value], into)
    }

    /// Zeros in the shape of `like`, as a part of the gradient of `of`.
    pub(super) fn zeros(&mut self, like: ValueId, of: ValueId) -> ValueId {
        self.statement(map(MapForm::ScaleBy("0.0".to_owned())), vec![like], Into::Part(of))
    }

    /// Zeros in the shape of `like`, before the current block.
    pub(super) fn zeros_before(&mut self, like: ValueId) -> ValueId {
        self.before(map(MapForm::ScaleBy("0.0".to_owned())), vec![like], Into::Part(like))
    }

    /// The statements for `term`, where [`GradientTerm::Given`] is `given`; `known` are formulas
    /// that have a value already.
    pub(super) fn term(
        &mut self,
        term: &GradientTerm,
        given: ValueId,
        into: Into,
        known: &mut Vec<(GradientTerm, ValueId)>,
    ) -> ValueId {
        let wanted = self.program.values[into.of()].dims.clone();
        let (kind, operands) = match term {
            GradientTerm::Given => (copy(), vec![given]),
            GradientTerm::Value(value) => (copy(), vec![*value]),
            _ => self.operation(term, given, into, known),
        };
        self.summed(kind, operands, &wanted, into)
    }

    /// Adds a cast of `value`, as a part of the gradient of `of`.
    pub(super) fn cast(&mut self, value: ValueId, dtype: DType, of: ValueId) -> ValueId {
        let cast = self.statement(copy(), vec![value], Into::Part(of));
        let value = &mut self.program.values[cast];
        value.dtype = dtype;
        value.dtype_written = true;
        cast
    }

    fn dtype(&self, value: ValueId) -> DType {
        self.program.values[value].dtype
    }

    /// The operation at the root of a formula, after adding the statements of its parts.
    fn operation(
        &mut self,
        term: &GradientTerm,
        given: ValueId,
        into: Into,
        known: &mut Vec<(GradientTerm, ValueId)>,
    ) -> (OpKind, Vec<ValueId>) {
        let parts: Vec<&GradientTerm> = match term {
            GradientTerm::Given | GradientTerm::Value(_) => Vec::new(),
            GradientTerm::Product(left, right) => vec![left, right],
            GradientTerm::Map(_, terms) | GradientTerm::Other(_, terms) => terms.iter().collect(),
            GradientTerm::Sum(_, of) => vec![of],
        };
        let operands = parts.into_iter().map(|part| self.part(part, given, into, known)).collect();
        let kind = match term {
            GradientTerm::Map(form, _) => map(form.clone()),
            GradientTerm::Other(kind, _) => kind.clone(),
            GradientTerm::Sum(dims, _) => {
                OpKind::Reduce { function: ReduceFn::Sum, dims: dims.clone() }
            }
            GradientTerm::Given | GradientTerm::Value(_) | GradientTerm::Product(..) => {
                OpKind::Einsum { contracted: Vec::new() }
            }
        };
        (kind, operands)
    }

    /// The value of a part of a formula.
    fn part(
        &mut self,
        term: &GradientTerm,
        given: ValueId,
        into: Into,
        known: &mut Vec<(GradientTerm, ValueId)>,
    ) -> ValueId {
        match term {
            GradientTerm::Given => return given,
            GradientTerm::Value(value) => return *value,
            _ => {}
        }
        if let Some((_, value)) = known.iter().find(|(other, _)| other == term) {
            return *value;
        }
        let (kind, operands) = self.operation(term, given, into, known);
        let value = self.statement(kind, operands, Into::Part(into.of()));
        known.push((term.clone(), value));
        value
    }

    /// The statement for `kind`, with the dimensions other than `wanted` summed: in the same
    /// statement for a product, else in another one.
    fn summed(
        &mut self,
        kind: OpKind,
        operands: Vec<ValueId>,
        wanted: &[DimId],
        into: Into,
    ) -> ValueId {
        let extra: Vec<DimId> = self
            .natural(&kind, &operands)
            .into_iter()
            .filter(|dim| !wanted.contains(dim))
            .collect();
        let everywhere = extra.iter().all(|dim| {
            operands.iter().all(|&operand| self.program.values[operand].dims.contains(dim))
        });
        match kind {
            OpKind::Einsum { .. } if everywhere => {
                self.statement(OpKind::Einsum { contracted: extra }, operands, into)
            }
            kind if extra.is_empty() => self.statement(kind, operands, into),
            OpKind::Map(MapFn { form: MapForm::Call { function: Function::Copy, .. }, .. }) => self
                .statement(OpKind::Reduce { function: ReduceFn::Sum, dims: extra }, operands, into),
            kind => {
                let whole = self.statement(kind, operands, Into::Part(into.of()));
                self.statement(
                    OpKind::Reduce { function: ReduceFn::Sum, dims: extra },
                    vec![whole],
                    into,
                )
            }
        }
    }

    fn natural(&self, kind: &OpKind, operands: &[ValueId]) -> Vec<DimId> {
        let dims: Vec<&[DimId]> =
            operands.iter().map(|&operand| self.program.values[operand].dims.as_slice()).collect();
        infer_shape(kind, &dims)
    }

    /// The sum of two contributions to a gradient.
    pub(super) fn sum(&mut self, left: ValueId, right: ValueId, into: Into) -> ValueId {
        self.statement(map(MapForm::Infix(Arithmetic::Add)), vec![left, right], into)
    }

    /// Adds a statement. Factors and summands are swapped where that puts the dimensions in order.
    pub(super) fn statement(
        &mut self,
        kind: OpKind,
        mut operands: Vec<ValueId>,
        into: Into,
    ) -> ValueId {
        let of = into.of();
        let wanted = self.program.values[of].dims.clone();
        let mut dims = self.natural(&kind, &operands);
        let commutes = matches!(
            &kind,
            OpKind::Einsum { .. }
                | OpKind::Map(MapFn { form: MapForm::Infix(Arithmetic::Add), .. })
        );
        if commutes && dims != wanted {
            operands.reverse();
            match self.natural(&kind, &operands) {
                other if other == wanted => dims = other,
                _ => operands.reverse(),
            }
        }
        let inferred =
            dtype(&kind, &operands.iter().map(|&operand| self.dtype(operand)).collect::<Vec<_>>());
        let value = match into {
            Into::Gradient(of) => self.gradient(of, dims, inferred),
            Into::Part(of) => self.part_value(of, dims, inferred),
        };
        if matches!(&kind, OpKind::Rearrange(Rearrange::Rename(_) | Rearrange::Reshape(_))) {
            // Such a statement gets its result's dimensions from its left side only.
            let value = &mut self.program.values[value];
            value.declared_sharding.get_or_insert_with(|| Pin::open(value.dims.len()));
        }
        let result_pin = self.program.values[value].declared_sharding.clone();
        let operands = operands
            .into_iter()
            .map(|value| Operand { value, pin: None, span: self.span })
            .collect();
        self.ops.push(Op {
            kind,
            operands,
            result: value,
            result_pin,
            phase: Phase::Backward,
            share: Share::WHOLE,
            is_kept: false,
            kernel: KernelPart::default(),
            repeat: self.block(),
            span: self.span,
        });
        value
    }

    fn part_value(&mut self, of: ValueId, dims: Vec<DimId>, dtype: DType) -> ValueId {
        let base = gradient_name(&self.program.values[of].name);
        let mut number = 1;
        while self.taken.contains(&format!("{base}.{number}")) {
            number += 1;
        }
        let name = format!("{base}.{number}");
        self.taken.insert(name.clone());
        let wide = if dtype.is_narrow_float() {
            gradient_dtype(&self.program, &self.directive, of)
        } else {
            dtype
        };
        let value = Value::result(name, dims, wide, self.span);
        let (repeat, dtype_written) = (self.block(), wide != dtype);
        self.program.values.push(Value { repeat, dtype_written, ..value })
    }

    /// The gradient of `of`, the result of a statement with dimensions `dims` and dtype `inferred`.
    fn gradient(&mut self, of: ValueId, dims: Vec<DimId>, inferred: DType) -> ValueId {
        let named = self.named[of.index()];
        let declared = named.is_some_and(|gradient| self.declared.contains(&gradient));
        let value = &self.program.values[of];
        let (name, wanted) = (gradient_name(&value.name), value.dims.clone());
        let dtype = gradient_dtype(&self.program, &self.directive, of);
        let ordered = dims == wanted;
        let sharding = self.shardings[of.index()].clone();
        let open = || Pin::open(wanted.len());
        let carried = self.carried.contains(&of);
        let sharding =
            sharding.or_else(|| ((named.is_some() || carried) && !declared && !ordered).then(open));
        let keep = declared || sharding.is_some();
        let gradient = named.unwrap_or_else(|| {
            let span = self.span;
            let value = Value::result(name, Vec::new(), dtype, span);
            self.program.values.push(value)
        });
        let block = self.block();
        let value = &mut self.program.values[gradient];
        value.repeat = block;
        value.dims = if keep { wanted } else { dims };
        value.dtype_written = dtype != inferred;
        value.declared_sharding = sharding;
        gradient
    }

    /// The program, of which this is the dataflow so far, with the derived statements before
    /// operation `at`, and its values in the order in which they appear.
    pub(super) fn finish(mut self, at: OpId, dataflow: &Dataflow<OpId>) -> Program {
        let later = self.program.ops.split_off(at);
        let Self { program, ops, taken, span, .. } = &mut self;
        let derived = again::recompute(program, std::mem::take(ops), taken, *span, dataflow);
        self.program.ops.extend(derived);
        self.program.ops.extend(later);
        self.program.backward = None;
        renumber::by_appearance(&mut self.program);
        sparse::mark(&mut self.program);
        self.program
    }
}

/// `dTmp`.
pub(super) fn gradient_name(name: &str) -> String {
    format!("d{name}")
}

/// The values that enter blocks, are carried from layer to layer, or leave blocks.
fn carried(program: &Program) -> IndexSet<ValueId> {
    let yielded = program
        .outputs
        .iter()
        .filter(|output| program.carried_into(output).is_some())
        .map(|output| output.value);
    let borders =
        program.ops.iter().filter(|op| op.is(&MapForm::LoopCarried) || op.is(&MapForm::Last));
    borders.flat_map(|op| [op.result, op.operands[0].value]).chain(yielded).collect()
}

fn map(form: MapForm) -> OpKind {
    OpKind::Map(MapFn::new(form))
}

/// The same array under another name; the left side says its dtype.
fn copy() -> OpKind {
    map(MapForm::call(Function::Copy))
}
