//! Rewrites programs for training: gradients, optimizer updates, microbatches.

pub(crate) mod frameworks;
pub(crate) mod gradient;
pub(crate) mod microbatches;
pub(crate) mod optimizer;
