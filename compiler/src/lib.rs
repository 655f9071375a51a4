#![doc = include_str!("../README.md")]
// Every public function says what it refuses.
#![warn(clippy::missing_errors_doc)]

pub mod accuracy;
pub mod build;
pub mod calibrate;
pub mod cost;
pub mod diagnostics;
pub mod diff;
pub mod docs;
pub mod editor;
pub mod explain;
pub mod export;
pub mod hardware;
pub mod import;
pub mod inference;
pub mod lint;
pub mod metrics;
pub mod options;
pub mod schemas;
pub mod source;
mod split_axes;
pub mod sweep;
pub mod templates;
pub mod tune;

mod display;
mod driver;
mod forms;
mod grouping;
mod page;
mod pass_faults;
mod planned;
mod print_after;
mod report;
mod simulate;
mod use_def;

pub use cost::attention;
pub use diagnostics::{Findings, Report};
pub use diff::diff;
pub use display::units;
pub use driver::{Checked, check, format, plan, unmeasured};
pub use export::json;
pub use options::{
    AxisParts, AxisSize, Collectives, DimSize, Fusion, Grouping, Objective, Options, Products,
    Rates, Refinement, Strategy, sizes as setting,
};
pub use planned::Planned;
pub use planned::link_breakdown as networks;
pub use planned::parallelism;
pub use print_after::print_after;
pub use shardwise_ir::codes;
pub use shardwise_ir::dataflow::Analyzed;
pub use shardwise_ir::hardware::Hardware;
pub use shardwise_ir::plan::Plan;
pub use shardwise_ir::program::Program;
pub use shardwise_ir::stages::Schedule;
pub use shardwise_ir::{Diag, Role, Severity, Span};
pub use shardwise_passes::pipeline::Pass;
pub use source::{files, oneliner};

/// Plans run on simulated devices and compared with the unsharded program.
pub mod verify {
    pub use crate::simulate::*;
}
