//! The element-wise functions that the language knows: whether each is linear decides where partial
//! sums may pass, so none is unknown.

use crate::program::Linearity;

/// A function called by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// As programs write it.
    pub name: &'static str,
    /// How many operands it takes.
    pub arity: usize,
    /// How many of these must be numbers, behind the values; where none must be, some may.
    pub numbers: usize,
    /// Where partial sums may pass.
    pub linearity: Linearity,
}

/// A function of one operand.
const fn unary(name: &'static str, linearity: Linearity) -> Function {
    Function { name, arity: 1, numbers: 0, linearity }
}

/// A function of two operands that is linear in neither.
const fn binary(name: &'static str) -> Function {
    Function { name, arity: 2, numbers: 0, linearity: Linearity::None }
}

/// What a gradient becomes on its way through a function: takes what the function was applied to,
/// then the gradient of its result.
const fn derivative(name: &'static str) -> Function {
    Function { name, arity: 2, numbers: 0, linearity: Linearity::Last }
}

/// An update of an array by an optimizer, of values and numbers.
const fn update(
    name: &'static str,
    arity: usize,
    numbers: usize,
    linearity: Linearity,
) -> Function {
    Function { name, arity, numbers, linearity }
}

/// All of them, by name.
pub const FUNCTIONS: &[Function] = &[
    unary("abs", Linearity::None),
    // Array, both moments; step size, what is added to the root, decay.
    update("adam_step", 6, 3, Linearity::None),
    unary("copy", Linearity::Joint),
    unary("cos", Linearity::None),
    derivative("dabs"),
    derivative("derf"),
    derivative("dgelu"),
    derivative("drelu"),
    derivative("dsigmoid"),
    derivative("dsilu"),
    derivative("dtanh"),
    // Moving averages of what comes second, and of its square, and how much of the first they keep.
    update("ema", 3, 1, Linearity::Joint),
    update("ema_square", 3, 1, Linearity::None),
    binary("equal"),
    unary("erf", Linearity::None),
    unary("exp", Linearity::None),
    unary("gelu", Linearity::None),
    binary("greater"),
    binary("greater_equal"),
    unary("identity", Linearity::Joint),
    binary("less"),
    binary("less_equal"),
    unary("log", Linearity::None),
    binary("maximum"),
    binary("minimum"),
    // A sum of what comes second, and how much of the first it keeps.
    update("momentum", 3, 1, Linearity::Joint),
    unary("neg", Linearity::Joint),
    binary("not_equal"),
    unary("ones", Linearity::None),
    binary("pow"),
    unary("relu", Linearity::None),
    unary("rsqrt", Linearity::None),
    Function { name: "select", arity: 3, numbers: 0, linearity: Linearity::Rest },
    // Array, gradient; step size.
    update("sgd_step", 3, 1, Linearity::Joint),
    unary("sigmoid", Linearity::None),
    unary("silu", Linearity::None),
    unary("sin", Linearity::None),
    unary("softplus", Linearity::None),
    unary("sqrt", Linearity::None),
    unary("square", Linearity::None),
    unary("stop_gradient", Linearity::Joint),
    unary("swish", Linearity::None),
    unary("tanh", Linearity::None),
];

/// The function called `name`.
pub fn find(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

/// Whether a function gives true or false.
pub fn is_comparison(name: &str) -> bool {
    matches!(name, "equal" | "not_equal" | "less" | "less_equal" | "greater" | "greater_equal")
}

/// Whether a function gives whole numbers of whole numbers.
pub fn keeps_whole(name: &str) -> bool {
    matches!(
        name,
        "abs"
            | "copy"
            | "identity"
            | "maximum"
            | "minimum"
            | "neg"
            | "ones"
            | "relu"
            | "square"
            | "stop_gradient"
    )
}
