//! `plan` and `cost`: arguments for the programs, the planning and the output.

use clap::{Args, ValueEnum};
use shardwise::export::{EXPORTS, FORMATS, Format, JAX_FORMATS, JAX_STYLES};
use shardwise::inference::RequestedPhase;
use shardwise::{Pass, Planned, setting};

use super::one_of::{format_of, one_of};
use super::planning::PlanningArgs;

/// The programs that are planned.
#[derive(Args, Debug)]
pub(crate) struct ProgramArgs {
    /// Programs; `-` is standard input.
    #[arg(
        required_unless_present = "expression",
        conflicts_with = "expression",
        value_name = "FILE"
    )]
    pub(crate) files: Vec<String>,
    #[command(flatten)]
    pub(crate) one_liner: ExpressionArgs,
    /// Treat every program as explicit, as if it began with `plan`.
    #[arg(long)]
    pub(crate) explicit: bool,
    #[command(flatten)]
    pub(crate) planning: PlanningArgs,
}

/// A program on the command line.
#[derive(Args, Debug)]
pub(crate) struct ExpressionArgs {
    #[arg(
        short = 'e',
        long,
        value_name = "EXPR",
        help = "A program of one line: 'In[B_X, D] *D W[D, F] -> Out[B_X, F]'; give its sizes \
            with --mesh and --dim, its chip with --hardware"
    )]
    pub(crate) expression: Option<String>,
}

/// `plan`: what is planned, and where the plan is written.
#[derive(Args, Debug)]
pub(crate) struct PlanArgs {
    /// Output format.
    #[arg(long, value_parser = format_of(FORMATS), default_value = FORMATS[0].name)]
    pub(crate) format: &'static Format<Planned>,
    /// Print the program as it is after a pass, instead of the plan.
    #[arg(long, value_name = "PASS", value_parser = one_of::<Pass>())]
    pub(crate) print_after: Option<Pass>,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Plan again whenever a program changes.
    #[arg(long, conflicts_with_all = ["expression", "check"])]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) programs: ProgramArgs,
}

/// Where `plan` writes, for build tools.
#[derive(Args, Debug)]
pub(crate) struct TargetArgs {
    /// Write the plan to a file, completely or not at all, instead of to standard output.
    #[arg(short, long, value_name = "FILE", conflicts_with = "print_after")]
    pub(crate) output: Option<String>,
    /// Write the files that the plan depends on, for make and ninja.
    #[arg(long, value_name = "FILE", requires = "output", conflicts_with = "expression")]
    pub(crate) depfile: Option<String>,
    /// Do not write the output file if its content would stay the same (ninja's `restat`).
    #[arg(long, requires = "output")]
    pub(crate) if_changed: bool,
    /// Write nothing; exit with 1 if the output file is out of date.
    #[arg(long, requires = "output", conflicts_with_all = ["depfile", "if_changed"])]
    pub(crate) check: bool,
}

/// `export`: what is written, and where.
#[derive(Args, Debug)]
pub(crate) struct ExportArgs {
    /// The framework.
    #[arg(value_name = "FRAMEWORK", value_parser = format_of(EXPORTS))]
    pub(crate) framework: &'static Format<Planned>,
    /// What is written for JAX.
    #[arg(long, value_parser = format_of(JAX_FORMATS), default_value = JAX_FORMATS[0].name)]
    pub(crate) format: &'static Format<Planned>,
    /// How a module for JAX has the plan's shardings.
    #[arg(long, value_parser = format_of(JAX_STYLES), default_value = JAX_STYLES[0].name)]
    pub(crate) style: &'static Format<Planned>,
    /// Write to a file, completely or not at all, instead of to standard output; of `chakra`, to
    /// files in this folder.
    #[arg(short, long, value_name = "OUTPUT")]
    pub(crate) output: Option<String>,
    #[command(flatten)]
    pub(crate) programs: ProgramArgs,
}

/// `cost`: what is priced, and how it is sized as a serving step.
#[derive(Args, Debug)]
pub(crate) struct CostArgs {
    /// Output format.
    #[arg(long, value_enum, default_value_t = CostFormat::Text)]
    pub(crate) format: CostFormat,
    /// Which step of serving the program is sized as.
    #[arg(
        long,
        value_parser = one_of::<RequestedPhase>(),
        default_value = RequestedPhase::default().name()
    )]
    pub(crate) phase: RequestedPhase,
    /// Batch sizes to report besides the program's own: 1,8,16,32.
    #[arg(
        long,
        value_name = "SIZES",
        value_delimiter = ',',
        allow_hyphen_values = true,
        value_parser = setting::whole_number
    )]
    pub(crate) batches: Vec<u64>,
    /// Write to a file, completely or not at all, instead of to standard output.
    #[arg(short, long, value_name = "OUTPUT")]
    pub(crate) output: Option<String>,
    #[command(flatten)]
    pub(crate) programs: ProgramArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CostFormat {
    Text,
    Json,
    /// A picture of the roofline: what kernels reach, over their FLOPs a byte.
    Svg,
    /// A page for the browser.
    Html,
}
