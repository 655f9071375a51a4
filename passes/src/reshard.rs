//! Between two shardings of one value: the space of shardings, and the cheapest steps in it.

pub(crate) mod paths;
pub(crate) mod sharding_space;
pub(crate) mod tables;
