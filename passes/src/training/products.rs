//! Products with weights of layers in a narrow dtype: converts their operands.
//!
//! Before, with `hardware h100, products=fp8`:
//!
//! ```text
//! h = x *D W
//! dW = x *B dh
//! dx = dh *F W
//! ```
//!
//! After:
//!
//! ```text
//! W.fp8 = cast<fp8>(W)
//! x.fp8 = cast<fp8>(x)
//! h: bf16 = x.fp8 *D W.fp8
//! dh.fp8 = cast<fp8>(dh)
//! dW: bf16 = x.fp8 *B dh.fp8
//! dx: bf16 = dh.fp8 *F W.fp8
//! ```
//!
//! So the three products of a weight run at the peak of the narrow dtype and add up in the dtype
//! that their results had, as in Transformer Engine and torchao's `float8`. Nothing else changes:
//! parameters, gradients and the state of the optimizer keep their dtypes, and so do embeddings,
//! the head, norms and attention, which frameworks leave out as well. A program without layers has
//! its products with all weights converted.
//!
//! A conversion is a statement like any other. A shard of a weight may be converted before it is
//! gathered, which halves the bytes, or after; what is kept for the backward part is the narrow
//! value. Partial sums are never converted: the scale of a narrow dtype is that of the whole sum.
//! A value is converted once, where it is computed, and a weight at the start of its block, so that
//! its gather can run beside what comes before the product. What a block with a `checkpoint`
//! computes again is converted there, too, and so is a weight that is gathered again going back
//! (`W.fp8.back`). A plan that gathers a weight once for all microbatches gathers it in its own
//! dtype: what is kept from one to the next is a parameter.
//!
//! Scales are not values of the plan: they are one number for each array or row of it.

use index_vec::IndexVec;
use indexmap::{IndexMap, IndexSet};
use rustc_hash::{FxHashMap, FxHashSet};
use shardwise_ir::Role;
use shardwise_ir::dtype::DType;
use shardwise_ir::ids::{OpId, RepeatId, ValueId};
use shardwise_ir::program::{
    Blocks, KernelPart, MapFn, MapForm, Op, OpKind, Operand, Phase, Program, Share, Value,
};
use shardwise_ir::weights::{uncast, weights};
use shardwise_ir::{renumber, shape, sparse};

use crate::training::frameworks::regathered;

/// The program with the operands of its products in the dtype that it asks for.
pub(crate) fn convert(mut program: Program) -> Program {
    let Some(dtype) = std::mem::take(&mut program.products).dtype() else { return program };
    let weights = weights(&program);
    let products = products_of_weights(&program, &weights);
    let mut converter = Converter::new(program, weights, dtype);
    for product in products {
        converter.convert(product);
    }
    converter.finish()
}

/// The parameters that these products multiply and nothing else reads, converted or not.
pub fn weights_of_products(program: &Program) -> IndexSet<ValueId> {
    let (weights, uncast) = (weights(program), uncast(program));
    let products: IndexMap<OpId, ValueId> = with_weight(program, &weights).collect();
    let mut found: IndexSet<ValueId> = products.values().map(|&weight| uncast[weight]).collect();
    found.retain(|value| program.values[*value].role == Some(Role::Param));
    for (id, op) in program.ops.iter_enumerated().filter(|(_, op)| op.phase == Phase::Forward) {
        if !products.contains_key(&id) && uncast[op.result] == op.result {
            found.retain(|value| op.operands.iter().all(|operand| operand.value != *value));
        }
    }
    found
}

/// The dtypes of the operands of these products, one after another.
pub fn dtypes_of_products(program: &Program) -> Vec<DType> {
    let weights = weights(program);
    let operands = with_weight(program, &weights).flat_map(|(id, _)| &program.ops[id].operands);
    operands.map(|operand| program.values[operand.value].dtype).collect()
}

