#![doc = include_str!("../README.md")]

pub mod failure;
pub mod json;
pub mod oneliner;
pub mod options;
pub mod units;
pub mod verify;

mod budget;
mod cost_table;
mod dot;
mod driver;
mod gradient;
mod pipeline;
mod provenance;
mod text;

pub use driver::{Checked, Planned, check, format, plan, print_after};
pub use failure::{Findings, Report};
pub use options::{Objective, Options, Refinement, Strategy};
pub use pipeline::Pass;
pub use shardwise_grammar::codes;
pub use shardwise_ir::hardware::Hardware;
pub use shardwise_ir::plan::Plan;
pub use shardwise_ir::program::Program;
pub use shardwise_ir::{Diag, Severity, Span};
