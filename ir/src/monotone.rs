//! Where partial maxima and minima may pass: through monotone functions.
//!
//! `f(max(p, q)) = max(f(p), f(q))` holds if `f` is increasing, and with a minimum on the right if
//! it is decreasing. A function of several operands is considered in one of them, the others being
//! reduced. `f` must be defined everywhere: the logarithm of a negative local maximum does not
//! exist, though that of the global maximum may.

use crate::program::{MapFn, MapForm};
use crate::sharding::Reduction;

/// What a function does to the order of one operand's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Keeps it.
    Increasing,
    /// Turns it around.
    Decreasing,
}

impl Direction {
    /// What partial results of `kind` are behind the function; sums are none that pass so.
    pub fn through(self, kind: Reduction) -> Reduction {
        match (self, kind) {
            (Self::Decreasing, Reduction::Max) => Reduction::Min,
            (Self::Decreasing, Reduction::Min) => Reduction::Max,
            (_, kind) => kind,
        }
    }
}

impl MapFn {
    /// What the function does to the order of operand `position`, if it keeps to one direction
    /// everywhere.
    pub fn direction(&self, position: usize) -> Option<Direction> {
        match (&self.form, position) {
            (MapForm::Infix('-'), 1) | (MapForm::Negate | MapForm::ScalarInfix(_, '-'), _) => {
                Some(Direction::Decreasing)
            }
            (MapForm::ScaleBy(scalar) | MapForm::InfixScalar('/', scalar), _) => by_sign(scalar),
            (
                MapForm::Infix('+' | '-')
                | MapForm::InfixScalar('+' | '-', _)
                | MapForm::ScalarInfix(_, '+')
                | MapForm::Broadcast(_),
                _,
            ) => Some(Direction::Increasing),
            (MapForm::Call { name, .. }, _) => by_name(name),
            _ => None,
        }
    }
}

fn by_sign(scalar: &str) -> Option<Direction> {
    let number: f64 = scalar.parse().ok()?;
    let increasing = (number > 0.0).then_some(Direction::Increasing);
    increasing.or((number < 0.0).then_some(Direction::Decreasing))
}

fn by_name(name: &str) -> Option<Direction> {
    match name {
        "copy" | "erf" | "exp" | "identity" | "maximum" | "minimum" | "relu" | "sigmoid"
        | "softplus" | "stop_gradient" | "tanh" => Some(Direction::Increasing),
        "neg" => Some(Direction::Decreasing),
        // Rounding keeps the order; whether something is zero does not.
        _ if name.starts_with("cast<") && name != "cast<bool>" => Some(Direction::Increasing),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maxima_become_minima_behind_what_turns_the_order_around() {
        let negate = MapFn::new(MapForm::Negate).direction(0);
        assert_eq!(negate.map(|direction| direction.through(Reduction::Max)), Some(Reduction::Min));
        let scaled = |by: &str| MapFn::new(MapForm::ScaleBy(by.to_owned())).direction(0);
        assert_eq!(
            (scaled("2.0"), scaled("-2.0"), scaled("0")),
            (Some(Direction::Increasing), Some(Direction::Decreasing), None)
        );
        let call = |name: &str| {
            MapFn::new(MapForm::Call { name: name.to_owned(), extra: Vec::new() }).direction(0)
        };
        assert_eq!(
            (call("exp"), call("gelu"), call("cast<bool>")),
            (Some(Direction::Increasing), None, None)
        );
        assert_eq!(
            (call("log"), call("sqrt")),
            (None, None),
            "of a negative part they are not defined"
        );
    }
}
