//! Rewriting and judging: layouts, reshards, the two planning strategies, and what a plan costs.
pub mod cost;
pub mod insert_collectives;
pub mod layouts;
pub mod pipeline;
pub mod problem;
pub mod propagate;
pub mod reshard;
pub mod search;
pub mod solver;
pub mod training;
