//! Searches for the cheapest plan whose peak memory fits into a device.

pub(crate) mod blocks;
mod demand;
mod drop_candidates;
pub(crate) mod feasible;
mod fill;
mod front;
mod ladder;
pub(crate) mod limit;
mod live_blocks;
mod measures;
mod relink;
mod rematerialize;
mod smaller;
