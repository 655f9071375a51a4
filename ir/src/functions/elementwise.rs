//! The element-wise functions that programs call by name: one row each, with all properties that
//! the compiler uses.
//!
//! The rows are an enum, with a struct of columns for each: the `functions!` macro generates both
//! from one list, so that a function is one entry here, and an entry without one of its columns
//! does not compile. Alternatives: a trait with a type for each function would need a screen of
//! `impl` per row and have no list of rows; a table looked up by name would need a default for
//! unknown names in every reader; an enum matched in each reader is complete too, but an addition
//! changes six files.
//!
//! `tests` checks the columns of every row against its evaluator: derivatives against difference
//! quotients, linearity and monotonicity against samples, and so on.
//!
//! At a corner, the gradient is a subgradient: zero for `abs` and `relu`, and for equal operands of
//! `maximum` the gradient of the second.

use super::Arithmetic::{Add, Div, Sub};
use super::Direction::{Decreasing, Increasing};
use super::Domain::{Any, Positive};
use super::Formula::{self, Call, Given as DY, IfNumber, Infix, Negate, Number, Product};
use super::Gradient::{self, Through, Undefined, Zero};
use super::Masked::{self, Kept, Lost, Zeroed};
use super::ResultType::{self, Bool, Chosen, Float, Whole};
use super::{Direction, Domain, Linearity, scalar};

/// The first operand.
const X: Formula = Formula::Operand(0);
/// The second operand.
const B: Formula = Formula::Operand(1);
/// The result.
const Y: Formula = Formula::Result;

/// The row of an element-wise function.
#[derive(Debug)]
pub struct Row {
    /// As programs write it.
    pub name: &'static str,
    /// What it computes, as a sentence of the page about functions.
    pub summary: &'static str,
    /// Its operands, without the numbers that a program must write.
    pub operands: &'static [Operand],
    /// How many numbers must stand after the values; where none must, one may stand for a value.
    pub numbers: usize,
    /// The operands in which it passes partial sums.
    pub linearity: Linearity,
    /// The type of its result.
    pub result: ResultType,
    /// Its effect on masked elements.
    pub masked: Masked,
    /// FLOPs an element of the result.
    pub flops: u32,
    /// Its value on one element of each operand, then its numbers.
    pub evaluate: fn(&[f64]) -> f64,
}

/// The properties of a function in one of its operands.
#[derive(Debug)]
pub struct Operand {
    /// Its name on the page and in messages.
    pub name: &'static str,
    /// Where the function is defined.
    pub domain: Domain,
    /// Whether it keeps or reverses the order of this operand's elements everywhere: then partial
    /// maxima and minima pass.
    pub direction: Option<Direction>,
    /// How the gradient of the result reaches the operand.
    pub gradient: Gradient,
}

/// Writes the enum and the rows from one list.
macro_rules! functions {
    ($(
        #[doc = $summary:literal]
        $function:ident $name:literal (
            $($operand:ident: $domain:ident, $direction:expr, $gradient:expr);*
        ) { $($column:ident: $value:expr),* $(,)? }
    )*) => {
        /// An element-wise function that programs call by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Function { $(#[doc = $summary] $function),* }

        impl Function {
            /// All of them, by name.
            pub const ALL: &'static [Self] = &[$(Self::$function),*];

            /// Its row.
            pub fn row(self) -> &'static Row {
                match self {
                    $(Self::$function => const { &Row {
                        name: $name,
                        summary: $summary.trim_ascii(),
                        operands: &[$(Operand {
                            name: stringify!($operand),
                            domain: $domain,
                            direction: $direction,
                            gradient: $gradient,
                        }),*],
                        $($column: $value),*
                    } }),*
                }
            }
        }
    };
}

