//! `tune`: arguments for the program, the space that is searched, and the output.

use clap::Args;
use shardwise::export::Format;
use shardwise::setting;
use shardwise::tune::{FORMATS, Tuned};

use super::one_of::format_of;
use super::planning::{HardwareFileArgs, RateArgs, SearchArgs};

/// The heading in help of what is searched.
const SPACE: &str = "Space";
/// The heading in help of sizes.
const HEADING: &str = "Sizes and hardware";

#[derive(Args, Debug)]
pub(crate) struct TuneArgs {
    /// The program; `-` is standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
    /// Chips to use, all of them.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub(crate) chips: u64,
    /// Output format.
    #[arg(long, value_parser = format_of(FORMATS), default_value = FORMATS[0].name)]
    pub(crate) format: &'static Format<Tuned>,
    /// Write the winner to a file, as a program that `plan` plans the same way.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<String>,
    /// How many of the best strategies to prove and print.
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    pub(crate) best: usize,
    /// Do not plan what could be better by this much at most: 1%.
    #[arg(long, value_name = "PERCENT", value_parser = setting::percent, default_value = "0%")]
    pub(crate) within: f64,
    /// Mesh axes at most, with that of the stages.
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 2,
        value_parser = axes,
        help_heading = SPACE
    )]
    pub(crate) axes: usize,
    /// Numbers of microbatches, for programs with gradients.
    #[arg(
        long,
        value_name = "NUMBERS",
        value_delimiter = '|',
        value_parser = clap::value_parser!(u64).range(1..=1 << 16),
        default_value = "1|2|4|8|16|32",
        help_heading = SPACE
    )]
    pub(crate) microbatches: Vec<u64>,
    /// Numbers of pipeline stages, for programs whose layers can be a pipeline; 1 is none.
    #[arg(
        long,
        value_name = "NUMBERS",
        value_delimiter = '|',
        value_parser = clap::value_parser!(u64).range(1..=1 << 16),
        default_value = "1|2|4|8|16",
        help_heading = SPACE
    )]
    pub(crate) stages: Vec<u64>,
    /// Release what the program pins: brackets with axes, `checkpoint`, `microbatches=`.
    #[arg(long, help_heading = SPACE)]
    pub(crate) free: bool,
    /// Plan every candidate and cut none, to check the search.
    #[arg(long, help_heading = SPACE)]
    pub(crate) exhaustive: bool,
    /// Hardware, instead of the program's.
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    pub(crate) hardware: Option<String>,
    /// Sizes of dimensions and numbers of layers, instead of the program's: B=1024,L=2.
    #[arg(long = "dim", value_name = "SIZES", help_heading = HEADING)]
    pub(crate) dims: Vec<String>,
    #[command(flatten, next_help_heading = HEADING)]
    pub(crate) hardware_files: HardwareFileArgs,
    #[command(flatten)]
    pub(crate) rates: RateArgs,
    #[command(flatten)]
    pub(crate) search: SearchArgs,
}

/// A number of mesh axes: with more than four, the space of shardings is too large to plan.
fn axes(text: &str) -> Result<usize, String> {
    let number = text.parse::<usize>().ok().filter(|number| (1..=4).contains(number));
    number.ok_or_else(|| "give 1, 2, 3 or 4".to_owned())
}
