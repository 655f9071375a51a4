//! Programs from programs: gradients, optimizer updates, microbatches.

pub mod gradient;
pub mod microbatches;
pub mod optimizer;
