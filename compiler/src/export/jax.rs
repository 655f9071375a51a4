//! Plans as Python modules that run them in JAX: one function under `jax.shard_map`, with the
//! plan's collectives in the plan's order.
//!
//! Writing shardings as constraints and leaving the collectives to XLA's partitioner is shorter,
//! but what runs is then not the plan: `styles` says why, and writes that for comparison.
//!
//! | file | writes |
//! | --- | --- |
//! | `dialect` | operations of arrays |
//! | `collectives` | collectives |
//! | `loops` | loops as `lax.scan` |
//! | `module` | mesh, specs, the functions, `main` |
//! | `styles` | shardings of complete arrays, for XLA's partitioner |
//! | `specs` | the shardings alone, for Flax and `MaxText` |

mod collectives;
mod dialect;
mod loops;
mod module;
mod specs;
mod styles;

use super::json::PlanJson;
use super::walk::Result;
use styles::Style;

/// The module of a plan; `small` is the same plan at the sizes that `main` runs.
pub(crate) fn module(plan: &PlanJson, small: &PlanJson) -> Result {
    module::module(plan, small, Style::ShardMap)
}

/// The same with shardings in the types of complete arrays.
pub(crate) fn explicit(plan: &PlanJson, small: &PlanJson) -> Result {
    module::module(plan, small, Style::Explicit)
}

/// The same with shardings as constraints of complete arrays.
pub(crate) fn constraints(plan: &PlanJson, small: &PlanJson) -> Result {
    module::module(plan, small, Style::Constraints)
}

/// The shardings of a plan alone.
pub(crate) fn specs(plan: &PlanJson) -> String {
    specs::module(plan)
}
