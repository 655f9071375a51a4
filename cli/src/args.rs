//! What the command line says, as written: the second stage ([`crate::commands`]) says what it
//! means.

use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use shardwise::diff::Quantity;
use shardwise::inference::RequestedPhase;
use shardwise::lint::Selector;
use shardwise::{Objective, Pass, Refinement, Strategy, setting};
use strum::{EnumMessage, VariantArray};

use crate::choices::ChoiceArgs;

/// Turns a sketch of a sharded model into the cheapest communication plan, with reasons.
#[derive(Debug, Parser)]
#[command(name = "shardwise", version, about, arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// When to colour diagnostics.
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto)]
    pub(crate) color: Colour,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HardwareFormat {
    Table,
    Toml,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print the cheapest plan of each program.
    Plan(PlanCommand),
    /// Say everything that is wrong with programs, and what they would be better without.
    Check(CheckArgs),
    /// Lay programs out canonically, in place (`-` to standard output).
    Fmt {
        /// Programs; `-` is standard input.
        #[arg(required = true)]
        files: Vec<String>,
        /// Change nothing; exit 1 if anything would change.
        #[arg(long)]
        check: bool,
    },
    /// Run plans on simulated devices and compare with the unsharded program.
    Verify(VerifyArgs),
    /// FLOPs, bytes and bounds, statement by statement.
    Cost(CostArgs),
    /// Plan over mesh shapes, sizes and hardware: a table, CSV, JSON or a plot.
    Sweep(SweepArgs),
    /// What changed between two plans.
    Diff(DiffArgs),
    /// Explain a diagnostic's code, or why a program's collectives are there.
    Explain(ExplainArgs),
    /// Print the reference of all codes, as Markdown.
    Docs,
    /// List the hardware presets, or print chips as a hardware file to start from.
    Hardware {
        /// Which; all of them if none is named.
        names: Vec<String>,
        /// What is printed.
        #[arg(long, value_enum, default_value_t = HardwareFormat::Table)]
        format: HardwareFormat,
        /// A TOML file of hardware beside the presets.
        #[arg(long = "hardware-file", value_name = "FILE")]
        files: Vec<String>,
    },
    /// Print the JSON Schema of `plan --format json`.
    Schema,
    /// Print shell completions.
    Completions {
        /// For which shell.
        shell: Shell,
    },
}

#[derive(Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct CheckArgs {
    /// Programs, or folders of them (`*.shard`, less what .gitignore names); `-` is standard input.
    #[arg(default_value = ".")]
    pub(crate) files: Vec<String>,
    /// Treat every program as if it began with `plan`.
    #[arg(long)]
    pub(crate) explicit: bool,
    #[command(flatten)]
    pub(crate) sizes: SizeArgs,
    #[command(flatten)]
    pub(crate) levels: LevelArgs,
    /// Make the safe edits, and say what is left.
    #[arg(long, conflicts_with = "diff")]
    pub(crate) fix: bool,
    /// Print what --fix would change, and change nothing.
    #[arg(long)]
    pub(crate) diff: bool,
    /// What is printed.
    #[arg(long, value_enum, default_value_t = CheckFormat::Graphical)]
    pub(crate) format: CheckFormat,
    /// In which order.
    #[arg(long, value_enum, default_value_t = Sort::Place)]
    pub(crate) sort: Sort,
    /// Where it is written, instead of the terminal.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<String>,
    /// Check again whenever a program changes.
    #[arg(long)]
    pub(crate) watch: bool,
}

/// Which lints run, and how seriously.
#[derive(Args, Debug)]
pub(crate) struct LevelArgs {
    /// Run these lints only: codes, beginnings of codes, names, groups, `all`, `default`.
    #[arg(long, value_name = "LINTS", value_delimiter = ',')]
    pub(crate) select: Option<Vec<Selector>>,
    /// Do not run these.
    #[arg(long, value_name = "LINTS", value_delimiter = ',')]
    pub(crate) ignore: Vec<Selector>,
    /// Run these besides the others.
    #[arg(long, value_name = "LINTS", value_delimiter = ',')]
    pub(crate) warn: Vec<Selector>,
    /// Findings of these are errors.
    #[arg(long, value_name = "LINTS", value_delimiter = ',')]
    pub(crate) deny: Vec<Selector>,
    /// All findings are errors.
    #[arg(long)]
    pub(crate) deny_warnings: bool,
    /// The configuration, instead of the nearest shardwise.toml.
    #[arg(long, value_name = "FILE", conflicts_with = "isolated")]
    pub(crate) config: Option<String>,
    /// Read no configuration.
    #[arg(long)]
    pub(crate) isolated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CheckFormat {
    /// The source with the places marked.
    Graphical,
    /// A line a finding.
    Concise,
    Json,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
    /// Annotations of GitHub Actions.
    Github,
    Junit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    /// File by file, from top to bottom.
    Place,
    /// The most expensive file first, in it the most expensive finding.
    Cost,
}

#[derive(Args, Debug)]
pub(crate) struct VerifyArgs {
    /// Programs; `-` is standard input.
    #[arg(required = true)]
    pub(crate) files: Vec<String>,
    /// The program's own sizes instead of the smallest that keep every split.
    #[arg(long)]
    pub(crate) full: bool,
    /// What the data are made from.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Treat every program as if it began with `plan`.
    #[arg(long)]
    pub(crate) explicit: bool,
    /// The program that the files are hand-written plans of, instead of what they say themselves.
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) against: Option<String>,
    #[command(flatten)]
    pub(crate) sizes: SizeArgs,
}

