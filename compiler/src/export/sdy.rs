//! Plans as `StableHLO` with Shardy: what each device runs is the body of an
//! `sdy.manual_computation` over all axes of the mesh, on its blocks of the arrays, with the plan's
//! collectives in the plan's order as operations of `StableHLO` with replica groups.
//!
//! Python's exporters write expressions; here every operation is a value of its own with a type.
//! Both are targets of one [walk](super::walk): an array of this one is the name of a value with
//! its shape and type, and asking for an operation writes its line. Loops are `stablehlo.while`,
//! whose regions read values around them as they are, so that a loop passes only what changes.
//!
//! Alternatives. *Shardings as constraints* (`sdy.sharding_constraint`) would leave the collectives
//! to a partitioner, and what runs would not be the plan. *Collectives of Shardy*
//! (`sdy.all_gather`) on global arrays read better, and XLA's partitioner refuses them: it takes
//! them as its own result, not as its input. *Building MLIR in memory* would need MLIR's libraries;
//! the text is checked by its own parser in the tests.
//!
//! | file | writes |
//! | --- | --- |
//! | `array` | types |
//! | `builder` | lines: operations on values |
//! | `writer` | steps, as a target of the walk |
//! | `local` | local operations |
//! | `einsum` | products |
//! | `functions` | element-wise functions |
//! | `indices` | positions, masks, tables |
//! | `rearrange` | rearrangements of elements, functions along dimensions |
//! | `windows` | windows of a dimension |
//! | `collectives` | collectives |
//! | `loops` | loops |
//! | `stages` | loops over the layers of pipelines |
//! | `timetable` | nothing: which stage runs what when |
//! | `module` | the mesh, arguments and results around all that |

mod array;
mod builder;
mod collectives;
mod einsum;
mod functions;
mod indices;
mod local;
mod loops;
mod module;
mod rearrange;
mod stages;
mod timetable;
mod windows;
mod writer;

use super::json::PlanJson;
use super::walk::Result;

/// The module of a plan.
pub(crate) fn module(plan: &PlanJson) -> Result {
    module::module(plan)
}
