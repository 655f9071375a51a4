//! `tune`: arguments for the program, the space that is searched, and the output.

use clap::Args;
use shardwise::export::Format;
use shardwise::setting;
use shardwise::tune::{FORMATS, Tuned, doubled};

use super::one_of::format_of;
use super::planning::{HardwareFileArgs, RateArgs, SearchArgs};

/// Chips at most.
const MOST_CHIPS: u64 = 1 << 20;
/// The heading in help of what is searched.
const SPACE: &str = "Space";
/// The heading in help of sizes.
const HEADING: &str = "Sizes and hardware";

#[derive(Args, Debug)]
pub(crate) struct TuneArgs {
    /// The program; `-` is standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
    /// Chips to use, all of them; 64..4096 doubles them from 64 to 4096: a scaling curve.
    #[arg(long, value_name = "NUMBERS", value_parser = chips)]
    pub(crate) chips: Chips,
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

/// Numbers of chips.
#[derive(Clone, Debug)]
pub(crate) enum Chips {
    /// One.
    One(u64),
    /// A scaling curve over several.
    Curve(Vec<u64>),
}

fn chips(text: &str) -> Result<Chips, String> {
    let number = |text: &str| {
        let number = text.parse::<u64>().ok().filter(|number| (1..=MOST_CHIPS).contains(number));
        number.ok_or_else(|| format!("give a number of chips from 1 to {MOST_CHIPS}, or 64..4096"))
    };
    match text.split_once("..") {
        None => number(text).map(Chips::One),
        Some((first, last)) => match doubled(number(first)?, number(last)?) {
            numbers if numbers.is_empty() => Err("give the smaller number first: 64..4096".into()),
            numbers => Ok(Chips::Curve(numbers)),
        },
    }
}

/// A number of mesh axes: with more than four, the space of shardings is too large to plan.
fn axes(text: &str) -> Result<usize, String> {
    let number = text.parse::<usize>().ok().filter(|number| (1..=4).contains(number));
    number.ok_or_else(|| "give 1, 2, 3 or 4".to_owned())
}
