//! Blocks: statements that run once per layer, once per step of a scan, once per microbatch, or
//! once per layer of each microbatch.
//!
//! There are two kinds, since the steps of a scan are layers that read chunks. Layers nest in
//! layers, as deep as a model asks: five local layers before a global one, six times. Microbatches
//! are around layers and never inside: the other nesting would run the whole batch through one
//! layer before the next layer, which needs no microbatches.
//!
//! The blocks of a program are a tree. A block stores its enclosing block, and a statement stores
//! the innermost block around it, so tables need one id per row and no list. Alternatives: to write
//! out an inner block as often as it runs needs no tree, but a plan would have a copy of each
//! statement per turn, and the search would choose for each copy on its own; to repeat an outer
//! body as often as all blocks run has no place for the statements between inner blocks.
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

/// What a block of layers is in a pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockKind {
    /// `repeat`, `scan`, `microbatches`: it may be in a pipeline, or be all of it.
    #[default]
    Layers,
    /// `stage head`: statements that run once for each microbatch, on the stage of the layers next
    /// to them. It has one layer.
    Stage,
    /// `pipeline Z`: a pipeline of several blocks. It has one layer, and the blocks in it.
    Pipeline,
}

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
    /// What waits for gradients in the host's memory (`checkpoint offload`).
    pub offload: Option<NamedValues>,
    /// Values of its layers that are gathered once per step and kept for all microbatches (`hold`).
    pub kept_gathered: Vec<Materialization>,
    /// The block directly around it, if any.
    pub within: Option<RepeatId>,
    /// What it is in a pipeline.
    pub kind: BlockKind,
    /// The dimension that its microbatches split; `None`: a block of layers.
    pub microbatches_of: Option<BatchSplit>,
    /// What its steps read chunk by chunk; `None`: no scan.
    pub scan: Option<Scan>,
    /// The pipeline of its layers; that of the reversed block is the same. In a pipeline of several
    /// blocks each has one with its own layers at each position, and the block around them one
    /// whose statements run once on each stage.
    pub pipeline: Option<Pipeline>,
    /// Its opening line.
    pub span: Span,
}

impl Repeat {
    /// Whether it is a block of layers: neither microbatches nor steps of a scan.
    pub fn has_layers(&self) -> bool {
        self.microbatches_of.is_none() && self.scan.is_none()
    }

    /// Whether it is a block of layers that is neither in another one nor the reverse of one.
    pub fn has_outermost_layers(&self) -> bool {
        self.has_layers() && self.within.is_none() && self.reversed.is_none()
    }

    /// What its checkpoints name.
    pub fn named_values(&self) -> impl Iterator<Item = &NamedValues> {
        self.checkpoint
            .as_ref()
            .map(|checkpoint| &checkpoint.named)
            .into_iter()
            .chain(&self.offload)
    }

    /// The same, to change it.
    pub fn named_values_mut(&mut self) -> impl Iterator<Item = &mut NamedValues> {
        let kept = self.checkpoint.as_mut().map(|checkpoint| &mut checkpoint.named);
        kept.into_iter().chain(&mut self.offload)
    }
}

/// `checkpoint`: which values of a block are kept for its gradients, and which are computed again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Whether the named values are computed again and all others kept (`only`), or the other way
    /// round.
    pub recomputes_named: bool,
    /// What it names.
    pub named: NamedValues,
}

/// The values of a block that a `checkpoint` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedValues {
    /// Values that it names.
    pub values: Vec<ValueId>,
    /// Kinds of values that it names.
    pub groups: Vec<ValueGroup>,
    /// The statement.
    pub span: Span,
}

impl NamedValues {
    /// Adds what another statement names.
    pub fn extend(&mut self, other: Self) {
        self.values.extend(other.values);
        self.groups.extend(other.groups);
    }
}

/// A kind of values of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum ValueGroup {
    /// The results of products that sum over a dimension.
    Products,
    /// Scores of attention: what has the dimensions of a softmax over a product of two values.
    Attention,
    /// What is carried from layer to layer.
    Carried,
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

/// A dimension that the steps of a block go along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// The dimension.
    pub dim: DimId,
    /// That of a chunk; `None`: a step has one element, and not the dimension.
    pub chunk: Option<DimId>,
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

/// The deepest nesting of layers.
pub const MOST_NESTED: usize = 4;

/// Scopes of statements. A place is the innermost block around a statement, `None` outside all.
pub trait Blocks {
    /// The forward block of the layers of `of`: itself, or the block that it reverses.
    fn forward_block(&self, of: RepeatId) -> RepeatId;

    /// The block directly around a block.
    fn parent(&self, of: RepeatId) -> Option<RepeatId>;

    /// Whether a block runs once per microbatch.
    fn is_of_microbatches(&self, of: RepeatId) -> bool;

    /// The blocks around a place, the innermost first.
    fn outwards(&self, at: Option<RepeatId>) -> impl Iterator<Item = RepeatId> {
        std::iter::successors(at, |&block| self.parent(block))
    }