/// Sizes instead of the programs' own.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct SizeArgs {
    /// Sizes of axes instead of the program's (of an expression: its mesh): X=8,Y=8.
    #[arg(long, value_name = "AXES")]
    pub(crate) mesh: Option<String>,
    /// Sizes of dimensions instead of the program's (of an expression: its sizes): B=1024,D=4096.
    #[arg(long = "dim", value_name = "SIZES")]
    pub(crate) dims: Vec<String>,
    /// A TOML file of hardware that programs may name beside the presets (see
    /// `hardware --format toml`).
    #[arg(long, value_name = "FILE")]
    pub(crate) hardware_file: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct SweepArgs {
    /// Programs; `-` is standard input.
    #[arg(required = true)]
    pub(crate) files: Vec<String>,
    /// Mesh shapes: 'X*Y=64', 'X*Y=64 over 4x4x4', X=4|8|16, or several such with commas. Given
    /// again: further shapes; each program takes those that name most of its axes.
    #[arg(long, value_name = "SHAPES")]
    pub(crate) mesh: Vec<String>,
    /// Sizes: B=1e4..1e7 (16 of them), B=1e4..1e7/40, 'B=1024|4096'.
    #[arg(long = "dim", value_name = "SIZES")]
    pub(crate) dims: Vec<String>,
    /// Hardware: tpu-v5p,tpu-v5e.
    #[arg(long, value_name = "NAMES")]
    pub(crate) hardware: Vec<String>,
    /// A TOML file of hardware beside the presets.
    #[arg(long, value_name = "FILE")]
    pub(crate) hardware_file: Vec<String>,
    /// How the plans are made.
    #[arg(long, value_parser = one_of::<Strategy>(), default_value = Strategy::default().name())]
    pub(crate) strategy: Strategy,
    /// What the search makes small.
    #[arg(long, value_parser = one_of::<Objective>(), default_value = Objective::default().name())]
    pub(crate) objective: Objective,
    /// Bytes a device may hold: 300MB, 16GiB.
    #[arg(long, value_name = "BYTES", value_parser = setting::bytes)]
    pub(crate) memory: Option<f64>,
    /// `book` leaves a ring's (n-1)/n out, `exact` keeps it.
    #[arg(long, value_parser = one_of::<Refinement>(), default_value = Refinement::default().name())]
    pub(crate) cost: Refinement,
    /// Seconds that the search of one point may take.
    #[arg(long, value_name = "SECONDS", value_parser = setting::timeout)]
    pub(crate) timeout: Option<Duration>,
    /// What is written.
    #[arg(long, value_enum, default_value_t = SweepFormat::Text)]
    pub(crate) format: SweepFormat,
    /// Where it is written, instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SweepFormat {
    Text,
    Csv,
    Json,
    Svg,
}

#[derive(Args, Debug)]
pub(crate) struct PlanArgs {
    /// Programs; `-` is standard input.
    #[arg(required_unless_present = "expression", conflicts_with = "expression")]
    pub(crate) files: Vec<String>,
    #[arg(
        short = 'e',
        long,
        value_name = "EXPR",
        help = "A one-line program: 'In[B_X, D] *D W[D, F] -> Out[B_X, F]'"
    )]
    pub(crate) expression: Option<String>,
    #[command(flatten)]
    pub(crate) sizes: SizeArgs,
    /// Hardware instead of the program's.
    #[arg(long)]
    pub(crate) hardware: Option<String>,
    /// How the plan is made.
    #[arg(long, value_parser = one_of::<Strategy>(), default_value = Strategy::default().name())]
    pub(crate) strategy: Strategy,
    /// What the search makes small.
    #[arg(long, value_parser = one_of::<Objective>(), default_value = Objective::default().name())]
    pub(crate) objective: Objective,
    /// Bytes a device may hold: 300MB, 16GiB.
    #[arg(long, value_name = "BYTES", value_parser = setting::bytes)]
    pub(crate) memory: Option<f64>,
    /// `book` leaves a ring's (n-1)/n out, `exact` keeps it.
    #[arg(long, value_parser = one_of::<Refinement>(), default_value = Refinement::default().name())]
    pub(crate) cost: Refinement,
    /// Seconds after which the search gives the best so far, with its gap.
    #[arg(long, value_name = "SECONDS", value_parser = setting::timeout)]
    pub(crate) timeout: Option<Duration>,
    /// What is printed.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Print the program as it is after a pass of the planner, instead of the plan.
    #[arg(long, value_parser = one_of::<Pass>(), value_name = "PASS")]
    pub(crate) print_after: Option<Pass>,
    /// Treat every program as if it began with `plan`.
    #[arg(long)]
    pub(crate) explicit: bool,
}

