//! Plans as Python modules that run them in JAX: one function under `jax.shard_map`, with the
//! plan's collectives in the plan's order.
//!
//! Writing shardings as constraints and leaving the collectives to XLA's partitioner would be
//! shorter, but what runs would then not be the plan.
//!
//! | file | writes |
//! | --- | --- |
//! | `dialect` | operations of arrays |
//! | `collectives` | collectives |
//! | `loops` | loops as `lax.scan` |
//! | `module` | mesh, specs, the functions, `main` |
//! | `specs` | the shardings alone, for Flax and `MaxText` |

mod collectives;
mod dialect;
mod loops;
mod module;
mod specs;

use super::json::PlanJson;
use super::walk::Result;

/// The module of a plan; `small` is the same plan at the sizes that `main` runs.
pub(crate) fn module(plan: &PlanJson, small: &PlanJson) -> Result {
    module::module(plan, small)
}

/// The shardings of a plan alone.
pub(crate) fn specs(plan: &PlanJson) -> String {
    specs::module(plan)
}
