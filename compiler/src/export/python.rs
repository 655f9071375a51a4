//! Plans as Python modules: what is the same for every framework that arrays can be written in.
//!
//! A module is written from the plan's JSON form, and from that of the same plan at small sizes, at
//! which its `main` runs. Which steps there are, in which order, in which loops, under which names
//! and with which dimensions is decided here; how a framework says it is its [`Dialect`].
//!
//! | file | writes |
//! | --- | --- |
//! | `dialect` | nothing: what each framework says in its own words |
//! | `flow` | nothing: finds which values pass into loops and out of them |
//! | `names` | identifiers |
//! | `expression` | local operations |
//! | `rearrange` | rearrangements of elements |
//! | `collectives` | nothing: what a collective does to each dimension |
//! | `phases` | nothing: divides the layers of pipelines into parts |
//! | `body` | functions: steps |
//! | `loops` | what loops pass on, read and leave |
//! | `stages` | loops over the layers of pipelines |
//! | `sizes` | sizes and trip counts |
//! | `module` | the functions together, and tables |
//! | `layout` | lines as `black` breaks them |

pub(super) mod body;
pub(super) mod collectives;
pub(super) mod dialect;
pub(super) mod expression;
pub(super) mod flow;
pub(super) mod layout;
pub(super) mod loops;
pub(super) mod module;
pub(super) mod names;
mod parts;
pub(super) mod phases;
mod rearrange;
pub(super) mod sizes;
pub(super) mod stages;

/// What cannot be written yet.
#[derive(Clone, Debug)]
pub(crate) struct Unsupported {
    /// The value that it is about.
    pub(crate) value: String,
    /// What it is, as the end of a sentence.
    pub(crate) what: String,
}

/// A part of the module, or why there is none.
pub(super) type Result<T = String> = std::result::Result<T, Unsupported>;

pub(super) fn unsupported<T>(value: &str, what: impl Into<String>) -> Result<T> {
    Err(Unsupported { value: value.to_owned(), what: what.into() })
}
