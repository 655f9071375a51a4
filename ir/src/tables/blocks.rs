//! Blocks: statements that run once per layer, once per microbatch, or once per layer of each
//! microbatch.
//!
//! There are two kinds, and they nest in one way: microbatches around layers. A block stores its
//! enclosing block, and a statement stores the innermost block, so tables need one id and no list.
//! The other nesting (layers around microbatches) would run the whole batch through one layer
//! before the next layer, which needs no microbatches.
//!
//! A microbatch is a strided selection of rows: `B=B'*8` splits a batch into eight so that the
//! number of the microbatch is the minor factor. A device that holds a block of rows then holds the
//! same block of every microbatch, and selecting rows needs no communication. With contiguous
//! ranges of rows, each microbatch would be on few devices.

use index_vec::IndexVec;
use shardwise_grammar::span::Span;
use strum::{IntoStaticStr, VariantArray};

use crate::ids::{AxisId, DimId, RepeatId, ValueId};
use crate::plan::Materialization;
use crate::program::Program;
use crate::stages::{Schedule, Stages};

/// A block whose operations run once per layer, or once per microbatch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// The name of the layers; for microbatches the dimension that is split.
    pub name: String,
    /// The trip count: the number of layers or microbatches.
    pub count: u64,
    /// The forward block whose layers it iterates over in reverse; it may read the values of each
    /// of them.
    pub reversed: Option<RepeatId>,
    /// What is kept for gradients, beside the loop-carried values; `None`: all that they read.
    pub checkpoint: Option<Checkpoint>,
    /// Values of its layers that are gathered once per step and kept for all microbatches (`hold`).
    pub kept_gathered: Vec<Materialization>,
    /// The block of microbatches that contains it, if any.
    pub within: Option<RepeatId>,
    /// The dimension that its microbatches split; `None`: a block of layers.
    pub microbatches_of: Option<BatchSplit>,
    /// The pipeline of its layers; that of the reversed block is the same.
    pub pipeline: Option<Pipeline>,
    /// Its opening line.
    pub span: Span,
}

/// `checkpoint`: which values of a block are kept for its gradients, and which are computed again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Whether the named values are computed again and all others kept (`only`), or the other way
    /// round.
    pub recomputes_named: bool,
    /// Values that it names.
    pub values: Vec<ValueId>,
    /// Kinds of values that it names.
    pub groups: Vec<ValueGroup>,
    /// The statement.
    pub span: Span,
}

/// A kind of values of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum ValueGroup {
    /// The results of products that sum over a dimension.
    Products,
    /// Scores of attention: what has the dimensions of a softmax over a product of two values.
    Attention,
    /// What has a dimension that one product with a parameter makes and another sums over, and
    /// that is no dimension of attention.
    Mlp,
}

/// A dimension that is split into microbatches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSplit {
    /// The batch.
    pub batch: DimId,
    /// The dimension of a microbatch in its place.
    pub microbatch: DimId,
}

/// A pipeline: the assignment of a block's layers to stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// The stage axis.
    pub axis: AxisId,
    /// The number of microbatches.
    pub microbatches: u64,
    /// The batch dimension.
    pub batch: DimId,
    /// The schedule.
    pub schedule: Schedule,
    /// The number of chunks (runs of consecutive layers) of a stage.
    pub chunks: u64,
    /// The layers of each stage.
    pub stages: Stages,
    /// Its opening line.
    pub span: Span,
}

/// Scopes of statements. A place is the innermost block around a statement, `None` outside all.
pub trait Blocks {
    /// The forward block of the layers of `of`: itself, or the block that it reverses.
    fn forward_block(&self, of: RepeatId) -> RepeatId;

    /// The block of microbatches around a place.
    fn microbatches(&self, at: Option<RepeatId>) -> Option<RepeatId>;

    /// The block of layers around a place.
    fn layer_block(&self, at: Option<RepeatId>) -> Option<RepeatId>;

