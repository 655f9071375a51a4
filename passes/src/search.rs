//! The cheapest plan: the sharding problem, and the searches that solve it.

pub mod bottleneck;
pub mod memory;
pub mod plan;
pub mod problem;
pub(crate) mod tie_break;
