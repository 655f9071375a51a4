//! An assignment of shardings becomes a plan of explicit steps.

pub mod placement;
pub mod plan;
