//! Between two shardings of one value: the space of shardings, and the cheapest steps in it.

mod alike;
pub(crate) mod direct;
pub(crate) mod layout_states;
pub(crate) mod part;
pub(crate) mod paths;
pub(crate) mod relaxed;
pub(crate) mod sharding_space;
mod step_table;
mod steps;
pub(crate) mod tables;
mod unpriced;
