//! The gradient of one operation with respect to one operand, as a formula in what it read, what it gave, and the gradient of that.
//!
//! Every formula is linear in that gradient ([`Term::Given`]), and says so by its form: it is a factor of a product, the first operand of a
//! quotient, the last of a derivative. So a partial gradient passes through all of them, as far as the language lets it.
//!
//! Where a function has a corner, the gradient is one that its neighbours have: `abs` and `relu` are flat there, and what lies between equal
//! operands of `maximum` goes to the second; equal maxima of a reduction share theirs.

use shardwise_ir::ids::{DimId, ValueId};
use shardwise_ir::program::{MapForm, Op, OpKind, Program, ReduceFn};

/// A formula over values of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
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
}

/// How the gradient of a result reaches an operand.
#[derive(Clone, Debug, PartialEq, Eq)]
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
        // The same array elsewhere: its gradient is the same array too, wherever that is wanted.
        OpKind::Collective(_) => Through(Given),
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
            let size = dims.iter().map(|&dim| program.dims[dim].size).fold(1_u64, u64::saturating_mul);
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
        (MapForm::Infix('/') | MapForm::ScalarInfix(_, '/'), _) => negative(over(times(y, Given), x)),
        (MapForm::Infix('-'), 1) | (MapForm::Negate | MapForm::ScalarInfix(_, '-'), _) => negative(Given),
        (MapForm::InfixScalar('/', scalar), _) => Term::Map(MapForm::InfixScalar('/', scalar.clone()), vec![Given]),
        (MapForm::Infix(_) | MapForm::InfixScalar(..) | MapForm::ScalarInfix(..), _) => Given,
        (MapForm::Enter, _) => return Carried,
        (MapForm::Last, _) => return if is_handed_on(program, op.operands[0].value) { Carried } else { Unknown },
        (MapForm::Total, _) => Given,
        (MapForm::ScaleBy(scalar), _) => scaled(scalar, Given),
        (MapForm::Broadcast(dims), _) => Term::Sum(dims.clone(), Box::new(Given)),
        (MapForm::Call { name, extra }, _) => return function(program, op, name, extra.first().map(String::as_str), position),
    })
}

fn is_handed_on(program: &Program, value: ValueId) -> bool {
    program.outputs.iter().any(|output| output.hands_to.is_some() && output.value == value)
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
        "abs" | "erf" | "gelu" | "relu" | "sigmoid" | "silu" | "tanh" => by_name(&format!("d{name}"), x),
        "dabs" | "derf" | "dgelu" | "drelu" | "dsigmoid" | "dsilu" | "dtanh" if position == 1 => by_name(name, Value(op.operands[0].value)),
        "maximum" | "minimum" => extremum(op, name == "maximum", scalar, position),
        "pow" => return power(op, scalar, position),
        "stop_gradient" | "ones" | "equal" => return Stopped,
        _ if name.starts_with("cast<") && program.values[op.result].dtype.is_float() => Given,
        _ => return Unknown,
    })
}

/// What is larger gets all of it; the second of two equal ones. `relu` of the difference knows which is larger.
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