    /// The blocks around a place, the outermost first.
    fn path(&self, at: Option<RepeatId>) -> Vec<RepeatId> {
        [self.microbatches(at), self.layer_block(at)].into_iter().flatten().collect()
    }

    /// The layers that a place iterates over.
    fn layers_at(&self, at: Option<RepeatId>) -> Option<RepeatId> {
        self.layer_block(at).map(|block| self.forward_block(block))
    }

    /// Whether a value defined in `of` is in scope in `at`: there is one of it, or one of the same
    /// layer and microbatch.
    fn in_scope(&self, at: Option<RepeatId>, of: Option<RepeatId>) -> bool {
        let same =
            |here: Option<RepeatId>, there: Option<RepeatId>| there.is_none() || here == there;
        same(self.microbatches(at), self.microbatches(of))
            && same(self.layers_at(at), self.layers_at(of))
    }

    /// The outermost block around a place that is not around another place.
    fn outermost(&self, at: Option<RepeatId>, of: Option<RepeatId>) -> Option<RepeatId> {
        let around = self.path(of);
        self.path(at).into_iter().find(|block| !around.contains(block))
    }

    /// The microbatches that a value defined in `of` leaves for a place.
    fn exited_microbatches(&self, at: Option<RepeatId>, of: Option<RepeatId>) -> Option<RepeatId> {
        self.exited_block(at, of).filter(|&block| self.microbatches(Some(block)) == Some(block))
    }

    /// The one block that a value defined in `of` leaves when a statement in `at` exports it;
    /// `None` where that is none, or several.
    fn exited_block(&self, at: Option<RepeatId>, of: Option<RepeatId>) -> Option<RepeatId> {
        let of_microbatches = self.microbatches(of).filter(|_| self.microbatches(at).is_none());
        let of_layers = self.layer_block(of).filter(|_| self.layer_block(at).is_none());
        match (of_microbatches, of_layers) {
            (Some(block), None) if self.layers_at(at) == self.layers_at(of) => Some(block),
            (None, Some(block)) if self.microbatches(at) == self.microbatches(of) => Some(block),
            _ => None,
        }
    }
}

impl Blocks for IndexVec<RepeatId, Repeat> {
    fn forward_block(&self, of: RepeatId) -> RepeatId {
        self[of].reversed.unwrap_or(of)
    }

    fn microbatches(&self, at: Option<RepeatId>) -> Option<RepeatId> {
        at.and_then(|block| {
            if self[block].microbatches_of.is_some() { Some(block) } else { self[block].within }
        })
    }

    fn layer_block(&self, at: Option<RepeatId>) -> Option<RepeatId> {
        at.filter(|&block| self[block].microbatches_of.is_none())
    }
}

impl Program {
    /// How often the statements of a block run.
    pub fn iterations(&self, at: Option<RepeatId>) -> u64 {
        self.repeats
            .path(at)
            .into_iter()
            .map(|block| self.repeats[block].count)
            .fold(1, u64::saturating_mul)
    }

    /// The number of layers of a place; 1 outside blocks.
    pub fn layer_count(&self, at: Option<RepeatId>) -> u64 {
        self.repeats.layer_block(at).map_or(1, |block| self.repeats[block].count)
    }

    /// Whether a value is declared. Microbatches share declared values: there is one of it for each
    /// layer.
    pub fn is_declared(&self, value: ValueId) -> bool {
        self.values[value].is_declared()
    }

    /// Whether a value is in scope in `at`: it is of the same layer and microbatch, or of none.
    pub fn in_scope(&self, at: Option<RepeatId>, value: ValueId) -> bool {
        let of = self.values[value].repeat;
        if self.is_declared(value) {
            let of = self.repeats.layers_at(of);
            return of.is_none() || of == self.repeats.layers_at(at);
        }
        self.repeats.in_scope(at, of)
    }

    /// The block that a value leaves when a statement in `at` exports it.
    pub fn exited_block(&self, at: Option<RepeatId>, value: ValueId) -> Option<RepeatId> {
        self.repeats.exited_block(at, self.values[value].repeat)
    }
}
