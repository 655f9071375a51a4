//! The gradient of one operation with respect to one operand, as a formula in its operands, its
//! result, and the gradient of its result.
//!
//! Every formula is linear in that gradient ([`GradientTerm::Given`]) by its form: the gradient is
//! a factor of a product, the first operand of a quotient, the last of a derivative. So a partial
//! gradient passes through all of them, as far as the language allows it.
//!
//! The derivatives of functions, reductions and composites are [`Formula`]s in their tables
//! ([`shardwise_ir::functions`]); this module writes them over the values of an operation.
//! Operations with their own syntax, and those that rearrange elements, are derived here.

use shardwise_ir::functions::{Along, AlongGradient, Arithmetic, Formula, Function, Gradient};
use shardwise_ir::ids::{DimId, ValueId};
use shardwise_ir::program::{Fill, MapForm, Op, OpKind, Program, ReduceFn};
use shardwise_ir::rearrange::{Rearrange, Regroup, Roll, Window};

/// A formula over values of the program.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum GradientTerm {
    /// The gradient of the operation's result.
    Given,
    /// A value of the forward pass.
    Value(ValueId),
    /// A product; dimensions that the operand lacks are summed, if this is the complete formula.
    Product(Box<GradientTerm>, Box<GradientTerm>),
    /// An element-wise function.
    Map(MapForm, Vec<GradientTerm>),
    /// A sum over dimensions.
    Sum(Vec<DimId>, Box<GradientTerm>),
    /// Another operation.
    Other(OpKind, Vec<GradientTerm>),
}

/// How the gradient of a result reaches an operand.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Path {
    /// Through this formula.
    Through(GradientTerm),
    /// Not at all: the result does not depend on the operand, or its author stopped the gradient.
    Stopped,
    /// Across the boundary of layers, in the opposite direction.
    Carried,
    /// From the chunk that a step of a scan reads to the value that it is of.
    Chunked,
    /// From the values of all steps of a scan to that of each.
    Stacked,
    /// The function has no derivative.
    Unknown,
}

use GradientTerm::{Given, Product, Value};
use Path::{Carried, Chunked, Stacked, Stopped, Through, Unknown};

/// How the gradient of the result of `op` reaches operand `position`.
pub(super) fn path(program: &Program, op: &Op, position: usize) -> Path {
    match &op.kind {
        OpKind::Einsum { .. } => Through(match position {
            0 => times(Given, Value(op.operands[1].value)),
            _ => times(Value(op.operands[0].value), Given),
        }),
        OpKind::Map(function) => map(program, op, &function.form, position),
        OpKind::Reduce { function, dims } => {
            FormulaEmitter { program, op, dims }.path(&function.row().gradient)
        }
        OpKind::Gather { dim } => match position {
            0 => Through(GradientTerm::Other(
                OpKind::ScatterAdd { dim: *dim },
                vec![Given, Value(op.operands[1].value), Value(op.operands[0].value)],
            )),
            _ => Stopped,
        },
        OpKind::ScatterAdd { dim } => match position {
            0 => Through(GradientTerm::Other(
                OpKind::Gather { dim: *dim },
                vec![Given, Value(op.operands[1].value)],
            )),
            _ => Stopped,
        },
        // A cache is written between steps of inference, which are not differentiated.
        OpKind::Update { .. } | OpKind::Opaque(_) => Unknown,
        OpKind::Rearrange(Rearrange::Chunk { .. }) => Chunked,
        OpKind::Rearrange(Rearrange::Stack { .. }) => Stacked,
        OpKind::Rearrange(how) => rearranged(program, op, how, position).map_or(Unknown, Through),
        OpKind::Route(_) => Stopped,
        OpKind::Along(along) => function_along(op, along),
        OpKind::Composite { function, dims } => {
            FormulaEmitter { program, op, dims }.path(&function.row().gradient)
        }
        // A reshard is the identity, and so is its gradient, in any sharding.
        OpKind::Collective(_) => Through(Given),
    }
}

fn function_along(op: &Op, along: &Along) -> Path {
    let x = || Value(op.operands[0].value);
    let other = |function| OpKind::Along(Along { function, ..*along });
    match along.function.row().gradient {
        AlongGradient::Transposed(back) => Through(GradientTerm::Other(other(back), vec![Given])),
        AlongGradient::PutAt(at) => {
            let indices = GradientTerm::Other(other(at), vec![x()]);
            let put = OpKind::ScatterAdd { dim: along.from };
            Through(GradientTerm::Other(put, vec![Given, indices, x()]))
        }
        AlongGradient::Zero => Stopped,
    }
}

