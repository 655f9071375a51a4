//! `hold Win[D, F]`: keeps the gathered form of a layer's parameter from microbatch to microbatch
//! (no reshard after forward).
//!
//! Every microbatch runs through the same layers, in a block or through the stages of a pipeline,
//! and reads the same weights. The result of a collective on such a weight is either produced for
//! each microbatch and freed, which takes the memory of one layer, or produced for the first
//! microbatch and retained, which takes the memory of all layers of a device. Retaining changes no
//! value, so it is an annotation of the block, as `checkpoint` is, and not another kind of
//! statement: execution ignores it, the cost model reads it here.
//!
//! Alternatives: a separate block of gathers before the microbatches would read the parameters of
//! layers before they are declared; a flag of the statement would be one more field of every step,
//! in every pass, for the sake of very few.

use crate::Role;
use crate::ids::{RepeatId, ValueId};
use crate::pipeline::TripCount;
use crate::plan::Materialization;
use crate::program::{Blocks, Program, Value};

impl Program {
    /// Whether a place in layers runs for several microbatches.
    pub fn is_microbatched(&self, at: Option<RepeatId>) -> bool {
        self.repeats.layer_block(at).is_some()
            && (self.pipeline(at).is_some() || self.repeats.microbatches(at).is_some())
    }

    /// Whether there is one of a value for each layer of a block: it is declared there.
    pub fn is_per_layer(&self, value: ValueId) -> bool {
        self.is_declared(value) && self.values[value].repeat.is_some()
    }

    /// Whether all microbatches read the same value of a layer: a parameter, or state without rows
    /// of the batch.
    pub fn is_shared(&self, value: ValueId) -> bool {
        let Value { role, repeat, .. } = &self.values[value];
        matches!(role, Some(Role::Param | Role::State))
            && self.is_per_layer(value)
            && !self.has_batch(*repeat, value)
    }

    /// Whether a block keeps a gathered parameter of a layer for all microbatches.
    pub fn is_kept_gathered(&self, at: Option<RepeatId>, of: &Materialization) -> bool {
        self.is_microbatched(at)
            && at.is_some_and(|block| self.repeats[block].kept_gathered.contains(of))
    }

    /// How often a value is resharded in a block, by whether the result is kept (`held`) or
    /// dropped.
    pub fn reshard_trip_count(
        &self,
        at: Option<RepeatId>,
        value: ValueId,
        held: bool,
    ) -> TripCount {
        let shared = self.is_shared(value);
        if shared && held && self.is_microbatched(at) {
            let stages = self.pipeline(at).map(|pipeline| &pipeline.stages);
            let layers = self.layers_per_device(at);
            let once = TripCount { per_device: layers, including_bubble: layers, waited: layers };
            return stages.map_or(once, |stages| stages.once_count(self.layers_per_staged(at)));
        }
        self.trip_count(at, shared || self.has_batch(at, value))
    }
}
