//! The costs that the solver adds and compares: time first, then the number of steps.
//!
//! Times are whole femtoseconds. With floats, sums taken in different orders differ in their last
//! bits and every tie would be broken by noise; with integers addition is associative, a bound is
//! exact, and equal plans are equal. A femtosecond is 1e-9 of the shortest hop, far below what the
//! cost model knows. Both numbers share one word, so that one addition adds both and one comparison
//! is lexicographic.

use std::iter::Sum;
use std::ops::Add;

/// Time and number of steps, compared in that order; addition saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u128);

const STEP_BITS: u32 = 24;
const FEMTO: f64 = 1e15;

impl Weight {
    /// No time and no steps.
    pub const ZERO: Self = Self(0);
    /// Unreachable; any sum with it is unreachable.
    pub const INFINITE: Self = Self(u128::MAX >> 8);

    /// One step that takes `seconds`.
    pub fn step(seconds: f64) -> Self {
        Self::seconds(seconds) + Self(1)
    }

    /// Time alone.
    pub fn seconds(seconds: f64) -> Self {
        let femtoseconds = (seconds * FEMTO).round();
        let limit = (Self::INFINITE.0 >> STEP_BITS) as f64;
        if femtoseconds >= limit {
            Self::INFINITE
        } else {
            Self((femtoseconds as u128) << STEP_BITS)
        }
    }

    /// Time alone, in whole femtoseconds.
    pub fn from_femtoseconds(femtoseconds: u64) -> Self {
        Self((u128::from(femtoseconds) << STEP_BITS).min(Self::INFINITE.0))
    }

    /// The time in femtoseconds; infinite if it cannot be reached.
    pub fn femtoseconds(self) -> f64 {
        if self.is_finite() { (self.0 >> STEP_BITS) as f64 } else { f64::INFINITY }
    }

    /// Femtoseconds in seconds.
    pub(crate) fn as_seconds_of(femtoseconds: f64) -> f64 {
        femtoseconds / FEMTO
    }

    /// The time in seconds.
    pub fn as_seconds(self) -> f64 {
        (self.0 >> STEP_BITS) as f64 / FEMTO
    }

    /// A `parts`-th of it, rounded down; infinite stays infinite.
    #[must_use]
    pub fn divided(self, parts: u64) -> Self {
        if self.is_finite() { Self(self.0 / u128::from(parts.max(1))) } else { self }
    }

    /// `count` times the weight; infinite stays infinite.
    #[must_use]
    pub fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(u128::from(count)).min(Self::INFINITE.0))
    }

    /// A share of its seconds; infinite stays infinite.
    #[must_use]
    pub fn scaled(self, share: f64) -> Self {
        if self.is_finite() { Self::seconds(self.as_seconds() * share) } else { self }
    }

    /// Whether it can be reached at all.
    pub fn is_finite(self) -> bool {
        self < Self::INFINITE
    }
}

impl Add for Weight {
    type Output = Self;

    #[inline]
    fn add(self, other: Self) -> Self {
        // Both are at most `INFINITE`, an eighth byte below the top: the sum cannot wrap.
        Self((self.0 + other.0).min(Self::INFINITE.0))
    }
}

impl Sum for Weight {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_comes_before_steps() {
        assert!(Weight::step(1e-6) + Weight::step(1e-6) < Weight::step(3e-6));
        assert!(Weight::step(2e-6) < Weight::step(1e-6) + Weight::step(1e-6));
    }

    #[test]
    fn the_unreachable_stays_so() {
        assert_eq!(Weight::INFINITE + Weight::step(1.0), Weight::INFINITE);
        assert_eq!(Weight::seconds(f64::INFINITY), Weight::INFINITE);
        assert!(Weight::seconds(1e9).is_finite());
    }
}