/// Products of a weight and something else, in layers where there are any.
fn with_weight<'p>(
    program: &'p Program,
    weights: &'p IndexVec<ValueId, bool>,
) -> impl Iterator<Item = (OpId, ValueId)> + 'p {
    let is_counted = in_layers(program);
    let products = program.ops.iter_enumerated().filter(move |(_, op)| is_counted(op));
    products.filter_map(|(id, op)| {
        let mut of_weights = op.operands.iter().filter(|operand| weights[operand.value]);
        let (weight, other) = (of_weights.next()?, of_weights.next());
        other.is_none().then_some((id, weight.value))
    })
}

/// Whether an operation is a product of matrices in layers; anywhere, where there are none.
fn in_layers(program: &Program) -> impl Fn(&Op) -> bool {
    let has_layers = program.repeats.iter().any(|block| block.has_layers());
    move |op| {
        let is_there = |block: RepeatId| program.repeats[block].has_layers();
        program.is_matrix_product(op)
            && (!has_layers || program.repeats.outwards(op.repeat).any(is_there))
    }
}

/// These products and those of their weights' gradients: of the backward part, without a weight
/// among the operands, and with the dimensions of one that is multiplied.
fn products_of_weights(program: &Program, weights: &IndexVec<ValueId, bool>) -> Vec<OpId> {
    let found: IndexMap<OpId, ValueId> = with_weight(program, weights).collect();
    let sorted = |value: ValueId| {
        let mut dims = program.values[value].dims.clone();
        dims.sort_unstable();
        dims
    };
    let multiplied: FxHashSet<_> = found.values().map(|&weight| sorted(weight)).collect();
    let is_counted = in_layers(program);
    let is_gradient = |op: &Op| {
        op.phase == Phase::Backward
            && is_counted(op)
            && op.operands.iter().all(|operand| !weights[operand.value])
            && multiplied.contains(&sorted(op.result))
    };
    let is_one = |&(id, op): &(OpId, &Op)| found.contains_key(&id) || is_gradient(op);
    program.ops.iter_enumerated().filter(is_one).map(|(id, _)| id).collect()
}

/// Where a conversion stands: in a block at its start, before an operation, or after one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Start(Option<RepeatId>),
    Before(Option<RepeatId>),
    After(OpId),
}

/// A program whose products are converted.
struct Converter {
    program: Program,
    weights: IndexVec<ValueId, bool>,
    dtype: DType,
    /// Weights that are gathered again going back.
    regathered: IndexSet<ValueId>,
    /// The operation that computes each value.
    producers: FxHashMap<ValueId, OpId>,
    /// What is converted already.
    converted: FxHashMap<(ValueId, Place), ValueId>,
    taken: FxHashSet<String>,
    /// Conversions, each before the operation with this number.
    inserted: Vec<(usize, Op)>,
}

impl Converter {
    fn new(program: Program, weights: IndexVec<ValueId, bool>, dtype: DType) -> Self {
        let regathered = regathered(&program);
        let made = program.ops.iter_enumerated().filter(|(_, op)| !op.is_reshard());
        let producers = made.map(|(id, op)| (op.result, id)).collect();
        let taken = program.values.iter().map(|value| value.name.clone()).collect();
        Self {
            program,
            weights,
            dtype,
            regathered,
            producers,
            converted: FxHashMap::default(),
            taken,
            inserted: Vec::new(),
        }
    }

    /// Converts the operands of a product; its result keeps its dtype.
    fn convert(&mut self, product: OpId) {
        for position in 0..self.program.ops[product].operands.len() {
            let value = self.program.ops[product].operands[position].value;
            let own = self.program.values[value].dtype;
            if own.is_float() && own.bits() > self.dtype.bits() {
                let narrow = self.converted(value, product);
                self.program.ops[product].operands[position].value = narrow;
            }
        }
        let op = &self.program.ops[product];
        let dtypes: Vec<DType> =
            op.operands.iter().map(|of| self.program.values[of.value].dtype).collect();
        let (inferred, result) = (shape::dtype(&op.kind, &dtypes), op.result);
        let result = &mut self.program.values[result];
        result.dtype_written = result.dtype != inferred;
    }

