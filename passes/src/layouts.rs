//! Every layout in which each operation can run, and the local shapes that result.

pub(crate) mod composite;
pub mod local_shape;
pub mod op_layouts;
pub(crate) mod reshape;
