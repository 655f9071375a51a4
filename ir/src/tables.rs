//! The tables of programs and plans, without anything computed from them.
//!
//! Every table has one id type ([`crate::ids`]); what refers to another table holds its id, so that
//! a program can be cloned, compared and rewritten without pointers. What can be derived from
//! tables (who uses a value, which dtype a result has, which collective changes a sharding) is in
//! [`crate::loops`] and in `analysis`.

pub mod blocks;
pub mod filled;
pub mod hardware;
mod kernel;
mod measured_presets;
pub mod optimizer;
pub mod plan;
mod presets;
pub mod program;
pub mod rates;
pub mod rearrange;
pub mod renumber;
pub mod stages;
mod zigzag;
