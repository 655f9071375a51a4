//! `tune`: arguments for the program, the space that is searched, and the output.

use std::time::Duration;

use clap::Args;
use shardwise::Schedule;
use shardwise::export::Format;
use shardwise::setting;
use shardwise::tune::{Dtypes, FORMATS, Recompute, Tuned, doubled};

use super::one_of::format_of;
use super::planning::{HardwareFileArgs, RateArgs, SearchArgs, count, count_of_several};

/// Chips at most.
const MOST_CHIPS: u64 = 1 << 20;
/// The heading in help of what is searched.
const SPACE: &str = "Space";
/// The help of a limit that is for all searches of the command together.
const TIMEOUT: &str =
    "Time limit of the command; the best so far is printed with its optimality gap";
/// The heading in help of sizes.
const HEADING: &str = "Sizes and hardware";

#[derive(Args, Debug)]
#[command(mut_arg("timeout", |timeout| timeout.help(TIMEOUT)))]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
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
    #[arg(long, value_name = "NUMBER", value_parser = count(1 << 16), default_value_t = 10)]
    pub(crate) best: u64,
    /// Do not plan what could be better by this much at most: 1%.
    #[arg(
        long,
        value_name = "PERCENT",
        allow_hyphen_values = true,
        value_parser = setting::percent,
        default_value = "0%"
    )]
    pub(crate) within: f64,
    /// Mesh axes at most, with that of the stages [default: 2 beside that, or with it where
    /// schedules are minimized].
    #[arg(long, value_name = "NUMBER", value_parser = axes, help_heading = SPACE)]
    pub(crate) axes: Option<usize>,
    /// Numbers of microbatches, for gradients and pipelines [default: 1|2|4|8|16|32].
    #[arg(
        long,
        value_name = "NUMBERS",
        value_delimiter = '|',
        value_parser = count_of_several(1 << 16),
        help_heading = SPACE
    )]
    pub(crate) microbatches: Vec<u64>,
    /// Numbers of pipeline stages, for programs whose layers can be a pipeline; 1 is none.
    #[arg(
        long,
        value_name = "NUMBERS",
        value_delimiter = '|',
        value_parser = count_of_several(1 << 16),
        default_value = "1|2|4|8|16",
        help_heading = SPACE
    )]
    pub(crate) stages: Vec<u64>,
    /// Schedules of pipelines: gpipe, 1f1b, zb-h1, zb-v, dualpipe, dualpipe-v.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = '|',
        value_parser = schedule,
        default_value = "1f1b",
        help_heading = SPACE
    )]
    pub(crate) schedules: Vec<Schedule>,
    /// Runs of layers on a stage, for the schedules gpipe and 1f1b [default: 1|2].
    #[arg(
        long,
        value_name = "NUMBERS",
        value_delimiter = '|',
        value_parser = count_of_several(1 << 10),
        help_heading = SPACE
    )]
    pub(crate) chunks: Vec<u64>,
    /// Also stages with fewer layers the more microbatches they keep (`1f1b`, one chunk).
    #[arg(long, help_heading = SPACE)]
    pub(crate) fewer_first: bool,
    /// What may be computed again for gradients: none, layers, all-but-products, attention, mlp; or
    /// sent to the host: offload [default: none|layers].
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = '|',
        value_parser = recompute,
        help_heading = SPACE
    )]
    pub(crate) recompute: Vec<Recompute>,
    /// Dtypes of products with weights of layers: written, bf16, fp8, fp4; without gradients also
    /// those of weights alone: int8, int4.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = '|',
        value_parser = dtypes,
        default_value = "written",
        help_heading = SPACE
    )]
    pub(crate) dtypes: Vec<Dtypes>,
    /// Sizes of the batch, compared by their time an element: 256|512|1024; that of the program.
    #[arg(
        long,
        value_name = "NUMBERS",
        value_delimiter = '|',
        allow_hyphen_values = true,
        value_parser = setting::whole_number,
        help_heading = SPACE
    )]
    pub(crate) batch: Vec<u64>,
    /// The longest that a step may take, by the objective: 50ms.
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        value_parser = setting::limit,
        help_heading = SPACE
    )]
    pub(crate) latency: Option<Duration>,
    /// A program with a strategy of your own, compared with those found.
    #[arg(long, value_name = "FILE")]
    pub(crate) against: Vec<String>,
    /// Search again with one more GB of memory, and with twice the bandwidth of each kind of link.
    #[arg(long)]
    pub(crate) what_if: bool,
    #[command(flatten, next_help_heading = "Serving")]
    pub(crate) serving: ServingArgs,
    /// Release what the program pins: brackets, `checkpoint`, `microbatches=`, `pipeline`.
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

/// Prefill beside the program, which is a decode step then.
#[derive(Args, Debug)]
pub(crate) struct ServingArgs {
    /// The prefill of the model whose decode step FILE is: how many chips for which of them.
    #[arg(
        long,
        value_name = "FILE",
        requires = "tokens",
        conflicts_with_all = ["latency", "against", "output", "what_if"]
    )]
    pub(crate) prefill: Option<String>,
    /// Tokens that a request asks for.
    #[arg(long, value_name = "NUMBER", requires = "prefill",
          value_parser = count(1 << 30))]
    pub(crate) tokens: Option<u64>,
    /// The longest time to the first token, without waiting in queues: 2s.
    #[arg(
        long,
        value_name = "TIME",
        requires = "prefill",
        allow_hyphen_values = true,
        value_parser = setting::limit
    )]
    pub(crate) ttft: Option<Duration>,
    /// The longest time between two tokens on average, with prefills between them: 50ms.
    #[arg(
        long,
        value_name = "TIME",
        requires = "prefill",
        allow_hyphen_values = true,
        value_parser = setting::limit
    )]
    pub(crate) tpot: Option<Duration>,
    /// Prompts of a prefill; the sequences of a decode step are those of --batch.
    #[arg(long, value_name = "NUMBERS", requires = "prefill", value_delimiter = '|',
          value_parser = count_of_several(1 << 20), default_value = "1|2|4")]
    pub(crate) prompts: Vec<u64>,
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

fn schedule(text: &str) -> Result<Schedule, String> {
    let names = || Schedule::ALL.map(Schedule::name).join(", ");
    Schedule::from_name(text).ok_or_else(|| format!("write some of {}", names()))
}

fn recompute(text: &str) -> Result<Recompute, String> {
    let names = || Recompute::CHOICES.map(Recompute::name).join(", ");
    Recompute::from_name(text).ok_or_else(|| format!("write some of {}", names()))
}

fn dtypes(text: &str) -> Result<Dtypes, String> {
    let names = || Dtypes::CHOICES.map(Dtypes::name).join(", ");
    Dtypes::from_name(text).ok_or_else(|| format!("write some of {}", names()))
}

/// A number of mesh axes: with more than four, the space of shardings is too large to plan.
fn axes(text: &str) -> Result<usize, String> {
    let number = text.parse::<usize>().ok().filter(|number| (1..=4).contains(number));
    number.ok_or_else(|| "give 1, 2, 3 or 4".to_owned())
}
