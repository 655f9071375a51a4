//! `diff`, `explain` and `verify`: their arguments.

use clap::Args;
use shardwise::diff::{self, Diff, Quantity};
use shardwise::explain::{self, Explanation};
use shardwise::export::Format;
use shardwise::setting;

use super::one_of::{format_of, one_of};
use super::plan::ExpressionArgs;
use super::planning::{PlanningArgs, SizeArgs, seed};

#[derive(Args, Debug)]
pub(crate) struct DiffArgs {
    /// Two plans, or programs to plan; `-` is standard input.
    #[arg(value_name = "FILE", num_args = 0..=2)]
    pub(crate) files: Vec<String>,
    #[arg(
        short = 'e',
        long = "expression",
        value_name = "EXPR",
        help = "A program of one line in place of a file, after the files; twice for both: \
            'In[B_X, D] *D W[D, F] -> Out[B_X, F]'; give its sizes with --mesh and --dim, its chip \
            with --hardware"
    )]
    pub(crate) expressions: Vec<String>,
    /// Output format.
    #[arg(long, value_parser = format_of(diff::FORMATS), default_value = diff::FORMATS[0].name)]
    pub(crate) format: &'static Format<Diff>,
    /// Time limit of the second plan: 2ms, 300us. Exit with 1 if it takes longer.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = setting::time)]
    pub(crate) budget: Option<f64>,
    /// How much slower the second plan may be: 5%. Exit with 1 if it is slower than that.
    #[arg(
        long,
        value_name = "PERCENT",
        allow_hyphen_values = true,
        value_parser = setting::percent
    )]
    pub(crate) max_regression: Option<f64>,
    /// The time that --budget and --max-regression limit.
    #[arg(
        long,
        value_name = "TIME",
        value_parser = one_of::<Quantity>(),
        default_value = Quantity::default().name()
    )]
    pub(crate) by: Quantity,
    #[command(flatten)]
    pub(crate) planning: PlanningArgs,
}

#[derive(Args, Debug)]
pub(crate) struct ExplainArgs {
    /// A diagnostic code such as SW201, or a program; `-` is standard input.
    #[arg(required_unless_present = "expression", value_name = "CODE|FILE")]
    pub(crate) subject: Option<String>,
    /// A value or a line of the program, whose collectives are explained with their alternatives
    /// [default: all collectives, without alternatives].
    #[arg(value_name = "VALUE|LINE")]
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) one_liner: ExpressionArgs,
    /// Output format for a program.
    #[arg(
        long,
        value_parser = format_of(explain::FORMATS),
        default_value = explain::FORMATS[0].name
    )]
    pub(crate) format: &'static Format<Explanation>,
    #[command(flatten)]
    pub(crate) planning: PlanningArgs,
}

#[derive(Args, Debug)]
pub(crate) struct VerifyArgs {
    /// Programs; `-` is standard input.
    #[arg(
        required_unless_present = "expression",
        conflicts_with = "expression",
        value_name = "FILE"
    )]
    pub(crate) files: Vec<String>,
    #[command(flatten)]
    pub(crate) one_liner: ExpressionArgs,
    /// Run at the program's own sizes, instead of the smallest that keep every split.
    #[arg(long)]
    pub(crate) full: bool,
    /// Seed of the random data.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = seed)]
    pub(crate) seed: u64,
    /// The program that the files are plans of; they are compared with it instead of with
    /// themselves.
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) against: Option<String>,
    /// Treat every program as explicit, as if it began with `plan`.
    #[arg(long)]
    pub(crate) explicit: bool,
    #[command(flatten)]
    pub(crate) sizes: SizeArgs,
}