    /// Whether a place is in a block, or in one inside it.
    fn is_inside(&self, at: Option<RepeatId>, block: RepeatId) -> bool {
        self.outwards(at).any(|around| around == block)
    }

    /// The blocks around a place, the outermost first.
    fn path(&self, at: Option<RepeatId>) -> Vec<RepeatId> {
        let mut path: Vec<RepeatId> = self.outwards(at).collect();
        path.reverse();
        path
    }

    /// The block of microbatches around a place.
    fn microbatches(&self, at: Option<RepeatId>) -> Option<RepeatId> {
        self.outwards(at).find(|&block| self.is_of_microbatches(block))
    }

    /// The innermost block of layers around a place.
    fn layer_block(&self, at: Option<RepeatId>) -> Option<RepeatId> {
        at.filter(|&block| !self.is_of_microbatches(block))
    }

    /// The layers that a place iterates over, those of the innermost block.
    fn layers_at(&self, at: Option<RepeatId>) -> Option<RepeatId> {
        self.layer_block(at).map(|block| self.forward_block(block))
    }

    /// Whether a place is in a block, or in one that iterates over the same layers.
    fn iterates_over(&self, at: Option<RepeatId>, block: RepeatId) -> bool {
        let layers = self.forward_block(block);
        self.outwards(at).any(|around| self.forward_block(around) == layers)
    }

    /// Whether a value defined in `of` is in scope in `at`: there is one of it, or one of the same
    /// layer and microbatch.
    fn in_scope(&self, at: Option<RepeatId>, of: Option<RepeatId>) -> bool {
        self.outwards(of).all(|block| self.iterates_over(at, block))
    }

    /// Whether a declared value of `of` is in scope in `at`; microbatches share it.
    fn is_declared_for(&self, at: Option<RepeatId>, of: Option<RepeatId>) -> bool {
        let mut layers = self.outwards(of).filter(|&block| !self.is_of_microbatches(block));
        layers.all(|block| self.iterates_over(at, block))
    }

    /// The outermost block around a place that is not around another place.
    fn outermost(&self, at: Option<RepeatId>, of: Option<RepeatId>) -> Option<RepeatId> {
        self.outwards(at).filter(|&block| !self.is_inside(of, block)).last()
    }

    /// Whether one place is in layers, another in layers of other blocks, and neither around the
    /// other: what one reads of the other is there for every layer.
    fn are_apart(&self, at: Option<RepeatId>, of: Option<RepeatId>) -> bool {
        let (Some(here), Some(there)) = (self.layer_block(at), self.layer_block(of)) else {
            return false;
        };
        !self.is_inside(at, there) && !self.is_inside(of, here)
    }

    /// The microbatches that a value defined in `of` leaves for a place.
    fn exited_microbatches(&self, at: Option<RepeatId>, of: Option<RepeatId>) -> Option<RepeatId> {
        self.exited_block(at, of).filter(|&block| self.is_of_microbatches(block))
    }

    /// The one block that a value defined in `of` leaves when a statement in `at` exports it;
    /// `None` where that is none, or several.
    fn exited_block(&self, at: Option<RepeatId>, of: Option<RepeatId>) -> Option<RepeatId> {
        let mut left = self.outwards(of).filter(|&block| !self.iterates_over(at, block));
        let only = left.next().filter(|_| left.next().is_none());
        only.filter(|_| self.outwards(at).all(|block| self.iterates_over(of, block)))
    }
}

impl Blocks for IndexVec<RepeatId, Repeat> {
    fn forward_block(&self, of: RepeatId) -> RepeatId {
        self[of].reversed.unwrap_or(of)
    }

    fn parent(&self, of: RepeatId) -> Option<RepeatId> {
        self[of].within
    }

    fn is_of_microbatches(&self, of: RepeatId) -> bool {
        self[of].microbatches_of.is_some()
    }
}

impl Program {
    /// How often the statements of a block run.
    pub fn iterations(&self, at: Option<RepeatId>) -> u64 {
        let counts = self.repeats.outwards(at).map(|block| self.repeats[block].count);
        counts.fold(1, u64::saturating_mul)
    }

    /// The number of layers of a place, of all blocks around it; 1 outside blocks.
    pub fn layer_count(&self, at: Option<RepeatId>) -> u64 {
        self.layers_below(at, None)
    }

    /// The number of layers of a place for each layer of a block around it.
    pub(crate) fn layers_below(&self, at: Option<RepeatId>, around: Option<RepeatId>) -> u64 {
        let inner = self.repeats.outwards(at).take_while(|&block| Some(block) != around);
        let layers = inner.filter(|&block| !self.repeats.is_of_microbatches(block));
        layers.map(|block| self.repeats[block].count).fold(1, u64::saturating_mul)
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
            return self.repeats.is_declared_for(at, of);
        }
        self.repeats.in_scope(at, of)
    }

    /// The block that a value leaves when a statement in `at` exports it.
    pub fn exited_block(&self, at: Option<RepeatId>, value: ValueId) -> Option<RepeatId> {
        self.repeats.exited_block(at, self.values[value].repeat)
    }
}
