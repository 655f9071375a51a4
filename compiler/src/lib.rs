#![doc = include_str!("../README.md")]

pub mod attention;
pub mod build;
pub mod cost;
pub mod diff;
pub mod explain;
pub mod failure;
pub mod files;
pub mod hardware;
pub mod inference;
pub mod json;
pub mod lint;
pub mod networks;
pub mod oneliner;
pub mod options;
pub mod setting;
pub mod sweep;
pub mod units;
pub mod verify;

mod budget;
mod dot;
mod driver;
mod gradient;
mod lints;
mod optimizer;
mod pipeline;
mod place;
mod provenance;
mod readers;
mod text;
mod trace;

pub use diff::diff;
pub use driver::{Checked, Planned, check, format, plan, print_after};
pub use failure::{Findings, Report};
pub use options::{AxisSize, DimSize, Objective, Options, Refinement, Strategy};
pub use pipeline::Pass;
pub use shardwise_grammar::codes;
pub use shardwise_ir::hardware::Hardware;
pub use shardwise_ir::plan::Plan;
pub use shardwise_ir::program::Program;
pub use shardwise_ir::{Diag, Role, Severity, Span};
