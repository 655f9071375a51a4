//! Plans as Python modules that run them in `PyTorch`: functions of the blocks of one device, with
//! the plan's collectives in the plan's order, and `DTensor` placements for what goes in and out.
//!
//! Letting `DTensor` choose collectives from placements would be shorter, but what runs would then
//! not be the plan.
//!
//! | file | writes |
//! | --- | --- |
//! | `dialect` | operations of arrays |
//! | `collectives` | functional collectives |
//! | `loops` | loops of Python |
//! | `placements` | placements of arguments and outputs |
//! | `module` | mesh, the functions, `main` |

mod collectives;
mod dialect;
mod loops;
mod module;
mod placements;

use super::json::PlanJson;
use super::walk::Result;

/// The module of a plan; `small` is the same plan at the sizes that `main` runs.
pub(crate) fn module(plan: &PlanJson, small: &PlanJson) -> Result {
    module::module(plan, small)
}
