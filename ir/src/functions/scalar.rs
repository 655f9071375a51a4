//! Evaluators of functions of one number that are more than a method of `f64`.
//!
//! These are the mathematical functions, in the precision of `f64`, and the same on every simulated
//! device; no chip's approximation is imitated.

use std::f64::consts::{FRAC_2_SQRT_PI, PI};

use crate::dtype::DType;

/// The number that `cast` makes of `x`: integers are truncated, and `bool` is whether it is not
/// zero. Fractions keep the precision of `f64`.
pub fn cast(to: DType, x: f64) -> f64 {
    match to {
        DType::Bool => truth(x != 0.0),
        DType::Int4 | DType::Int8 | DType::Int32 => x.trunc(),
        DType::Fp4 | DType::Fp8 | DType::F16 | DType::Bf16 | DType::F32 => x,
    }
}

pub(super) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The derivative of [`sigmoid`].
pub(super) fn sigmoid_slope(x: f64) -> f64 {
    sigmoid(x) * (1.0 - sigmoid(x))
}

/// `x * sigmoid(x)`: Elfwing et al. 2017.
pub(super) fn silu(x: f64) -> f64 {
    x * sigmoid(x)
}

/// The derivative of [`silu`].
pub(super) fn silu_slope(x: f64) -> f64 {
    sigmoid(x) + x * sigmoid(x) * (1.0 - sigmoid(x))
}

/// `log(1 + exp(x))`, without overflow.
pub(super) fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// The tanh form of the Gaussian error linear unit (Hendrycks and Gimpel 2016).
pub(super) fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + gelu_inner(x).tanh())
}

fn gelu_inner(x: f64) -> f64 {
    (2.0 / PI).sqrt() * (x + 0.044_715 * x.powi(3))
}

/// The derivative of [`gelu`].
pub(super) fn gelu_slope(x: f64) -> f64 {
    let tanh = gelu_inner(x).tanh();
    let inner = (2.0 / PI).sqrt() * (1.0 + 3.0 * 0.044_715 * x * x);
    0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh * tanh) * inner
}

/// The error function by its series, to the last digits.
pub(super) fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    // All terms have one sign, so that nothing cancels.
    let mut term = x;
    let mut sum = x;
    let mut odd = 1.0;
    while term.abs() > 1e-17 * sum.abs() {
        odd += 2.0;
        term *= 2.0 * x * x / odd;
        sum += term;
    }
    FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

/// The derivative of [`erf`].
pub(super) fn erf_slope(x: f64) -> f64 {
    2.0 / PI.sqrt() * (-x * x).exp()
}

/// The derivative of the absolute value, zero at the corner.
pub(super) fn sign(x: f64) -> f64 {
    f64::from(i8::from(x > 0.0) - i8::from(x < 0.0))
}

/// One for true.
pub(super) fn truth(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}
