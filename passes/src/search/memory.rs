//! Searches for the cheapest plan whose peak memory fits into a device.

mod demand;
pub(crate) mod feasible;
pub(crate) mod limit;
mod rematerialize;