/// Rearrangements: the transpose of each is another of them.
fn rearranged(
    program: &Program,
    op: &Op,
    how: &Rearrange,
    position: usize,
) -> Option<GradientTerm> {
    let back = match how {
        Rearrange::Rename(pairs) => {
            Rearrange::Rename(pairs.iter().map(|&(old, new)| (new, old)).collect())
        }
        Rearrange::Reshape(groups) => Rearrange::Reshape(
            groups
                .iter()
                .map(|Regroup { from, to }| Regroup { from: to.clone(), to: from.clone() })
                .collect(),
        ),
        Rearrange::Slice(Window { from, to, start }) => {
            Rearrange::Pad(Window { from: *to, to: *from, start: *start })
        }
        Rearrange::Pad(Window { from, to, start }) => {
            Rearrange::Slice(Window { from: *to, to: *from, start: *start })
        }
        Rearrange::Roll(Roll { dim, by }) => {
            Rearrange::Roll(Roll { dim: *dim, by: program.dims[*dim].size - by })
        }
        Rearrange::Windows(windows) => Rearrange::Overlap(*windows),
        Rearrange::Overlap(windows) => Rearrange::Windows(*windows),
        Rearrange::Concat { from, to } => {
            let start = from[..position].iter().map(|&dim| program.dims[dim].size).sum();
            Rearrange::Slice(Window { from: *to, to: from[position], start })
        }
        // Microbatches are split after differentiation.
        // Gradients pass chunks and stacks where blocks are reversed.
        Rearrange::Part { .. }
        | Rearrange::Join { .. }
        | Rearrange::Chunk { .. }
        | Rearrange::Stack { .. } => return None,
    };
    debug_assert!(position < op.operands.len(), "a position is an operand's");
    Some(GradientTerm::Other(OpKind::Rearrange(back), vec![Given]))
}

/// A formula of a table, over the values of one operation.
struct FormulaEmitter<'a> {
    program: &'a Program,
    op: &'a Op,
    /// The dimensions of the operation.
    dims: &'a [DimId],
}

/// The result of a formula: numbers stay separate, as the language writes them into operations.
enum Written {
    Number(String),
    Value(GradientTerm),
}

impl FormulaEmitter<'_> {
    fn path(&self, formula: &Formula) -> Path {
        self.term(formula).map_or(Unknown, Through)
    }

    /// `None` for a formula without a value, and for numbers that cannot be computed with.
    fn term(&self, formula: &Formula) -> Option<GradientTerm> {
        match self.written(formula)? {
            Written::Value(term) => Some(term),
            Written::Number(_) => None,
        }
    }

    fn written(&self, formula: &Formula) -> Option<Written> {
        let number = |text: &str| Some(Written::Number(text.to_owned()));
        let term = match formula {
            Formula::Given => Given,
            Formula::Result => Value(self.op.result),
            Formula::Operand(position) => return self.operand(*position),
            Formula::Number(text) => return number(text),
            Formula::Count => return number(&self.count().to_string()),
            Formula::Negate(of) => negative(self.term(of)?),
            Formula::Infix(how, left, right) => {
                return infix(*how, self.written(left)?, self.written(right)?);
            }
            Formula::Product(left, right) => match (self.written(left)?, self.written(right)?) {
                (Written::Value(left), Written::Value(right)) => times(left, right),
                (Written::Number(scalar), Written::Value(of))
                | (Written::Value(of), Written::Number(scalar)) => scaled(&scalar, of),
                (Written::Number(_), Written::Number(_)) => return None,
            },
            Formula::Call(function, arguments) => self.call(*function, arguments)?,
            Formula::Reduce(ReduceFn::Sum, of) => {
                GradientTerm::Sum(self.dims.to_vec(), Box::new(self.term(of)?))
            }
            Formula::Reduce(function, of) => GradientTerm::Other(
                OpKind::Reduce { function: *function, dims: self.dims.to_vec() },
                vec![self.term(of)?],
            ),
            Formula::Broadcast(of) => {
                GradientTerm::Map(MapForm::Broadcast(self.dims.to_vec()), vec![self.term(of)?])
            }
            Formula::IfNumber(position, number, value) => {
                let is_number = *position >= self.op.operands.len();
                return self.written(if is_number { number } else { value });
            }
        };
        Some(Written::Value(term))
    }

    /// Numbers come after the values that they replace.
    fn operand(&self, position: usize) -> Option<Written> {
        let values = &self.op.operands;
        if let Some(operand) = values.get(position) {
            return Some(Written::Value(Value(operand.value)));
        }
        let OpKind::Map(function) = &self.op.kind else { return None };
        let MapForm::Call { numbers, .. } = &function.form else { return None };
        numbers.get(position - values.len()).cloned().map(Written::Number)
    }

    fn call(&self, function: Function, arguments: &[Formula]) -> Option<GradientTerm> {
        let (mut values, mut numbers) = (Vec::new(), Vec::new());
        for argument in arguments {
            match self.written(argument)? {
                Written::Value(term) => values.push(term),
                Written::Number(text) => numbers.push(text),
            }
        }
        Some(GradientTerm::Map(MapForm::Call { function, numbers }, values))
    }

    fn count(&self) -> u64 {
        let sizes = self.dims.iter().map(|&dim| self.program.dims[dim].size);
        sizes.fold(1, u64::saturating_mul)
    }
}

