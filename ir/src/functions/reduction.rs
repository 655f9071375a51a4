//! Reductions: one row each. Adding one is one entry of `reductions!`.

use super::Arithmetic::Div;
use super::Formula::{self, Broadcast, Call, Count, Given as DY, Infix, Product, Reduce};
use super::{Function, ResultType};
use crate::sharding::Reduction;

/// One where the operand has the element that the reduction selected.
const PICKED: Formula = Call(Function::Equal, &[Formula::Operand(0), Formula::Result]);
/// An even share of the gradient for each of several that are equal.
const SHARE: Formula = Product(&PICKED, &Infix(Div, &DY, &Reduce(ReduceFn::Sum, &PICKED)));

/// The row of a reduction.
#[derive(Debug)]
pub struct ReductionRow {
    /// As programs write it.
    pub name: &'static str,
    /// The kind of its partial results: those of a mean are parts of a sum.
    pub partial: Reduction,
    /// The type of its result.
    pub result: ResultType,
    /// The identity: the result for no elements.
    pub start: f64,
    /// Combines two partial results.
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

            /// Its row.
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

    /// The kind of its partial results.
    pub fn reduction(self) -> Reduction {
        self.row().partial
    }
}