/// `plan`: how the plan is made, and where it goes. (`cost` is made alike, and goes to standard
/// output.)
#[derive(Args, Debug)]
pub(crate) struct PlanCommand {
    #[command(flatten)]
    pub(crate) plan: PlanArgs,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Plan again whenever a program changes.
    #[arg(long, conflicts_with_all = ["expression", "check"])]
    pub(crate) watch: bool,
}

/// `cost`: what is priced, and how it is sized as a step of serving.
#[derive(Args, Debug)]
pub(crate) struct CostArgs {
    #[command(flatten)]
    pub(crate) plan: PlanArgs,
    /// Size the program as a step of serving: by what it does, as this, or not.
    #[arg(long, value_parser = one_of::<RequestedPhase>(), default_value = RequestedPhase::default().name())]
    pub(crate) phase: RequestedPhase,
    /// Batches to size besides the program's own: 1,8,16,32.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub(crate) batches: Vec<u64>,
}

/// Where `plan` writes, for build tools.
#[derive(Args, Debug)]
pub(crate) struct TargetArgs {
    /// Write the plan to a file, whole or not at all, instead of to standard output.
    #[arg(short, long, value_name = "FILE", conflicts_with = "print_after")]
    pub(crate) output: Option<String>,
    /// Write what the output is made from, as make and ninja read it.
    #[arg(long, value_name = "FILE", requires = "output", conflicts_with = "expression")]
    pub(crate) depfile: Option<String>,
    /// Leave the output alone where it would not change (for ninja's `restat`).
    #[arg(long, requires = "output")]
    pub(crate) if_changed: bool,
    /// Write nothing; exit 1 unless the output is as it would be written.
    #[arg(long, requires = "output", conflicts_with_all = ["depfile", "if_changed"])]
    pub(crate) check: bool,
}

#[derive(Args, Debug)]
pub(crate) struct DiffArgs {
    /// A plan, or a program that is planned; `-` is standard input.
    pub(crate) before: String,
    /// What it is compared with.
    pub(crate) after: String,
    #[command(flatten)]
    pub(crate) choices: ChoiceArgs,
    /// What is printed.
    #[arg(long, value_enum, default_value_t = DiffFormat::Text)]
    pub(crate) format: DiffFormat,
    /// Time that the second plan may take: 2ms, 300us. Exit 1 where it takes more.
    #[arg(long, value_name = "TIME", value_parser = setting::time)]
    pub(crate) budget: Option<f64>,
    /// By how much the second plan may be slower: 5%. Exit 1 where it is slower.
    #[arg(long, value_name = "PERCENT", value_parser = setting::percent)]
    pub(crate) max_regression: Option<f64>,
    /// Which time `--budget` and `--max-regression` are about.
    #[arg(long, value_parser = one_of::<Quantity>(), default_value = Quantity::default().name())]
    pub(crate) by: Quantity,
}

#[derive(Args, Debug)]
pub(crate) struct ExplainArgs {
    /// A code, such as SW201, or a program; `-` is standard input.
    #[arg(value_name = "CODE|FILE")]
    pub(crate) subject: String,
    /// Which collectives: those of a value or of a line of the program, with what else could be
    /// done; without it all of them.
    #[arg(value_name = "VALUE|LINE")]
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) choices: ChoiceArgs,
    /// What is printed of a program.
    #[arg(long, value_enum, default_value_t = ExplainFormat::Text)]
    pub(crate) format: ExplainFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExplainFormat {
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiffFormat {
    Text,
    /// For a comment on a pull request.
    Markdown,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
    /// The dataflow, for Graphviz.
    Dot,
    /// The schedule as a Chrome trace, for Perfetto.
    Trace,
}

/// Parses the name of a variant of one of the library's enums; help lists the names, with the
/// documentation of the variants.
pub(crate) fn one_of<T>() -> impl TypedValueParser<Value = T>
where
    T: VariantArray + EnumMessage + Copy + Send + Sync + 'static,
    &'static str: From<T>,
{
    let values = T::VARIANTS.iter().map(|&variant| {
        let value = PossibleValue::new(<&str>::from(variant));
        match variant.get_documentation() {
            Some(text) => value.help(text.replace('\n', " ")),
            None => value,
        }
    });
    PossibleValuesParser::new(values).map(|name| {
        let named = T::VARIANTS.iter().find(|&&variant| <&str>::from(variant) == name);
        *named.expect("clap accepts only the names of variants")
    })
}
