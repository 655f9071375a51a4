//! One table of operations: every fact about a function of the language stands once, in its row.
//!
//! | table | rows | columns |
//! | --- | --- | --- |
//! | [`Function`] | element-wise functions that are called by name | [`Row`] |
//! | [`ReduceFn`] | `sum`, `mean`, `max`, `min` | [`ReductionRow`] |
//! | [`Composite`] | `softmax` and the normalisations | [`CompositeRow`] |
//! | [`CollectiveKind`] | `AllGather` and the other moves between devices | [`CollectiveRow`] |
//!
//! Names are read once, in `resolve`; after that an operation holds an entry of a table.
//! Derivatives and the definitions of composites are [`Formula`]s. What is not called by such a
//! name, `a + b`, `-x`, `cast<f32>(x)`, is a [`MapForm`]: these are few, each with syntax of its
//! own, and matched without a default wherever they are read.
//!
//! The values of a row, its evaluator, are what a function *means*. So they are here and not with
//! the simulator of plans: planner and simulator agree on what `tanh` is, as both agree on what `+`
//! is, and disagree about nothing that a plan decides. Structural operations (`take`, `reshape`,
//! `route`) are in no table: each asks something of its own of shardings and of the simulator, and
//! a row of them would be a pointer to code in every column.

mod collective;
mod composite;
mod elementwise;
mod formula;
mod map;
mod order;
mod page;
mod reduction;
mod scalar;
#[cfg(test)]
mod tests;

use crate::dtype::DType;

pub use collective::{CollectiveKind, CollectiveRow, TimeModel, VolumeSide};
pub use composite::{Composite, CompositeRow, EPSILON};
pub use elementwise::{Function, Operand, Row};
pub use formula::Formula;
pub use map::{Arithmetic, Fill, MapFn, MapForm};
pub use order::{Direction, Linearity};
pub use page::page;
pub use reduction::{ReduceFn, ReductionRow};
pub use scalar::cast;

/// Where a function is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// Everywhere.
    Any,
    /// Above zero.
    Positive,
}

/// How the gradient of a result reaches an operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gradient {
    /// By this formula, which is linear in [`Formula::Given`].
    Through(Formula),
    /// The result does not change with the operand, up to jumps.
    Zero,
    /// It is declared not to.
    Stopped,
    /// There is no derivative.
    Undefined,
}

/// Which type a result has, where no left side says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultType {
    /// True or false.
    Bool,
    /// That of the operands after the first: what is chosen from.
    Chosen,
    /// That of the operands: of whole numbers it makes whole ones.
    Whole,
    /// That of the operands, and `int32` of true and false, which are counted.
    Number,
    /// That of the operands if it has fractions, else `f32`.
    Float,
}

impl ResultType {
    /// The type, of operands that are `all` together, and `rest` without the first.
    pub fn of(self, all: DType, rest: DType) -> DType {
        match self {
            Self::Bool => DType::Bool,
            Self::Chosen => rest,
            Self::Whole => all,
            Self::Number => {
                if all == DType::Bool {
                    DType::Int32
                } else {
                    all
                }
            }
            Self::Float => {
                if all.is_float() {
                    all
                } else {
                    DType::F32
                }
            }
        }
    }
}

/// What a function makes of a mask: which elements of its result are known to be zero or minus
/// infinity where those of its operand are. FLOPs are not counted for these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Masked {
    /// Nothing is known of them.
    Lost,
    /// They stay what they are.
    Kept,
    /// Minus infinity becomes zero; nothing is known of zeros.
    Zeroed,
}