fn infix(how: Arithmetic, left: Written, right: Written) -> Option<Written> {
    Some(match (left, right) {
        (Written::Number(left), Written::Number(right)) => {
            let value = how.evaluate(left.parse().ok()?, right.parse().ok()?);
            Written::Number(value.to_string())
        }
        (Written::Number(scalar), Written::Value(of)) => {
            Written::Value(GradientTerm::Map(MapForm::ScalarInfix(scalar, how), vec![of]))
        }
        (Written::Value(of), Written::Number(scalar)) => {
            Written::Value(GradientTerm::Map(MapForm::InfixScalar(how, scalar), vec![of]))
        }
        (Written::Value(left), Written::Value(right)) => {
            Written::Value(GradientTerm::Map(MapForm::Infix(how), vec![left, right]))
        }
    })
}

fn times(left: GradientTerm, right: GradientTerm) -> GradientTerm {
    Product(Box::new(left), Box::new(right))
}

fn over(left: GradientTerm, right: GradientTerm) -> GradientTerm {
    GradientTerm::Map(MapForm::Infix(Arithmetic::Div), vec![left, right])
}

fn negative(of: GradientTerm) -> GradientTerm {
    GradientTerm::Map(MapForm::Negate, vec![of])
}

fn scaled(scalar: &str, of: GradientTerm) -> GradientTerm {
    GradientTerm::Map(MapForm::ScaleBy(scalar.to_owned()), vec![of])
}

fn map(program: &Program, op: &Op, form: &MapForm, position: usize) -> Path {
    let operand = |k: usize| Value(op.operands[k].value);
    let (x, y) = (operand(position), Value(op.result));
    Through(match (form, position) {
        (MapForm::Infix(Arithmetic::Div), 0) => over(Given, operand(1)),
        (MapForm::Infix(Arithmetic::Div) | MapForm::ScalarInfix(_, Arithmetic::Div), _) => {
            negative(over(times(y, Given), x))
        }
        (MapForm::Infix(Arithmetic::Sub), 1)
        | (MapForm::Negate | MapForm::ScalarInfix(_, Arithmetic::Sub), _) => negative(Given),
        (MapForm::InfixScalar(Arithmetic::Div, scalar), _) => {
            GradientTerm::Map(MapForm::InfixScalar(Arithmetic::Div, scalar.clone()), vec![Given])
        }
        (
            MapForm::Infix(Arithmetic::Add | Arithmetic::Sub)
            | MapForm::InfixScalar(Arithmetic::Add | Arithmetic::Sub, _)
            | MapForm::ScalarInfix(_, Arithmetic::Add)
            | MapForm::Total
            | MapForm::Host(_),
            _,
        ) => Given,
        (MapForm::LoopCarried, _) => return Carried,
        (MapForm::Last, _) if is_yielded(program, op.operands[0].value) => return Carried,
        (MapForm::Last, _) if is_of_one_layer(program, op) => Given,
        (MapForm::ScaleBy(scalar), _) => scaled(scalar, Given),
        (MapForm::Broadcast(dims), _) => GradientTerm::Sum(dims.clone(), Box::new(Given)),
        (MapForm::Causal { query, key, .. }, _) => GradientTerm::Map(
            MapForm::Causal { query: *query, key: *key, fill: Fill::Zero },
            vec![Given],
        ),
        (MapForm::Constant { .. } | MapForm::Iota(_) | MapForm::Position(_), _) => return Stopped,
        (MapForm::Cast(_), _) if program.values[op.result].dtype.is_float() => Given,
        (MapForm::Cast(_) | MapForm::Last, _) => return Unknown,
        (MapForm::Call { function, .. }, _) => return called(program, op, *function, position),
    })
}

/// Whether an operation exports a value of a block of one layer: its sum over all layers.
fn is_of_one_layer(program: &Program, op: &Op) -> bool {
    let block = program.exited_block(op.repeat, op.operands[0].value);
    block.is_some_and(|block| program.repeats[block].count == 1)
}

fn called(program: &Program, op: &Op, function: Function, position: usize) -> Path {
    match &function.row().operands[position].gradient {
        Gradient::Through(formula) => FormulaEmitter { program, op, dims: &[] }.path(formula),
        Gradient::Zero | Gradient::Stopped => Stopped,
        Gradient::Undefined => Unknown,
    }
}

fn is_yielded(program: &Program, value: ValueId) -> bool {
    program
        .outputs
        .iter()
        .any(|output| program.carried_into(output).is_some() && output.value == value)
}
