//! Element-wise functions.

use shardwise_ir::dtype::DType;

use super::super::json::{Argument, StepJson};
use super::super::walk::{Result, unsupported};
use super::array::{Array, promoted};
use super::builder::Builder;
use super::local::number;
use super::writer::{Writer, names};

/// Operations of one operand, by their names in the language.
const UNARY: &[(&str, &str)] = &[
    ("abs", "abs"),
    ("cos", "cosine"),
    ("exp", "exponential"),
    ("expm1", "exponential_minus_one"),
    ("log", "log"),
    ("neg", "negate"),
    ("round", "round_nearest_even"),
    ("rsqrt", "rsqrt"),
    ("sigmoid", "logistic"),
    ("sin", "sine"),
    ("sqrt", "sqrt"),
    ("tanh", "tanh"),
];

/// Operations of two operands.
const BINARY: &[(&str, &str)] = &[
    ("add", "add"),
    ("sub", "subtract"),
    ("mul", "multiply"),
    ("div", "divide"),
    ("maximum", "maximum"),
    ("minimum", "minimum"),
    ("pow", "power"),
];

/// Comparisons.
const COMPARED: &[(&str, &str)] = &[
    ("equal", "EQ"),
    ("not_equal", "NE"),
    ("greater", "GT"),
    ("greater_equal", "GE"),
    ("less", "LT"),
    ("less_equal", "LE"),
];

fn found(table: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    table.iter().find(|(known, _)| *known == name).map(|(_, operation)| *operation)
}

impl Writer<'_> {
    /// An element-wise step: operands in the shape of the result, and in one type.
    pub(super) fn map(
        &mut self,
        step: &StepJson,
        function: &str,
        arguments: &[Argument],
        of: &[Array],
    ) -> Result<Array> {
        let (order, shape) = (names(&step.result), self.shape(&step.result));
        let planned = self.dtype(&step.value);
        let compared = found(COMPARED, function);
        let is_selection = function == "select";
        let types = of.iter().skip(usize::from(is_selection)).map(|array| array.dtype);
        let dtype =
            if compared.is_some() { promoted(types) } else { promoted(types.chain([planned])) };
        let dtype = computed_in(dtype, arguments);
        let mut a = Vec::new();
        for (place, argument) in arguments.iter().enumerate() {
            a.push(match argument {
                Argument::Number(text) => self.builder.constant(number(text), &shape, dtype),
                Argument::Operand(operand) => {
                    let dims = names(&step.operands[*operand]);
                    let is_mask = is_selection && place == 0;
                    let array = &of[*operand];
                    let array = if is_mask {
                        self.is_true(array)
                    } else {
                        self.builder.convert(array, dtype)
                    };
                    self.aligned(&array, &dims, (&order, &shape))
                }
            });
        }
        if let Some(how) = compared {
            return Ok(self.builder.compare(how, &a[0], &a[1]));
        }
        match called(&mut self.builder, function, &a) {
            Some(made) => Ok(made),
            None => unsupported(&step.value, format!("the function `{function}`")),
        }
    }
}

/// A type that has the numbers which are written among arguments.
fn computed_in(dtype: DType, arguments: &[Argument]) -> DType {
    let is_fraction = |argument: &Argument| match argument {
        Argument::Number(text) => number(text).fract() != 0.0,
        Argument::Operand(_) => false,
    };
    if !dtype.is_float() && arguments.iter().any(is_fraction) { DType::F32 } else { dtype }
}

/// A function of the language on arguments.
fn called(b: &mut Builder, function: &str, a: &[Array]) -> Option<Array> {
    if let Some(operation) = found(UNARY, function) {
        return Some(b.unary(operation, &a[0]));
    }
    if let Some(operation) = found(BINARY, function) {
        return Some(b.binary(operation, &a[0], &a[1]));
    }
    activation(b, function, a).or_else(|| update(b, function, a))
}

/// The same array in another memory.
fn placed(b: &mut Builder, x: &Array, memory: &str) -> Array {
    let text = format!(
        "stablehlo.custom_call @annotate_device_placement({}) {{has_side_effect = true, \
            mhlo.frontend_attributes = {{_xla_buffer_placement = \"{memory}\"}}}} : ({}) -> {}",
        x.name,
        x.ty(),
        x.ty()
    );
    b.define(&x.shape, x.dtype, &text)
}

/// Activations and their derivatives, the latter times the second argument.
fn activation(b: &mut Builder, function: &str, a: &[Array]) -> Option<Array> {
    let x = &a[0];
    Some(match function {
        "copy" | "identity" => x.clone(),
        "stop_gradient" => b.unary("optimization_barrier", x),
        "offload" => placed(b, x, "pinned_host"),
        "reload" => placed(b, x, "device"),
        "ones" => b.like(x, 1.0),
        "square" => b.binary("multiply", x, x),
        "erf" => {
            let text = format!("chlo.erf {} : {} -> {}", x.name, x.ty(), x.ty());
            b.define(&x.shape, x.dtype, &text)
        }
        "relu" => b.with("maximum", x, 0.0),
        "silu" | "swish" => {
            let gate = b.unary("logistic", x);
            b.binary("multiply", x, &gate)
        }
        "gelu" => {
            let share = gelu_share(b, x);
            b.binary("multiply", x, &share)
        }
        "softplus" => softplus(b, x),
        "drelu" => {
            let zero = b.like(x, 0.0);
            let is_above = b.compare("GT", x, &zero);
            let zero = b.like(&a[1], 0.0);
            b.select(&is_above, &a[1], &zero)
        }
        "select" => b.select(x, &a[1], &a[2]),
        "dabs" => {
            let sign = b.unary("sign", x);
            b.binary("multiply", &a[1], &sign)
        }
        "dtanh" | "dsigmoid" | "dsilu" | "dgelu" | "derf" => {
            let slope = slope(b, function, x);
            b.binary("multiply", &a[1], &slope)
        }
        _ => return None,
    })
}

