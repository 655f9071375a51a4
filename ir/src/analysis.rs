//! Analyses of the tables: shapes and dtypes of results, the share of a product's terms that
//! are not masked, the collective between two shardings, mesh axes inside and between switched
//! domains, operations that need the order of a sequence, and the dataflow graph.

pub mod collective;
pub mod dataflow;
pub mod host_memory;
pub mod nvlink_domain;
pub mod order;
pub mod shape;
pub mod sparse;
pub mod weights;
