//! What operations do to shardings: every layout that each can run in, and what a device then has.

pub(crate) mod composite;
pub mod local_shape;
pub mod op_layouts;
pub(crate) mod reshape;
