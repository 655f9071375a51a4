//! The gradient of one operation with respect to one operand, as a formula in what it read, what it
//! gave, and the gradient of that.
//!
//! Every formula is linear in that gradient ([`Term::Given`]), and says so by its form: it is a
//! factor of a product, the first operand of a quotient, the last of a derivative. So a partial
//! gradient passes through all of them, as far as the language lets it.
//!
//! Where a function has a corner, the gradient is one that its neighbours have: `abs` and `relu`
//! are flat there, and what lies between equal operands of `maximum` goes to the second; equal
//! maxima of a reduction share theirs.

use shardwise_ir::functions;
use shardwise_ir::ids::{DimId, ValueId};
use shardwise_ir::program::{Fill, MapForm, Op, OpKind, Program, ReduceFn};
use shardwise_ir::rearrange::{Composite, EPSILON, Rearrange, Regroup, Roll, Window};

/// A formula over values of the program.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Term {
    /// The gradient of the operation's result.
    Given,
    /// A value of the forward part.
    Value(ValueId),
    /// A product; what the operand in question lacks is summed, if this is the whole formula.
    Product(Box<Term>, Box<Term>),
    /// An element-wise function.
    Map(MapForm, Vec<Term>),
    /// A sum over dimensions.
    Sum(Vec<DimId>, Box<Term>),
    /// Another operation.
    Other(OpKind, Vec<Term>),
}

/// How the gradient of a result reaches an operand.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Path {
    /// By this formula.
    Through(Term),
    /// Not at all: the result does not change with the operand, or is said not to.
    Stopped,
    /// From the layer before into this one, or out of the last one: it goes the other way round.
    Carried,
    /// Nobody knows: the function has no derivative.
    Unknown,
}

use Path::{Carried, Stopped, Through, Unknown};
use Term::{Given, Product, Value};

/// How the gradient of the result of `op` reaches operand `position`.
pub(super) fn path(program: &Program, op: &Op, position: usize) -> Path {
    match &op.kind {
        OpKind::Einsum { .. } => Through(match position {
            0 => times(Given, Value(op.operands[1].value)),
            _ => times(Value(op.operands[0].value), Given),
        }),
        OpKind::Map(function) => map(program, op, &function.form, position),
        OpKind::Reduce { function, dims } => Through(reduction(program, op, *function, dims)),
        OpKind::Gather { dim } => match position {
            0 => Through(Term::Other(
                OpKind::ScatterAdd { dim: *dim },
                vec![Given, Value(op.operands[1].value), Value(op.operands[0].value)],
            )),
            _ => Stopped,
        },
        OpKind::ScatterAdd { dim } => match position {
            0 => Through(Term::Other(
                OpKind::Gather { dim: *dim },
                vec![Given, Value(op.operands[1].value)],
            )),
            _ => Stopped,
        },
        // A cache is written between steps of inference: nobody trains through that.
        OpKind::Update { .. } => Unknown,
        OpKind::Rearrange(how) => rearranged(program, op, how, position).map_or(Unknown, Through),
        OpKind::Route(_) => Stopped,
        OpKind::Composite { function, dims } => Through(composite(program, op, *function, dims)),
        // The same array elsewhere: its gradient is the same array too, wherever that is wanted.
        OpKind::Collective(_) => Through(Given),
    }
}

/// What was moved is moved back: the transpose of each is another of them.
fn rearranged(program: &Program, op: &Op, how: &Rearrange, position: usize) -> Option<Term> {
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
        Rearrange::Concat { from, to } => {
            let start = from[..position].iter().map(|&dim| program.dims[dim].size).sum();
            Rearrange::Slice(Window { from: *to, to: from[position], start })
        }
        // Microbatches are made of what is differentiated, not the other way round.
        Rearrange::Part { .. } | Rearrange::Join { .. } => return None,
    };
    debug_assert!(position < op.operands.len(), "a position is an operand's");
    Some(Term::Other(OpKind::Rearrange(back), vec![Given]))
}

