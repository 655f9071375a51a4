//! Reductions: one row each. Adding one is one entry of `reductions!`.

use super::Arithmetic::Div;
use super::Formula::{self, Broadcast, Call, Count, Given as DY, Infix, Product, Reduce};
use super::{Function, ResultType};
use crate::sharding::Reduction;

/// Where the operand has the element that the reduction picked.
const PICKED: Formula = Call(Function::Equal, &[Formula::Operand(0), Formula::Result]);
/// An even share of the gradient for each of several that are equal.
const SHARE: Formula = Product(&PICKED, &Infix(Div, &DY, &Reduce(ReduceFn::Sum, &PICKED)));

/// Everything that is known of a reduction.
#[derive(Debug)]
pub struct ReductionRow {
    /// As programs write it.
    pub name: &'static str,
    /// What its partial results are: those of a mean are parts of a sum.
    pub partial: Reduction,
    /// Of which type its result is.
    pub result: ResultType,
    /// What none at all is reduced to.
    pub start: f64,
    /// Two partial results as one.
    pub combine: fn(f64, f64) -> f64,
    /// The result, of all combined and how many there are.
    pub finish: fn(f64, f64) -> f64,
    /// The gradient of the operand.
    pub gradient: Formula,
}

/// Writes the enum and the rows from one list.
macro_rules! reductions {
    ($(
        #[doc = $summary:literal]
        $reduction:ident { $($column:ident: $value:expr),* $(,)? }
    )*) => {
        /// Reductions such as `sum_D(x)`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ReduceFn { $(#[doc = $summary] $reduction),* }

        impl ReduceFn {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$reduction),*];

            /// Everything that is known of it.
            pub fn row(self) -> &'static ReductionRow {
                match self {
                    $(Self::$reduction => const { &ReductionRow { $($column: $value),* } }),*
                }
            }
        }
    };
}

reductions! {
    /// Sum: linear.
    Sum {
        name: "sum", partial: Reduction::Sum, result: ResultType::Number,
        start: 0.0, combine: |a, b| a + b, finish: |total, _| total,
        gradient: Broadcast(&DY),
    }
    /// Mean over the global size: linear.
    Mean {
        name: "mean", partial: Reduction::Sum, result: ResultType::Float,
        start: 0.0, combine: |a, b| a + b, finish: |total, count| total / count,
        gradient: Broadcast(&Infix(Div, &DY, &Count)),
    }
    /// Largest.
    Max {
        name: "max", partial: Reduction::Max, result: ResultType::Whole,
        start: f64::NEG_INFINITY, combine: f64::max, finish: |largest, _| largest,
        gradient: SHARE,
    }
    /// Smallest.
    Min {
        name: "min", partial: Reduction::Min, result: ResultType::Whole,
        start: f64::INFINITY, combine: f64::min, finish: |smallest, _| smallest,
        gradient: SHARE,
    }
}

impl ReduceFn {
    /// As programs write it.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// What its partial results are.
    pub fn reduction(self) -> Reduction {
        self.row().partial
    }
}
