//! Turns an assignment of shardings into a plan of explicit steps.

pub(crate) mod placement;
pub(crate) mod plan;
