//! Plans as Python modules that run them in JAX: one function under `jax.shard_map`, with the
//! plan's collectives in the plan's order.
//!
//! The module is written from the plan's JSON form, and from that of the same plan at small sizes,
//! at which its `main` runs. Writing shardings as constraints and leaving the collectives to XLA's
//! partitioner would be shorter, but what runs would then not be the plan.
//!
//! | file | writes |
//! | --- | --- |
//! | `flow` | nothing: finds which values pass into loops and out of them |
//! | `names` | identifiers |
//! | `expression` | local operations |
//! | `rearrange` | rearrangements of elements |
//! | `communication` | collectives |
//! | `phases` | nothing: divides the layers of pipelines into parts |
//! | `body` | functions: steps |
//! | `loops` | loops as `lax.scan` |
//! | `stages` | loops over the layers of pipelines |
//! | `sizes` | sizes and trip counts |
//! | `module` | mesh, specs, the functions, `main` |
//! | `specs` | the shardings alone, for Flax and `MaxText` |
//! | `layout` | lines as `black` breaks them |

mod body;
mod communication;
mod expression;
mod flow;
mod layout;
mod loops;
mod module;
mod names;
mod parts;
mod phases;
mod rearrange;
mod sizes;
mod specs;
mod stages;

use super::json::PlanJson;

/// What cannot be written in JAX yet.
#[derive(Clone, Debug)]
pub(crate) struct Unsupported {
    /// The value that it is about.
    pub(crate) value: String,
    /// What it is, as the end of a sentence.
    pub(crate) what: String,
}

/// A part of the module, or why there is none.
type Result<T = String> = std::result::Result<T, Unsupported>;

fn unsupported<T>(value: &str, what: impl Into<String>) -> Result<T> {
    Err(Unsupported { value: value.to_owned(), what: what.into() })
}

/// The module of a plan; `small` is the same plan at the sizes that `main` runs.
pub(crate) fn module(plan: &PlanJson, small: &PlanJson) -> Result {
    module::module(plan, small)
}

/// The shardings of a plan alone.
pub(crate) fn specs(plan: &PlanJson) -> String {
    specs::module(plan)
}