/// The larger of a number and zero, and the logarithm of what is beyond it: `log(1 + exp(x))`.
fn softplus(b: &mut Builder, x: &Array) -> Array {
    let above = b.with("maximum", x, 0.0);
    let size = b.unary("abs", x);
    let below = b.unary("negate", &size);
    let small = b.unary("exponential", &below);
    let rest = b.unary("log_plus_one", &small);
    b.binary("add", &above, &rest)
}

/// `sqrt(2/pi) (x + 0.044_715 x^3)`: what the tanh of a gelu is of.
fn gelu_inner(b: &mut Builder, x: &Array) -> Array {
    let square = b.binary("multiply", x, x);
    let cube = b.binary("multiply", &square, x);
    let small = b.with("multiply", &cube, 0.044_715);
    let sum = b.binary("add", x, &small);
    b.with("multiply", &sum, (2.0 / std::f64::consts::PI).sqrt())
}

/// The share of its argument that a gelu is: `(1 + tanh(inner)) / 2`.
fn gelu_share(b: &mut Builder, x: &Array) -> Array {
    let inner = gelu_inner(b, x);
    let tanh = b.unary("tanh", &inner);
    let above = b.with("add", &tanh, 1.0);
    b.with("multiply", &above, 0.5)
}

/// `1 - y`.
fn rest(b: &mut Builder, y: &Array) -> Array {
    let one = b.like(y, 1.0);
    b.binary("subtract", &one, y)
}

/// The derivative of a function.
fn slope(b: &mut Builder, function: &str, x: &Array) -> Array {
    match function {
        "dtanh" => {
            let y = b.unary("tanh", x);
            let square = b.binary("multiply", &y, &y);
            rest(b, &square)
        }
        "dsigmoid" | "dsilu" => {
            let y = b.unary("logistic", x);
            let left = rest(b, &y);
            let slope = b.binary("multiply", &y, &left);
            if function == "dsigmoid" {
                return slope;
            }
            let through = b.binary("multiply", x, &slope);
            b.binary("add", &y, &through)
        }
        "derf" => {
            let square = b.binary("multiply", x, x);
            let below = b.unary("negate", &square);
            let bell = b.unary("exponential", &below);
            b.with("multiply", &bell, 2.0 / std::f64::consts::PI.sqrt())
        }
        _ => {
            let share = gelu_share(b, x);
            let inner = gelu_inner(b, x);
            let tanh = b.unary("tanh", &inner);
            let square = b.binary("multiply", &tanh, &tanh);
            let left = rest(b, &square);
            let squared = b.binary("multiply", x, x);
            let grown = b.with("multiply", &squared, 3.0 * 0.044_715);
            let grown = b.with("add", &grown, 1.0);
            let inner_slope = b.with("multiply", &grown, (2.0 / std::f64::consts::PI).sqrt());
            let through = b.binary("multiply", &left, &inner_slope);
            let through = b.binary("multiply", x, &through);
            let through = b.with("multiply", &through, 0.5);
            b.binary("add", &share, &through)
        }
    }
}

/// Updates of moments and parameters.
fn update(b: &mut Builder, function: &str, a: &[Array]) -> Option<Array> {
    Some(match function {
        "ema" | "ema_square" => {
            let new =
                if function == "ema" { a[1].clone() } else { b.binary("multiply", &a[1], &a[1]) };
            let old = b.binary("multiply", &a[2], &a[0]);
            let share = rest(b, &a[2]);
            let new = b.binary("multiply", &share, &new);
            b.binary("add", &old, &new)
        }
        "momentum" => {
            let old = b.binary("multiply", &a[2], &a[0]);
            b.binary("add", &old, &a[1])
        }
        "sgd_step" => {
            let change = b.binary("multiply", &a[2], &a[1]);
            b.binary("subtract", &a[0], &change)
        }
        "row_step" => {
            let root = b.unary("sqrt", &a[2]);
            let below = b.binary("add", &root, &a[4]);
            let scaled = b.binary("multiply", &a[3], &a[1]);
            let change = b.binary("divide", &scaled, &below);
            b.binary("subtract", &a[0], &change)
        }
        "adam_step" => {
            let root = b.unary("sqrt", &a[2]);
            let below = b.binary("add", &root, &a[4]);
            let step = b.binary("divide", &a[1], &below);
            let decay = b.binary("multiply", &a[5], &a[0]);
            let sum = b.binary("add", &step, &decay);
            let change = b.binary("multiply", &a[3], &sum);
            b.binary("subtract", &a[0], &change)
        }
        _ => return None,
    })
}
