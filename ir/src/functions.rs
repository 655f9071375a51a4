//! One table of operations: every fact about a function of the language is in its row, once.
//!
//! | table | rows | columns |
//! | --- | --- | --- |
//! | [`Function`] | element-wise functions that are called by name | [`Row`] |
//! | [`ReduceFn`] | `sum`, `mean`, `max`, `min` | [`ReductionRow`] |
//! | [`Composite`] | `softmax` and the normalisations | [`CompositeRow`] |
//! | [`AlongFn`] | `cumsum`, `topk` and others of all elements along a dimension | [`AlongRow`] |
//! | [`CollectiveKind`] | `AllGather` and the other moves between devices | [`CollectiveRow`] |
//!
//! Names are read once, in `resolve`; after that an operation holds an entry of a table.
//! Derivatives and the definitions of composites are [`Formula`]s. Forms with syntax of their own,
//! `a + b`, `-x`, `cast<f32>(x)`, are [`MapForm`]s: they are few, and every `match` on them is
//! exhaustive.
//!
//! The evaluator of a row defines the *meaning* of the function. So it is here and not in the
//! simulator of plans: planner and simulator share the definition of `tanh`, as they share that of
//! `+`, and are independent in everything that a plan decides. Structural operations (`take`,
//! `reshape`, `route`) are in no table: each has its own rules for shardings and its own code in
//! the simulator, so every column of a row would be a pointer to code.

mod along;
mod collective;
mod composite;
mod elementwise;
mod formula;
mod map;
mod opaque;
mod order;
mod page;
mod reduction;
mod scalar;
#[cfg(test)]
mod tests;

use crate::dtype::DType;

pub use along::{Along, AlongFn, AlongGradient, AlongRow};
pub use collective::{CollectiveKind, CollectiveRow, TimeModel, VolumeSide};
pub use composite::{Composite, CompositeRow, EPSILON};
pub use elementwise::{Function, Operand, Row};
pub use formula::Formula;
pub use map::{Arithmetic, Fill, HostTransfer, MapFn, MapForm};
pub use opaque::{Digest, Opaque};
pub use order::{Direction, Linearity};
pub use page::page;
pub use reduction::{ReduceFn, ReductionRow};
pub use scalar::cast;

/// The domain of a function.
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
    /// Its author stopped the gradient.
    Stopped,
    /// There is no derivative.
    Undefined,
}

/// The type of a result, where no left side declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultType {
    /// True or false.
    Bool,
    /// That of the operands after the first: those that a mask selects from.
    Chosen,
    /// That of the operands: integers stay integers.
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

/// The effect of a function on masks: which elements of its result are known to be zero or minus
/// infinity where those of its operand are. Their FLOPs are not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Masked {
    /// Nothing is known of them.
    Lost,
    /// They stay the same.
    Kept,
    /// Minus infinity becomes zero; nothing is known of zeros.
    Zeroed,
}