functions! {
    /// The absolute value.
    Abs "abs" (x: Any, None, Through(Call(Function::DAbs, &[X, DY]))) {
        numbers: 0, linearity: Linearity::None, result: Whole, masked: Lost, flops: 1,
        evaluate: |v| v[0].abs(),
    }
    /// A step of AdamW from moments `m`, `v`, with its rate, epsilon and weight decay.
    AdamStep "adam_step" (
        w: Any, None, Undefined; m: Any, None, Undefined; v: Positive, None, Undefined
    ) {
        numbers: 3, linearity: Linearity::None, result: Float, masked: Lost, flops: 1,
        evaluate: |v| v[0] - v[3] * (v[1] / (v[2].sqrt() + v[4]) + v[5] * v[0]),
    }
    /// The same array under another name.
    Copy "copy" (x: Any, Some(Increasing), Through(DY)) {
        numbers: 0, linearity: Linearity::Joint, result: Whole, masked: Kept, flops: 1,
        evaluate: |v| v[0],
    }
    /// The cosine.
    Cos "cos" (x: Any, None, Through(Negate(&Product(&Call(Function::Sin, &[X]), &DY)))) {
        numbers: 0, linearity: Linearity::None, result: Float, masked: Lost, flops: 1,
        evaluate: |v| v[0].cos(),
    }
    /// The gradient of `abs`.
    DAbs "dabs" (x: Any, None, Undefined; dy: Any, None, Through(Call(Function::DAbs, &[X, DY]))) {
        numbers: 0, linearity: Linearity::Last, result: Float, masked: Lost, flops: 1,
        evaluate: |v| v[1] * scalar::sign(v[0]),
    }
    /// The gradient of `erf`.
    DErf "derf" (x: Any, None, Undefined; dy: Any, None, Through(Call(Function::DErf, &[X, DY]))) {
        numbers: 0, linearity: Linearity::Last, result: Float, masked: Lost, flops: 1,
        evaluate: |v| v[1] * scalar::erf_slope(v[0]),
    }
    /// The gradient of `gelu`.
    DGelu "dgelu" (
        x: Any, None, Undefined; dy: Any, None, Through(Call(Function::DGelu, &[X, DY]))
    ) {
        numbers: 0, linearity: Linearity::Last, result: Float, masked: Lost, flops: 1,
        evaluate: |v| v[1] * scalar::gelu_slope(v[0]),
    }
    /// The gradient of `relu`.
    DRelu "drelu" (
        x: Any, None, Undefined; dy: Any, None, Through(Call(Function::DRelu, &[X, DY]))
    ) {
        numbers: 0, linearity: Linearity::Last, result: Float, masked: Lost, flops: 1,
        evaluate: |v| v[1] * scalar::truth(v[0] > 0.0),
    }
    /// The gradient of `sigmoid`.
    DSigmoid "dsigmoid" (
        x: Any, None, Undefined; dy: Any, None, Through(Call(Function::DSigmoid, &[X, DY]))
    ) {
        numbers: 0, linearity: Linearity::Last, result: Float, masked: Lost, flops: 1,
        evaluate: |v| v[1] * scalar::sigmoid_slope(v[0]),
    }
    /// The gradient of `silu`.
    DSilu "dsilu" (
        x: Any, None, Undefined; dy: Any, None, Through(Call(Function::DSilu, &[X, DY]))
    ) {
        numbers: 0, linearity: Linearity::Last, result: Float, masked: Lost, flops: 1,
        evaluate: |v| v[1] * scalar::silu_slope(v[0]),
    }
    /// The gradient of `tanh`.
    DTanh "dtanh" (
        x: Any, None, Undefined; dy: Any, None, Through(Call(Function::DTanh, &[X, DY]))
    ) {
        numbers: 0, linearity: Linearity::Last, result: Float, masked: Lost, flops: 1,
        evaluate: |v| v[1] * (1.0 - v[0].tanh().powi(2)),
    }
    /// The moving average of `b`, which keeps a share of `a`.
    Ema "ema" (a: Any, None, Undefined; b: Any, None, Undefined) {
        numbers: 1, linearity: Linearity::Joint, result: Float, masked: Lost, flops: 1,
        evaluate: |v| v[2] * v[0] + (1.0 - v[2]) * v[1],
    }
    /// The moving average of the square of `b`, which keeps a share of `a`.
    EmaSquare "ema_square" (a: Any, None, Undefined; b: Any, None, Undefined) {
        numbers: 1, linearity: Linearity::None, result: Float, masked: Lost, flops: 1,
        evaluate: |v| v[2] * v[0] + (1.0 - v[2]) * v[1].powi(2),
    }
    /// Whether both are equal; also `a == b`.
    Equal "equal" (a: Any, None, Zero; b: Any, None, Zero) {
        numbers: 0, linearity: Linearity::None, result: Bool, masked: Lost, flops: 1,
        evaluate: |v| scalar::truth((v[0] - v[1]).abs() <= 0.0),
    }
    /// The error function.
    Erf "erf" (x: Any, Some(Increasing), Through(Call(Function::DErf, &[X, DY]))) {
        numbers: 0, linearity: Linearity::None, result: Float, masked: Lost, flops: 1,
        evaluate: |v| scalar::erf(v[0]),
    }
    /// The exponential.
    Exp "exp" (x: Any, Some(Increasing), Through(Product(&Y, &DY))) {
        numbers: 0, linearity: Linearity::None, result: Float, masked: Zeroed, flops: 1,
        evaluate: |v| v[0].exp(),
    }
    /// The exponential less one, exact near zero.
    Expm1 "expm1" (
        x: Any, Some(Increasing), Through(Product(&Infix(Add, &Y, &Number("1.0")), &DY))
    ) {
        numbers: 0, linearity: Linearity::None, result: Float, masked: Lost, flops: 1,
        evaluate: |v| v[0].exp_m1(),
    }
    /// The Gaussian error linear unit, in its tanh form.
    Gelu "gelu" (x: Any, None, Through(Call(Function::DGelu, &[X, DY]))) {
        numbers: 0, linearity: Linearity::None, result: Float, masked: Lost, flops: 1,
        evaluate: |v| scalar::gelu(v[0]),
    }
    /// Whether `a` is greater; also `a > b`.
    Greater "greater" (a: Any, None, Zero; b: Any, None, Zero) {
        numbers: 0, linearity: Linearity::None, result: Bool, masked: Lost, flops: 1,
        evaluate: |v| scalar::truth(v[0] > v[1]),
    }
    /// Whether `a` is greater or equal; also `a >= b`.
    GreaterEqual "greater_equal" (a: Any, None, Zero; b: Any, None, Zero) {
        numbers: 0, linearity: Linearity::None, result: Bool, masked: Lost, flops: 1,
        evaluate: |v| scalar::truth(v[0] >= v[1]),
    }
    /// The operand itself.
    Identity "identity" (x: Any, Some(Increasing), Through(DY)) {
        numbers: 0, linearity: Linearity::Joint, result: Whole, masked: Lost, flops: 1,
        evaluate: |v| v[0],
    }
    /// Whether `a` is less; also `a < b`.
    Less "less" (a: Any, None, Zero; b: Any, None, Zero) {
        numbers: 0, linearity: Linearity::None, result: Bool, masked: Lost, flops: 1,
        evaluate: |v| scalar::truth(v[0] < v[1]),
    }
    /// Whether `a` is less or equal; also `a <= b`.
    LessEqual "less_equal" (a: Any, None, Zero; b: Any, None, Zero) {
        numbers: 0, linearity: Linearity::None, result: Bool, masked: Lost, flops: 1,
        evaluate: |v| scalar::truth(v[0] <= v[1]),
    }
    /// The natural logarithm.
    Log "log" (x: Positive, None, Through(Infix(Div, &DY, &X))) {
        numbers: 0, linearity: Linearity::None, result: Float, masked: Lost, flops: 1,
        evaluate: |v| v[0].ln(),
    }
    /// The larger of both.
    Maximum "maximum" (
        a: Any, Some(Increasing), Through(Call(Function::DRelu, &[Infix(Sub, &X, &B), DY]));
        b: Any, Some(Increasing),
            Through(Infix(Sub, &DY, &Call(Function::DRelu, &[Infix(Sub, &X, &B), DY])))
    ) {
        numbers: 0, linearity: Linearity::None, result: Whole, masked: Lost, flops: 1,
        evaluate: |v| v[0].max(v[1]),
    }
    /// The smaller of both.
    Minimum "minimum" (
        a: Any, Some(Increasing), Through(Call(Function::DRelu, &[Infix(Sub, &B, &X), DY]));
        b: Any, Some(Increasing),
            Through(Infix(Sub, &DY, &Call(Function::DRelu, &[Infix(Sub, &B, &X), DY])))
    ) {
        numbers: 0, linearity: Linearity::None, result: Whole, masked: Lost, flops: 1,
        evaluate: |v| v[0].min(v[1]),
    }
    /// The sum of `b` and a share of `a`.
    Momentum "momentum" (a: Any, None, Undefined; b: Any, None, Undefined) {
        numbers: 1, linearity: Linearity::Joint, result: Float, masked: Lost, flops: 1,
        evaluate: |v| v[2] * v[0] + v[1],
    }
    /// The negative; also `-x`.
    Neg "neg" (x: Any, Some(Decreasing), Through(Negate(&DY))) {
        numbers: 0, linearity: Linearity::Joint, result: Whole, masked: Lost, flops: 1,
        evaluate: |v| -v[0],
    }
    /// Whether both differ; also `a != b`.
    NotEqual "not_equal" (a: Any, None, Zero; b: Any, None, Zero) {
        numbers: 0, linearity: Linearity::None, result: Bool, masked: Lost, flops: 1,
        evaluate: |v| scalar::truth((v[0] - v[1]).abs() > 0.0),
    }
    /// One everywhere: only the dimensions of the operand count.
    Ones "ones" (x: Any, None, Zero) {
        numbers: 0, linearity: Linearity::None, result: Whole, masked: Lost, flops: 1,
        evaluate: |_| 1.0,
    }
    /// `a` to the power of `b`.
    Pow "pow" (
        a: Positive, None, Through(IfNumber(
            1,
            &Product(&Call(Function::Pow, &[X, Infix(Sub, &B, &Number("1.0"))]), &Product(&B, &DY)),
            &Product(&Product(&B, &Call(Function::Pow, &[X, Infix(Sub, &B, &Number("1.0"))])), &DY),
        ));
        b: Any, None, Through(Product(&Product(&Y, &Call(Function::Log, &[X])), &DY))
    ) {
        numbers: 0, linearity: Linearity::None, result: Float, masked: Lost, flops: 1,
        evaluate: |v| v[0].powf(v[1]),
    }
    /// The operand, or zero where it is negative.
    Relu "relu" (x: Any, Some(Increasing), Through(Call(Function::DRelu, &[X, DY]))) {
        numbers: 0, linearity: Linearity::None, result: Whole, masked: Lost, flops: 1,
        evaluate: |v| v[0].max(0.0),
    }
    /// The nearest integer; of two, the even one.
    Round "round" (x: Any, Some(Increasing), Zero) {
        numbers: 0, linearity: Linearity::None, result: Whole, masked: Lost, flops: 1,
        evaluate: |v| v[0].round_ties_even(),
    }
    /// A step of row-wise Adagrad from sums `s` of mean squares, with its rate and epsilon.
    RowStep "row_step" (
        w: Any, None, Undefined; dw: Any, None, Undefined; s: Positive, None, Undefined
    ) {
        numbers: 2, linearity: Linearity::None, result: Float, masked: Lost, flops: 1,
        evaluate: |v| v[0] - v[3] * v[1] / (v[2].sqrt() + v[4]),
    }
    /// One over the square root.
    Rsqrt "rsqrt" (
        x: Positive, None,
            Through(Product(&Number("-0.5"), &Infix(Div, &Product(&Y, &DY), &X)))
    ) {
        numbers: 0, linearity: Linearity::None, result: Float, masked: Lost, flops: 1,
        evaluate: |v| 1.0 / v[0].sqrt(),
    }
    /// `a` where the mask is true, else `b`.
    Select "select" (
        mask: Any, None, Zero;
        a: Any, None, Through(Call(Function::Select, &[X, DY, Number("0.0")]));
        b: Any, None, Through(Infix(Sub, &DY, &Call(Function::Select, &[X, DY, Number("0.0")])))
    ) {
        numbers: 0, linearity: Linearity::Rest, result: Chosen, masked: Lost, flops: 1,
        evaluate: |v| if v[0] == 0.0 { v[2] } else { v[1] },
    }
    /// A step of gradient descent, with its rate.
    SgdStep "sgd_step" (w: Any, None, Undefined; dw: Any, None, Undefined) {
        numbers: 1, linearity: Linearity::Joint, result: Float, masked: Lost, flops: 1,
        evaluate: |v| v[0] - v[2] * v[1],
    }
    /// The logistic function.
    Sigmoid "sigmoid" (x: Any, Some(Increasing), Through(Call(Function::DSigmoid, &[X, DY]))) {
        numbers: 0, linearity: Linearity::None, result: Float, masked: Lost, flops: 1,
        evaluate: |v| scalar::sigmoid(v[0]),
    }
    /// `x * sigmoid(x)`.
    Silu "silu" (x: Any, None, Through(Call(Function::DSilu, &[X, DY]))) {
        numbers: 0, linearity: Linearity::None, result: Float, masked: Lost, flops: 1,
        evaluate: |v| scalar::silu(v[0]),
    }
    /// The sine.
    Sin "sin" (x: Any, None, Through(Product(&Call(Function::Cos, &[X]), &DY))) {
        numbers: 0, linearity: Linearity::None, result: Float, masked: Lost, flops: 1,
        evaluate: |v| v[0].sin(),
    }
    /// `log(1 + exp(x))`.
    Softplus "softplus" (
        x: Any, Some(Increasing), Through(Product(&Call(Function::Sigmoid, &[X]), &DY))
    ) {
        numbers: 0, linearity: Linearity::None, result: Float, masked: Lost, flops: 1,
        evaluate: |v| scalar::softplus(v[0]),
    }
    /// The square root.
    Sqrt "sqrt" (x: Positive, None, Through(Product(&Number("0.5"), &Infix(Div, &DY, &Y)))) {
        numbers: 0, linearity: Linearity::None, result: Float, masked: Lost, flops: 1,
        evaluate: |v| v[0].sqrt(),
    }
    /// The square.
    Square "square" (x: Any, None, Through(Product(&X, &Product(&Number("2.0"), &DY)))) {
        numbers: 0, linearity: Linearity::None, result: Whole, masked: Lost, flops: 1,
        evaluate: |v| v[0] * v[0],
    }
    /// The operand itself, a constant to the gradient.
    StopGradient "stop_gradient" (x: Any, Some(Increasing), Gradient::Stopped) {
        numbers: 0, linearity: Linearity::Joint, result: Whole, masked: Lost, flops: 1,
        evaluate: |v| v[0],
    }
    /// The same as `silu`.
    Swish "swish" (x: Any, None, Through(Call(Function::DSilu, &[X, DY]))) {
        numbers: 0, linearity: Linearity::None, result: Float, masked: Lost, flops: 1,
        evaluate: |v| scalar::silu(v[0]),
    }
    /// The hyperbolic tangent.
    Tanh "tanh" (x: Any, Some(Increasing), Through(Call(Function::DTanh, &[X, DY]))) {
        numbers: 0, linearity: Linearity::None, result: Float, masked: Lost, flops: 1,
        evaluate: |v| v[0].tanh(),
    }
}

impl Function {
    /// As programs write it.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// How many arguments it takes, numbers among them.
    pub fn arity(self) -> usize {
        self.row().operands.len() + self.row().numbers
    }

    /// The function called `name`.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|function| function.name() == name)
    }
}
