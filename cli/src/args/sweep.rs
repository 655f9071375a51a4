//! `sweep`: arguments for the programs, the mesh shapes, sizes and chips, and the output.

use clap::Args;
use shardwise::export::Format;
use shardwise::sweep::{FORMATS, Swept};

use super::one_of::format_of;
use super::plan::ExpressionArgs;
use super::planning::{HardwareFileArgs, RateArgs, SearchArgs};

/// The heading in help of the varied sizes.
const HEADING: &str = "Sizes and hardware";

#[derive(Args, Debug)]
pub(crate) struct SweepArgs {
    /// Programs; `-` is standard input.
    #[arg(
        required_unless_present = "expression",
        conflicts_with = "expression",
        value_name = "FILE"
    )]
    pub(crate) files: Vec<String>,
    #[command(flatten)]
    pub(crate) one_liner: ExpressionArgs,
    /// Output format.
    #[arg(long, value_parser = format_of(FORMATS), default_value = FORMATS[0].name)]
    pub(crate) format: &'static Format<Swept>,
    /// Write to a file, instead of to standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<String>,
    /// Mesh shapes: 'X*Y=64', 'X*Y=64 over 4x4x4', X=4|8|16, or several separated by commas. May
    /// be repeated; each program is planned for the shapes that name most of its axes.
    #[arg(long, value_name = "SHAPES", help_heading = HEADING)]
    pub(crate) mesh: Vec<String>,
    /// Dimension sizes: B=1e4..1e7 (16 of them), B=1e4..1e7/40, 'B=1024|4096'.
    #[arg(long = "dim", value_name = "SIZES", help_heading = HEADING)]
    pub(crate) dims: Vec<String>,
    /// Chips: tpu-v5p,tpu-v5e.
    #[arg(long, value_name = "NAMES", help_heading = HEADING)]
    pub(crate) hardware: Vec<String>,
    #[command(flatten, next_help_heading = HEADING)]
    pub(crate) hardware_files: HardwareFileArgs,
    #[command(flatten)]
    pub(crate) rates: RateArgs,
    #[command(flatten)]
    pub(crate) search: SearchArgs,
}
