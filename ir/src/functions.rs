//! The element-wise functions that the language knows: whether each is linear decides where partial sums may pass, so none is unknown.

use crate::program::Linearity;

/// A function called by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// As programs write it.
    pub name: &'static str,
    /// How many operands it takes.
    pub arity: usize,
    /// Where partial sums may pass.
    pub linearity: Linearity,
}

/// A function of one operand.
const fn unary(name: &'static str, linearity: Linearity) -> Function {
    Function { name, arity: 1, linearity }
}

/// A function of two operands that is linear in neither.
const fn binary(name: &'static str) -> Function {
    Function { name, arity: 2, linearity: Linearity::None }
}

/// What a gradient becomes on its way through a function: takes what the function was applied to, then the gradient of its result.
const fn derivative(name: &'static str) -> Function {
    Function { name, arity: 2, linearity: Linearity::Last }
}

/// All of them, by name.
pub const FUNCTIONS: &[Function] = &[
    unary("abs", Linearity::None),
    unary("copy", Linearity::Joint),
    unary("cos", Linearity::None),
    derivative("dabs"),
    derivative("derf"),
    derivative("dgelu"),
    derivative("drelu"),
    derivative("dsigmoid"),
    derivative("dsilu"),
    derivative("dtanh"),
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
    unary("neg", Linearity::Joint),
    binary("not_equal"),
    unary("ones", Linearity::None),
    binary("pow"),
    unary("relu", Linearity::None),
    unary("rsqrt", Linearity::None),
    Function { name: "select", arity: 3, linearity: Linearity::Rest },
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
