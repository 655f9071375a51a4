//! The cheapest plan that a device's memory has capacity for.

pub mod demand;
pub mod lagrangian;
pub(crate) mod limit;
pub mod rematerialize;
