//! The order in which a plan is written as a program: what is the same for all targets.
//!
//! Steps, loops, the stages of pipelines, what passes into loops and out of them, and the parts of
//! batches are walked here, once. What an array *is* differs: in Python an expression or the name
//! of a variable, in `StableHLO` a value with its type. So a [`Target`](target::Target) has a type
//! of its own for arrays, and the walk is generic over it; it calls the target for every operation
//! in the order in which a program has them, but for two things that each target orders itself:
//!
//! * the body of a loop is written before its head, because what the head passes on and keeps is
//!   known after the body only; a target holds the text back in between;
//! * what is made of an array that a loop leaves (its last element, its sum) is asked for when the
//!   loop is written, so that a target may emit operations for it.
//!
//! Alternatives. *An own walk for each kind of target* would need no trait, but what passes into
//! loops is the hardest part of an exporter, and two copies of it would differ. *A list of
//! instructions* between walk and targets would decouple them more; but names in Python depend on
//! the scopes of the walk, and types in `StableHLO` on the operations before, so the list would be
//! a third language.
//!
//! | file | |
//! | --- | --- |
//! | `target` | what targets say in their own words |
//! | `flow` | finds which values pass into loops and out of them |
//! | `collectives` | what a collective does to each dimension |
//! | `phases` | divides the layers of pipelines into parts |
//! | `body` | steps |
//! | `loops` | what loops pass on, read and leave |
//! | `parts` | rows of microbatches and chunks of scans |
//! | `stages` | loops over the layers of pipelines |
//! | `structure` | blocks around blocks; what no target can write |

pub(super) mod body;
pub(super) mod collectives;
pub(super) mod flow;
pub(super) mod loops;
mod parts;
pub(super) mod phases;
pub(super) mod stages;
pub(super) mod structure;
pub(super) mod target;

/// What cannot be written yet.
#[derive(Clone, Debug)]
pub(crate) struct Unsupported {
    /// The value that it is about.
    pub(crate) value: String,
    /// What it is, as the end of a sentence.
    pub(crate) what: String,
}

/// A part of a program, or why there is none.
pub(super) type Result<T = String> = std::result::Result<T, Unsupported>;

pub(super) fn unsupported<T>(value: &str, what: impl Into<String>) -> Result<T> {
    Err(Unsupported { value: value.to_owned(), what: what.into() })
}
