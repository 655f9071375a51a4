//! Between two shardings of one value: the space of shardings, and the cheapest steps in it.

pub mod paths;
pub mod sharding_space;
pub mod tables;
