//! Rewrites programs for training: gradients, narrow products, optimizer updates, microbatches.

pub(crate) mod frameworks;
pub(crate) mod gradient;
pub(crate) mod microbatches;
pub(crate) mod optimizer;
pub(crate) mod products;
