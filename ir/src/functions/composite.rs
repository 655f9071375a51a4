//! Composites: operations along dimensions that take several passes, as one operation where these
//! dimensions are unsharded. One row each; adding one is one entry of `composites!`.
//!
//! The definition of a composite is a [`Formula`]. Where the dimensions are split, the planner
//! expands it to statements; FLOPs are counted from it, and the simulator evaluates it. Gradients
//! could be derived from it; they are written explicitly, in the form with the fewest statements,
//! and compared with difference quotients by a test.

use super::Arithmetic::{Add, Div, Sub};
use super::Formula::{self, Call, Count, Given as DY, Infix, Number, Product, Reduce, Result as Y};
use super::{Function, Masked, ReduceFn};

/// The constant added to the variance in every normalisation, which prevents division by zero.
pub const EPSILON: &str = "1e-6";

const X: Formula = Formula::Operand(0);
/// `max(x)`.
const LARGEST: Formula = Reduce(ReduceFn::Max, &X);
/// `exp(x - max(x))`, which never overflows.
const EXPONENTS: Formula = Call(Function::Exp, &[Infix(Sub, &X, &LARGEST)]);
const TOTAL: Formula = Reduce(ReduceFn::Sum, &EXPONENTS);
/// `x - mean(x)`.
const CENTRED: Formula = Infix(Sub, &X, &Reduce(ReduceFn::Mean, &X));
/// `y * dy`.
const WEIGHTED: Formula = Product(&Y, &DY);

/// `rsqrt(mean(of^2) + 1e-6)`.
macro_rules! inverse_deviation {
    ($mean_square:expr) => {
        Call(Function::Rsqrt, &[Infix(Add, &$mean_square, &Number(EPSILON))])
    };
}

/// The mean as gradients write it: a sum, divided.
macro_rules! divided_sum {
    ($of:expr) => {
        Infix(Div, &Reduce(ReduceFn::Sum, &$of), &Count)
    };
}

/// `y * mean(y * dy)`: the part of the gradient along the result.
const ALONG_RESULT: Formula = Product(&Y, &divided_sum!(WEIGHTED));
/// `x - mean(x)` as gradients write it.
const CENTRED_OPERAND: Formula = Infix(Sub, &X, &divided_sum!(X));
const CENTRED_GRADIENT: Formula = Infix(Sub, &DY, &divided_sum!(DY));

/// The row of a composite.
#[derive(Debug)]
pub struct CompositeRow {
    /// As programs write it.
    pub name: &'static str,
    /// Whether the dimensions that it reduces are removed from its result.
    pub reduces: bool,
    /// Its effect on masked elements along its dimensions.
    pub masked: Masked,
    /// Its definition, in terms of its operand.
    pub definition: Formula,
    /// The gradient of the operand.
    pub gradient: Formula,
}

/// Writes the enum and the rows from one list.
macro_rules! composites {
    ($(
        #[doc = $summary:literal]
        $composite:ident { $($column:ident: $value:expr),* $(,)? }
    )*) => {
        /// Composites such as a softmax.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Composite { $(#[doc = $summary] $composite),* }

        impl Composite {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$composite),*];

            /// Its row.
            pub fn row(self) -> &'static CompositeRow {
                match self {
                    $(Self::$composite => const { &CompositeRow { $($column: $value),* } }),*
                }
            }
        }
    };
}

composites! {
    /// `exp(x - max(x)) / sum(exp(x - max(x)))`.
    Softmax {
        name: "softmax", reduces: false, masked: Masked::Zeroed,
        definition: Infix(Div, &EXPONENTS, &TOTAL),
        gradient: Infix(Sub, &WEIGHTED, &Product(&Y, &Reduce(ReduceFn::Sum, &WEIGHTED))),
    }
    /// `log(sum(exp(x - max(x)))) + max(x)`.
    LogSumExp {
        name: "logsumexp", reduces: true, masked: Masked::Lost,
        definition: Infix(Add, &Call(Function::Log, &[TOTAL]), &LARGEST),
        gradient: Product(&DY, &Call(Function::Exp, &[Infix(Sub, &X, &Y)])),
    }
    /// `(x - mean(x)) * rsqrt(mean((x - mean(x))^2) + 1e-6)`.
    LayerNorm {
        name: "layernorm", reduces: false, masked: Masked::Lost,
        definition: Product(&CENTRED, &inverse_deviation!(
            Reduce(ReduceFn::Mean, &Call(Function::Square, &[CENTRED]))
        )),
        gradient: Product(
            &inverse_deviation!(divided_sum!(Call(Function::Square, &[CENTRED_OPERAND]))),
            &Infix(Sub, &CENTRED_GRADIENT, &ALONG_RESULT),
        ),
    }
    /// `x * rsqrt(mean(x^2) + 1e-6)`.
    RmsNorm {
        name: "rmsnorm", reduces: false, masked: Masked::Lost,
        definition: Product(&X, &inverse_deviation!(
            Reduce(ReduceFn::Mean, &Call(Function::Square, &[X]))
        )),
        gradient: Product(
            &inverse_deviation!(divided_sum!(Call(Function::Square, &[X]))),
            &Infix(Sub, &DY, &ALONG_RESULT),
        ),
    }
}

impl Composite {
    /// As programs write it.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Whether the dimensions that it reduces are removed from its result.
    pub fn reduces(self) -> bool {
        self.row().reduces
    }
}
