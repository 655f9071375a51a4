//! An assignment of shardings becomes a plan of explicit steps.

pub(crate) mod placement;
pub(crate) mod plan;
