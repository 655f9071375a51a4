//! What frameworks say in their own words.

use super::super::json::{Operation, StepJson, TensorJson};
use super::super::walk::Result;
use super::body::Writer;
use super::expression::Expressions;
use super::loops::Iterated;

/// How a function sees arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::export) enum View {
    /// The blocks of one device.
    Blocks,
    /// Complete arrays, with the planned sharding of each as an annotation.
    Sharded,
    /// Complete arrays of the unsharded program.
    Unsharded,
}

/// An array that has been written.
pub(in crate::export) struct Written<'w> {
    /// The step that makes it, unless a loop does.
    pub(in crate::export) step: Option<&'w StepJson>,
    /// The variables that it is made from.
    pub(in crate::export) variables: &'w [String],
    /// Its planned sharding.
    pub(in crate::export) of: &'w TensorJson,
    /// How many unsharded dimensions come before those of the plan.
    pub(in crate::export) leading: usize,
}

/// A framework: how its operations, collectives and loops are written.
///
/// Texts that are given are variables or calls, so that they need no brackets.
pub(in crate::export) trait Dialect {
    /// How the function that the plan is written as sees arrays.
    fn view(&self) -> View {
        View::Blocks
    }

    /// A complete array in its planned sharding.
    fn annotated(&self, _: &mut Expressions<'_>, _: &Written<'_>, text: String) -> String {
        text
    }

    /// The module that has `vmap`.
    fn framework(&self) -> &'static str;

    /// The module of functions of arrays.
    fn arrays(&self) -> &'static str;

    /// The keyword of dimensions: `axis` or `dim`.
    fn dim_keyword(&self) -> &'static str;

    /// Helper functions by name, in the order in which they are written.
    fn helpers(&self) -> &'static [(&'static str, &'static str)];

    /// Whether an array that is a pending sum has a dimension for each pending axis; else a device
    /// has its part alone.
    fn has_pending_dims(&self) -> bool;

    /// Whether a sharded dimension that its axes do not divide can be written.
    fn has_padded_blocks(&self) -> bool;

    /// A type by its name in the language.
    fn dtype(&self, name: &str) -> Result;

    /// An array in another type.
    fn cast(&self, of: &str, dtype: &str) -> String;

    /// The type of the language in which integers are summed and counted, if it has that type.
    fn sums_of_integers(&self) -> Option<&'static str>;

    /// An array with its dimensions in another order.
    fn transposed(&self, of: &str, places: &str) -> String;

    /// Arrays side by side along a dimension.
    fn concatenated(&self, parts: &str, dim: usize) -> String;

    /// A part of an array along a dimension, from an offset on.
    fn window(&self, of: &str, dim: usize, start: &str, size: &str) -> String;

    /// Sums of elements up to each, or from each on, along a dimension.
    fn running_sum(&self, e: &mut Expressions<'_>, of: &str, dim: usize, reverse: bool) -> String;

    /// A cyclic shift of a dimension that is split over mesh axes.
    fn rolled(
        &self,
        e: &mut Expressions<'_>,
        of: &str,
        distance: &str,
        dim: usize,
        axes: &[String],
    ) -> String;

    /// The devices along mesh axes, as an argument of helpers in which they send to each other.
    fn group(&self, e: &mut Expressions<'_>, axes: &[String]) -> String;

    /// The name of a reduction of the language.
    fn reduction<'n>(&self, name: &'n str) -> &'n str;

    /// The length of a device's block of a dimension that is split over mesh axes.
    fn local(&self, e: &mut Expressions<'_>, size: &str, axes: &[String]) -> String;

    /// The number of a device's block along mesh axes.
    fn axis_index(&self, axes: &[String]) -> String;

    /// A product that sums: operands and their types, and the type of the result.
    fn einsum(
        &self,
        e: &mut Expressions<'_>,
        formula: &str,
        operands: [(&str, &str); 2],
        wanted: &str,
    ) -> Result;

    /// An element-wise function that is no infix operator; `a` are its arguments.
    fn function(
        &self,
        e: &mut Expressions<'_>,
        step: &StepJson,
        function: &str,
        a: &[String],
    ) -> Result;

    /// `softmax` or `logsumexp` along dimensions.
    fn softmax(&self, e: &mut Expressions<'_>, of: &str, function: &str, dims: &[usize]) -> String;

    /// A collective, or a part of what every device has.
    fn collective(
        &self,
        e: &mut Expressions<'_>,
        step: &StepJson,
        operation: &Operation,
        of: &str,
    ) -> Result;

    /// The stages along a mesh axis, as an argument.
    fn stages(&self, e: &mut Expressions<'_>, axis: &str) -> String;

    /// Whether an iteration of a loop is a function, which has its name outside.
    fn has_loop_functions(&self) -> bool;

    /// A loop, whose iteration is written already.
    fn iterated(&self, writer: &mut Writer<'_>, of: &Iterated<'_>);
}