/// `g` is the gradient of `y = f(x)`, and everything is along `dims`. In all of them the gradient
/// is taken of the whole at once, which needs fewer statements than the gradients of the statements
/// that it stands for.
fn composite(program: &Program, op: &Op, function: Composite, dims: &[DimId]) -> Term {
    let (x, y) = (Value(op.operands[0].value), Value(op.result));
    let sum = |of: Term| Term::Sum(dims.to_vec(), Box::new(of));
    let size = dims.iter().map(|&dim| program.dims[dim].size).fold(1_u64, u64::saturating_mul);
    let mean = |of: Term| Term::Map(MapForm::InfixScalar('/', size.to_string()), vec![sum(of)]);
    // 1 / sqrt(mean(of^2) + epsilon)
    let inverse = |of: Term| {
        let guarded = Term::Map(
            MapForm::InfixScalar('+', EPSILON.to_owned()),
            vec![mean(call("square", vec![of]))],
        );
        call("rsqrt", vec![guarded])
    };
    match function {
        Composite::Softmax => {
            let weighted = times(y.clone(), Given);
            minus(weighted.clone(), times(y, sum(weighted)))
        }
        Composite::LogSumExp => times(Given, call("exp", vec![minus(x, y)])),
        Composite::RmsNorm => {
            let scale = inverse(x);
            times(scale, minus(Given, times(y.clone(), mean(times(y, Given)))))
        }
        Composite::LayerNorm => {
            let scale = inverse(minus(x.clone(), mean(x)));
            let centred = minus(Given, mean(Given));
            times(scale, minus(centred, times(y.clone(), mean(times(y, Given)))))
        }
    }
}

fn times(left: Term, right: Term) -> Term {
    Product(Box::new(left), Box::new(right))
}

fn over(left: Term, right: Term) -> Term {
    Term::Map(MapForm::Infix('/'), vec![left, right])
}

fn minus(left: Term, right: Term) -> Term {
    Term::Map(MapForm::Infix('-'), vec![left, right])
}

fn negative(of: Term) -> Term {
    Term::Map(MapForm::Negate, vec![of])
}

fn scaled(scalar: &str, of: Term) -> Term {
    Term::Map(MapForm::ScaleBy(scalar.to_owned()), vec![of])
}

fn call(name: &str, operands: Vec<Term>) -> Term {
    Term::Map(MapForm::Call { name: name.to_owned(), extra: Vec::new() }, operands)
}

fn broadcast(dims: &[DimId], of: Term) -> Term {
    Term::Map(MapForm::Broadcast(dims.to_vec()), vec![of])
}

fn reduction(program: &Program, op: &Op, function: ReduceFn, dims: &[DimId]) -> Term {
    match function {
        ReduceFn::Sum => broadcast(dims, Given),
        ReduceFn::Mean => {
            let size =
                dims.iter().map(|&dim| program.dims[dim].size).fold(1_u64, u64::saturating_mul);
            broadcast(dims, Term::Map(MapForm::InfixScalar('/', size.to_string()), vec![Given]))
        }
        ReduceFn::Max | ReduceFn::Min => {
            let there = call("equal", vec![Value(op.operands[0].value), Value(op.result)]);
            let count = Term::Sum(dims.to_vec(), Box::new(there.clone()));
            times(there, over(Given, count))
        }
    }
}

fn map(program: &Program, op: &Op, form: &MapForm, position: usize) -> Path {
    let operand = |k: usize| Value(op.operands[k].value);
    let (x, y) = (operand(position), Value(op.result));
    Through(match (form, position) {
        (MapForm::Infix('/'), 0) => over(Given, operand(1)),
        (MapForm::Infix('/') | MapForm::ScalarInfix(_, '/'), _) => {
            negative(over(times(y, Given), x))
        }
        (MapForm::Infix('-'), 1) | (MapForm::Negate | MapForm::ScalarInfix(_, '-'), _) => {
            negative(Given)
        }
        (MapForm::InfixScalar('/', scalar), _) => {
            Term::Map(MapForm::InfixScalar('/', scalar.clone()), vec![Given])
        }
        (
            MapForm::Infix(_)
            | MapForm::InfixScalar(..)
            | MapForm::ScalarInfix(..)
            | MapForm::Total,
            _,
        ) => Given,
        (MapForm::LoopCarried, _) => return Carried,
        (MapForm::Last, _) => {
            return if is_handed_on(program, op.operands[0].value) { Carried } else { Unknown };
        }
        (MapForm::ScaleBy(scalar), _) => scaled(scalar, Given),
        (MapForm::Broadcast(dims), _) => Term::Sum(dims.clone(), Box::new(Given)),
        (MapForm::Causal { query, key, .. }, _) => {
            Term::Map(MapForm::Causal { query: *query, key: *key, fill: Fill::Zero }, vec![Given])
        }
        (MapForm::Position(_), _) => return Stopped,
        (MapForm::Call { name, .. }, _) if name == "select" => return select(op, position),
        (MapForm::Call { name, extra }, _) => {
            return function(program, op, name, extra.first().map(String::as_str), position);
        }
    })
}

