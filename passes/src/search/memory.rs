//! The cheapest plan that a device's memory has capacity for.

mod demand;
mod feasible;
pub(crate) mod limit;
mod rematerialize;
