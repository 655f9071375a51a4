//! Functions of all elements along one dimension at once, which must be unsharded there: running
//! sums, and the largest elements in order. One row each; adding one is one entry of `alongs!`.
//!
//! They are no composites: a composite is written out as element-wise statements and reductions
//! where its dimension is sharded, and neither a running sum nor an order can be.

use super::ResultType;
use crate::dtype::DType;
use crate::ids::DimId;

/// One of these functions, on dimensions of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Along {
    /// Which.
    pub function: AlongFn,
    /// The operand's dimension.
    pub from: DimId,
    /// The result's in its place; the same, unless the function picks elements.
    pub to: DimId,
}

/// The gradient of the operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlongGradient {
    /// This function of the gradient of the result: the transpose.
    Transposed(AlongFn),
    /// The gradient of the result, put at the indices that this function of the operand gives.
    PutAt(AlongFn),
    /// The result does not change with the operand, up to jumps.
    Zero,
}

/// The row of a function along a dimension.
#[derive(Debug)]
pub struct AlongRow {
    /// As programs write it.
    pub name: &'static str,
    /// What it computes, as a sentence of the page about functions.
    pub summary: &'static str,
    /// Whether it picks elements: its result has another dimension, as long as so many are picked.
    pub picks: bool,
    /// Whether it is linear, and so passes partial sums.
    pub is_linear: bool,
    /// Whether its result is indices.
    pub is_index: bool,
    /// FLOPs an element of the operand, where so many are picked.
    pub flops: fn(f64) -> f64,
    /// The gradient of the operand.
    pub gradient: AlongGradient,
    /// The elements of the result, so many, from those of the operand.
    pub evaluate: fn(&[f64], usize) -> Vec<f64>,
}

/// Writes the enum and the rows from one list.
macro_rules! alongs {
    ($(
        #[doc = $summary:literal]
        $function:ident { $($column:ident: $value:expr),* $(,)? }
    )*) => {
        /// Functions of all elements along one dimension, such as `cumsum_S(x)`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum AlongFn { $(#[doc = $summary] $function),* }

        impl AlongFn {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$function),*];

            /// Its row.
            pub fn row(self) -> &'static AlongRow {
                match self {
                    $(Self::$function => const { &AlongRow {
                        summary: $summary.trim_ascii(),
                        $($column: $value),*
                    } }),*
                }
            }
        }
    };
}

alongs! {
    /// The indices of the largest elements, the largest first; of equal ones the first.
    ArgTopK {
        name: "argtopk", picks: true, is_linear: false, is_index: true,
        flops: selection_flops, gradient: AlongGradient::Zero,
        evaluate: |x, count| largest(x, count).into_iter().map(|place| place as f64).collect(),
    }
    /// The sums of each element and those before it.
    CumSum {
        name: "cumsum", picks: false, is_linear: true, is_index: false,
        flops: |_| 1.0, gradient: AlongGradient::Transposed(AlongFn::RevCumSum),
        evaluate: |x, _| running_sums(x.iter()),
    }
    /// The sums of each element and those after it.
    RevCumSum {
        name: "revcumsum", picks: false, is_linear: true, is_index: false,
        flops: |_| 1.0, gradient: AlongGradient::Transposed(AlongFn::CumSum),
        evaluate: |x, _| {
            let mut sums = running_sums(x.iter().rev());
            sums.reverse();
            sums
        },
    }
    /// The largest elements, the largest first.
    TopK {
        name: "topk", picks: true, is_linear: false, is_index: false,
        flops: selection_flops, gradient: AlongGradient::PutAt(AlongFn::ArgTopK),
        evaluate: |x, count| largest(x, count).into_iter().map(|place| x[place]).collect(),
    }
}

impl AlongFn {
    /// As programs write it.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The dtype of its result, where no left side declares it: sums of truths are counted.
    pub(crate) fn result(self, operand: DType) -> DType {
        if self.row().is_index { DType::Int32 } else { ResultType::Number.of(operand, operand) }
    }
}

/// Each element is compared with the least of those picked, and a few of them are moved in a heap.
fn selection_flops(count: f64) -> f64 {
    1.0 + count.max(1.0).log2()
}

fn running_sums<'a>(x: impl Iterator<Item = &'a f64>) -> Vec<f64> {
    x.scan(0.0, |sum, x| {
        *sum += x;
        Some(*sum)
    })
    .collect()
}

/// The indices of the largest elements, so many.
fn largest(x: &[f64], count: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..x.len()).collect();
    places.sort_by(|&a, &b| x[b].total_cmp(&x[a]).then(a.cmp(&b)));
    places.truncate(count);
    places
}
