//! Analyses of the tables: shapes and dtypes of results, the share of a product's terms that
//! are not masked, the collective between two shardings, mesh axes inside and between switched
//! domains, and the dataflow graph.

pub mod collective;
pub mod dataflow;
pub mod nvlink_domain;
pub mod shape;
pub mod sparse;
