//! What the walk asks of a target.

use indexmap::IndexSet;

use super::super::json::{Operation, StagesJson, StepJson, TensorJson, ValueJson};
use super::Result;
use super::loops::Iterated;
use super::stages::Staged;

/// A length that depends on a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::export) enum Count {
    /// How often it runs.
    Trips(usize),
    /// The layers of a device, of the stage that has the most.
    Slots(usize),
    /// The microbatches of its pipeline.
    Microbatches(usize),
}

/// What each iteration of a loop reads of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::export) enum Rows {
    /// The rows of its microbatch: every n-th of n microbatches.
    Microbatch,
    /// The chunk of a scan.
    Chunk,
    /// One element of a scan.
    Element,
}

/// What is read of the array that a loop leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::export) enum Taken {
    /// All of it.
    All,
    /// The element of the iteration that ran last.
    Last {
        /// Whether that is the first layer.
        reverse: bool,
    },
    /// The sum over the layers of a stage.
    SumOfLayers,
    /// The rows of all microbatches, along this dimension.
    Joined(usize),
    /// The sum over layers, and of that the rows of all microbatches.
    SumJoined(usize),
}

/// The microbatches of a dimension of an array.
#[derive(Clone, Copy, Debug)]
pub(in crate::export) struct Microbatches<'p> {
    /// The dimension that a pipeline splits.
    pub(in crate::export) batch: &'p str,
    /// Where the array has it.
    pub(in crate::export) place: usize,
    /// Whether the array has one more dimension, the first one, of layers.
    pub(in crate::export) by_layer: bool,
}

/// A language that plans are written in.
pub(in crate::export) trait Target: Sized {
    /// An array.
    type Array: Clone + PartialEq;
    /// What is kept from the beginning of a loop until it is written.
    type Entry;

    /// An argument.
    fn declared(&mut self, value: &ValueJson, given: &TensorJson) -> Self::Array;

    /// All layers of an argument.
    fn of_layers(&self, value: &str) -> Self::Array;

    /// A local operation.
    fn local(&mut self, step: &StepJson, of: &[Self::Array]) -> Result<Self::Array>;

    /// A collective, or a part of what every device has.
    fn collective(
        &mut self,
        step: &StepJson,
        operation: &Operation,
        of: &Self::Array,
    ) -> Result<Self::Array>;

    /// The rows of all microbatches, of an array with a first dimension for these.
    fn joined(&mut self, step: &StepJson, of: &Self::Array, from: &str, to: &str) -> Self::Array;

    /// The values of all steps of a scan side by side, of an array with a first dimension for
    /// these.
    fn stacked(
        &mut self,
        step: &StepJson,
        of: &Self::Array,
        from: Option<&str>,
        to: &str,
    ) -> Self::Array;

    /// The array of a step under a name: that of `old`, the same value in a sharding that nothing
    /// reads any more, if there is one. `is_first` is whether no sharding of the value is known.
    fn assigned(
        &mut self,
        step: &StepJson,
        made: Self::Array,
        old: Option<Self::Array>,
        is_first: bool,
    ) -> Self::Array;

    /// Zeros in the sharding of a tensor, with these dimensions first.
    fn zeros(&mut self, first: &[Count], of: &TensorJson) -> Result<Self::Array>;

    /// A sum of two arrays of one type.
    fn plus(&mut self, a: &Self::Array, b: &Self::Array) -> Self::Array;

    /// A name for what is as an array is: what a loop passes on, inside of it and after it.
    fn named_like(&mut self, like: &Self::Array, name: &str) -> Self::Array;

    /// A name for one element along the first dimension, or along the first two.
    fn named_part(&mut self, all: &Self::Array, name: &str, depth: usize) -> Self::Array;

    /// A name for the values of all iterations along these dimensions, which lives outside of the
    /// loop.
    fn named_all(&mut self, own: &Self::Array, name: &str, first: &[Count]) -> Self::Array;

    /// The rows along a dimension that each iteration of a loop reads, along a first dimension.
    fn rows(
        &mut self,
        step: &StepJson,
        of: &Self::Array,
        at: (usize, Rows),
        block: usize,
    ) -> Self::Array;

    /// The microbatches of a pipeline along a first dimension, or along the second one of an array
    /// of layers.
    fn microbatches(&mut self, of: &Self::Array, rows: &Microbatches<'_>) -> Self::Array;

    /// What is read of an array that a loop left; `block` is its layers.
    fn taken(&mut self, all: &Self::Array, taken: Taken, block: usize) -> Self::Array;

    /// An array under a name, after a loop.
    fn held(&mut self, made: Self::Array, name: &str) -> Self::Array;

    /// Begins a loop.
    fn enter_loop(&mut self, block: usize, is_staged: bool) -> Self::Entry;

    /// Begins the layers of a pipeline, in which these dimensions are as long as in a microbatch.
    fn enter_stages(&mut self, block: usize, rows: &IndexSet<String>) -> Self::Entry;

    /// Begins an iteration.
    fn begin_body(&mut self, entry: &mut Self::Entry);

    /// Writes a loop, whose iteration has been written.
    fn write_loop(&mut self, entry: Self::Entry, of: &Iterated<'_, Self::Array>) -> Result<()>;

    /// Writes the layers of a pipeline, one of which has been written for one microbatch.
    fn write_stages(
        &mut self,
        entry: Self::Entry,
        stages: &StagesJson,
        of: &Staged<'_, Self::Array>,
    ) -> Result<()>;
}
