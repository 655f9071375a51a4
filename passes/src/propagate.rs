//! What operations do to shardings: layouts that each can run in, and the textbook's rules.

pub mod composite;
pub(crate) mod matmul_cases;
pub mod op_layouts;
pub(crate) mod reshape;
pub mod textbook;
