//! Gradients: what is differentiated, and the part of a step that they make.

use super::SizeExpr;
use crate::span::Name;

/// `backward from Loss`, `backward from Out given dOut, microbatches=8`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backward {
    /// The value that is differentiated.
    pub from: Name,
    /// The gradient of it, if it is not all ones.
    pub given: Option<Name>,
    /// The number of microbatches that the batch is split into.
    pub microbatches: Option<SizeExpr>,
    /// The batch dimension, if it is named.
    pub of: Option<Name>,
    /// The dtype of the gradients of parameters, if it is not theirs.
    pub gradients: Option<Name>,
    /// What is kept, and how long.
    pub keeps: Keeps,
    /// Options that are given again, as they are written.
    pub repeated: Vec<Name>,
}

/// What a training step keeps, where it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keeps {
    /// How long gradients of parameters are kept.
    pub until: Option<Until>,
    /// What happens to weights that are gathered.
    pub weights: Option<Weights>,
}

/// Which part of a training step a statement belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Before the gradients, or in a program without any.
    #[default]
    Forward,
    /// A gradient, or a use of gradients.
    Backward,
}

impl Phase {
    /// As programs write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
        }
    }
}

/// What happens to weights of layers that the forward part gathers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// They are gathered for each layer and microbatch, and again going back.
    Regathered,
    /// They are kept until the backward part has read them, however much memory that takes.
    Kept,
    /// The search decides.
    Chosen,
}

impl Weights {
    /// Each of them.
    pub const ALL: [Self; 3] = [Self::Regathered, Self::Kept, Self::Chosen];

    /// As programs write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Regathered => "regathered",
            Self::Kept => "kept",
            Self::Chosen => "chosen",
        }
    }
}

/// How long gradients of parameters are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// All through the step, as buffers of frameworks are.
    Step,
    /// Until the parameter is updated, which may be before the next layer's gradient.
    Update,
}

impl Until {
    /// Each of them.
    pub const ALL: [Self; 2] = [Self::Step, Self::Update];

    /// As programs write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Update => "update",
        }
    }
}
