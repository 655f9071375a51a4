//! Which partial results a function passes: partial sums by linearity, partial maxima and minima by
//! monotonicity.
//!
//! `f(max(p, q)) = max(f(p), f(q))` holds if `f` is increasing, and with a minimum on the right if
//! it is decreasing. A function of several operands is considered in one of them, the others being
//! replicated. `f` must be defined everywhere: a device whose own maximum is negative has no
//! logarithm of it, though the maximum of all may have one.

use crate::sharding::Reduction;

/// The operands in which an element-wise function is linear, and so passes partial sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linearity {
    /// In no operand.
    None,
    /// In all operands together (`a + b`, `-a`, `2.0 * a`).
    Joint,
    /// In the first operand alone (`a / b`).
    First,
    /// In the last operand alone: the gradient of a derivative (`dgelu(x, dy)`).
    Last,
    /// In all operands after the first together: those that a mask selects from.
    Rest,
}

impl Linearity {
    /// The operands, of so many, that carry partial sums together, all of them or none; empty where
    /// none may.
    pub fn operands(self, count: usize) -> Vec<usize> {
        match self {
            Self::None => Vec::new(),
            Self::Joint => (0..count).collect(),
            Self::First => (0..count.min(1)).collect(),
            Self::Last => (count.saturating_sub(1)..count).collect(),
            Self::Rest => (1..count).collect(),
        }
    }
}

/// The monotonicity of a function in one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Increasing.
    Increasing,
    /// Decreasing.
    Decreasing,
}

impl Direction {
    /// The kind of partial results after the function; sums do not pass.
    pub fn through(self, kind: Reduction) -> Reduction {
        match (self, kind) {
            (Self::Decreasing, Reduction::Max) => Reduction::Min,
            (Self::Decreasing, Reduction::Min) => Reduction::Max,
            (_, kind) => kind,
        }
    }
}