    /// The value in the narrow dtype, for this reader.
    fn converted(&mut self, value: ValueId, reader: OpId) -> ValueId {
        let place = self.place(value, reader);
        if let Some(&known) = self.converted.get(&(value, place)) {
            return known;
        }
        let (own, reader_op) = (&self.program.values[value], &self.program.ops[reader]);
        let (repeat, phase) = match place {
            Place::Start(block) if block != reader_op.repeat => (block, Phase::Forward),
            Place::Start(_) | Place::Before(_) => (reader_op.repeat, reader_op.phase),
            Place::After(producer) => {
                let producer = &self.program.ops[producer];
                (producer.repeat, producer.phase)
            }
        };
        let (dims, span) = (own.dims.clone(), reader_op.span);
        let again = self.program.values[value].role.is_some() || !matches!(place, Place::After(_));
        let name = self.fresh(value, again && phase == Phase::Backward);
        let narrow = Value { repeat, ..Value::result(name, dims, self.dtype, span) };
        let result = self.program.values.push(narrow);
        let cast = MapFn::cast(self.program.values[value].dtype, self.dtype);
        let op = Op {
            kind: OpKind::Map(cast),
            operands: vec![Operand { value, pin: None, span }],
            result,
            result_pin: None,
            phase,
            share: Share::WHOLE,
            is_kept: false,
            kernel: KernelPart::default(),
            repeat,
            span,
        };
        self.inserted.push((self.number(place, reader), op));
        self.converted.insert((value, place), result);
        result
    }

    /// Where a value is converted.
    fn place(&self, value: ValueId, reader: OpId) -> Place {
        let op = &self.program.ops[reader];
        let Some(&producer) = self.producers.get(&value) else {
            return match op.repeat.filter(|_| !self.regathered.contains(&value)) {
                _ if !self.weights[value] => Place::Before(op.repeat),
                Some(block) => Place::Start(Some(self.program.repeats.forward_block(block))),
                None => Place::Start(op.repeat),
            };
        };
        let made = &self.program.ops[producer];
        let is_checkpointed = |block: RepeatId| self.program.repeats[block].checkpoint.is_some();
        let is_made_again = made.phase == Phase::Forward
            && op.phase == Phase::Backward
            && self.program.repeats.outwards(made.repeat).any(is_checkpointed);
        if is_made_again { Place::Before(op.repeat) } else { Place::After(producer) }
    }

    /// The number of the operation before which a conversion stands; what enters a block comes
    /// first there.
    fn number(&self, place: Place, reader: OpId) -> usize {
        let ops = &self.program.ops;
        let (from, block) = match place {
            Place::Before(_) => return reader.index(),
            Place::After(producer) => (producer.index() + 1, ops[producer].repeat),
            Place::Start(block) => {
                let is_inside = |op: &Op| {
                    block.is_none_or(|block| self.program.repeats.is_inside(op.repeat, block))
                };
                (ops.iter().position(is_inside).unwrap_or(reader.index()), block)
            }
        };
        let enters = |op: &&Op| op.is(&MapForm::LoopCarried) && op.repeat == block;
        from + ops.iter().skip(from).take_while(enters).count()
    }

    /// `W.fp8`, or `W.fp8.back` of what is converted again going back.
    fn fresh(&mut self, value: ValueId, is_again: bool) -> String {
        let back = if is_again { ".back" } else { "" };
        let base = format!("{}.{}{back}", self.program.values[value].name, self.dtype.name());
        let numbered = (2..).map(|number| format!("{base}{number}"));
        let mut names = std::iter::once(base.clone()).chain(numbered);
        let free = names.find(|name| !self.taken.contains(name)).unwrap_or(base);
        self.taken.insert(free.clone());
        free
    }

    /// The program with its conversions, and its values in the order in which they appear.
    fn finish(mut self) -> Program {
        self.inserted.sort_by_key(|(before, _)| *before);
        let mut inserted = self.inserted.into_iter().peekable();
        let mut ops: IndexVec<OpId, Op> = IndexVec::new();
        for (number, op) in std::mem::take(&mut self.program.ops).into_iter().enumerate() {
            while let Some((_, conversion)) = inserted.next_if(|(before, _)| *before == number) {
                ops.push(conversion);
            }
            ops.push(op);
        }
        self.program.ops = ops;
        renumber::by_appearance(&mut self.program);
        sparse::mark(&mut self.program);
        self.program
    }
}