fn is_handed_on(program: &Program, value: ValueId) -> bool {
    program
        .outputs
        .iter()
        .any(|output| program.carried_into(output).is_some() && output.value == value)
}

fn function(program: &Program, op: &Op, name: &str, scalar: Option<&str>, position: usize) -> Path {
    let (x, y) = (Value(op.operands[position].value), Value(op.result));
    let by_name = |derivative: &str, x: Term| call(derivative, vec![x, Given]);
    Through(match name {
        "copy" | "identity" => Given,
        "neg" => negative(Given),
        "exp" => times(y, Given),
        "log" => over(Given, x),
        "sqrt" => scaled("0.5", over(Given, y)),
        "rsqrt" => scaled("-0.5", over(times(y, Given), x)),
        "square" => times(x, scaled("2.0", Given)),
        "sin" => times(call("cos", vec![x]), Given),
        "cos" => negative(times(call("sin", vec![x]), Given)),
        "softplus" => times(call("sigmoid", vec![x]), Given),
        "swish" => by_name("dsilu", x),
        "abs" | "erf" | "gelu" | "relu" | "sigmoid" | "silu" | "tanh" => {
            by_name(&format!("d{name}"), x)
        }
        "dabs" | "derf" | "dgelu" | "drelu" | "dsigmoid" | "dsilu" | "dtanh" if position == 1 => {
            by_name(name, Value(op.operands[0].value))
        }
        "maximum" | "minimum" => extremum(op, name == "maximum", scalar, position),
        "pow" => return power(op, scalar, position),
        "stop_gradient" | "ones" => return Stopped,
        _ if functions::is_comparison(name) => return Stopped,
        _ if name.starts_with("cast<") && program.values[op.result].dtype.is_float() => Given,
        _ => return Unknown,
    })
}

/// What was chosen gets the gradient, the other zero; a number in the place of a value gets none.
fn select(op: &Op, position: usize) -> Path {
    let mask = Value(op.operands[0].value);
    let chosen = |operands: Vec<Term>, scalar: &str| {
        Term::Map(
            MapForm::Call { name: "select".to_owned(), extra: vec![scalar.to_owned()] },
            operands,
        )
    };
    match position {
        0 => Stopped,
        1 => Through(chosen(vec![mask, Given], "0.0")),
        // Where the second is chosen the mask is false.
        _ => Through(minus(Given, chosen(vec![mask, Given], "0.0"))),
    }
}

/// What is larger gets all of it; the second of two equal ones. `relu` of the difference knows
/// which is larger.
fn extremum(op: &Op, largest: bool, scalar: Option<&str>, position: usize) -> Term {
    let x = Value(op.operands[0].value);
    let difference = match (scalar, largest) {
        (Some(scalar), true) => Term::Map(MapForm::InfixScalar('-', scalar.to_owned()), vec![x]),
        (Some(scalar), false) => Term::Map(MapForm::ScalarInfix(scalar.to_owned(), '-'), vec![x]),
        (None, true) => minus(x, Value(op.operands[1].value)),
        (None, false) => minus(Value(op.operands[1].value), x),
    };
    let first = call("drelu", vec![difference, Given]);
    if position == 0 { first } else { minus(Given, first) }
}

fn power(op: &Op, scalar: Option<&str>, position: usize) -> Path {
    let (x, y) = (Value(op.operands[0].value), Value(op.result));
    let Some(text) = scalar else {
        let exponent = Value(op.operands[1].value);
        if position == 1 {
            return Through(times(times(y, call("log", vec![x])), Given));
        }
        let less = Term::Map(MapForm::InfixScalar('-', "1.0".to_owned()), vec![exponent.clone()]);
        return Through(times(times(exponent, call("pow", vec![x, less])), Given));
    };
    let Ok(exponent) = text.parse::<f64>() else { return Unknown };
    let less = MapForm::Call { name: "pow".to_owned(), extra: vec![(exponent - 1.0).to_string()] };
    Through(times(Term::Map(less, vec![x]), scaled(text, Given)))
}
