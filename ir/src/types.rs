//! What tables and functions are made of: ids, element types, mesh axes and shardings.
//!
//! They know no operation, so that the table of functions can name dtypes and reductions, and
//! programs can name functions.

pub mod axis_parts;
pub mod collectives;
pub mod dtype;
pub mod ids;
pub mod mesh;
pub mod products;
pub mod sharding;
