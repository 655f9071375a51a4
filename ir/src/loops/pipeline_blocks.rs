//! The blocks of a pipeline: one block of layers, or several in a block of their own.

use crate::ids::RepeatId;
use crate::pipeline::Stages;
use crate::program::{BlockKind, Blocks, Program};

impl Program {
    /// The outermost block of the pipeline around a place: that of its layers, or the one around
    /// its several blocks.
    pub fn whole_pipeline(&self, at: Option<RepeatId>) -> Option<RepeatId> {
        let staged = |block: &RepeatId| self.repeats[*block].pipeline.is_some();
        self.repeats.outwards(at).filter(staged).last()
    }

    /// Whether microbatches go back through the stages of a place: its pipeline, or that which it
    /// reverses, has a reverse.
    pub fn trains(&self, at: Option<RepeatId>) -> bool {
        let Some(whole) = self.whole_pipeline(at) else { return false };
        let forward = self.repeats.forward_block(whole);
        self.repeats.iter().any(|repeat| repeat.reversed == Some(forward))
    }

    /// The pipelines, by their outermost block going forward.
    pub fn pipelines(&self) -> impl Iterator<Item = RepeatId> {
        self.repeats.indices().filter(|&block| {
            self.repeats[block].reversed.is_none()
                && self.whole_pipeline(Some(block)) == Some(block)
        })
    }

    /// The blocks of a pipeline, in their order: those in a block around several, or it alone.
    pub fn blocks_of_pipeline(&self, whole: RepeatId) -> Vec<RepeatId> {
        if self.repeats[whole].kind != BlockKind::Pipeline {
            return vec![whole];
        }
        let is_in_it = |block: &RepeatId| self.repeats[*block].within == Some(whole);
        self.repeats.indices().filter(is_in_it).collect()
    }

    /// The names of the layers of a pipeline: `L`, or of several blocks `Dense, Sparse`.
    pub fn names_of_layers(&self, whole: RepeatId) -> String {
        let blocks = self.blocks_of_pipeline(whole).into_iter();
        let blocks = blocks.map(|block| &self.repeats[block]);
        let layers = blocks.filter(|block| block.kind == BlockKind::Layers);
        layers.map(|block| block.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// The layers of a pipeline at each position, without what is beside them.
    pub fn layers_of_pipeline(&self, whole: RepeatId) -> Option<Stages> {
        let blocks = self.blocks_of_pipeline(whole).into_iter();
        let blocks = blocks.map(|block| &self.repeats[block]);
        let layers = blocks.filter(|block| block.kind == BlockKind::Layers);
        Stages::sum(layers.filter_map(|block| Some(&block.pipeline.as_ref()?.stages)))
    }
}
