//! `check`: arguments for the programs, the lints and their levels, and the format of findings.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use shardwise::export::Format;
use shardwise::lint::formats::FORMATS;
use shardwise::lint::{Linted, Selector};

use super::one_of::possible;
use super::plan::ExpressionArgs;
use super::planning::{RateArgs, SizeArgs};

#[derive(Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct CheckArgs {
    /// Programs, or folders of *.shard files (those in .gitignore are left out); `-` is standard
    /// input.
    #[arg(default_value = ".", conflicts_with = "expression", value_name = "PATH")]
    pub(crate) files: Vec<String>,
    #[command(flatten)]
    pub(crate) one_liner: ExpressionArgs,
    /// Apply the safe fixes, and report what is left.
    #[arg(long, conflicts_with_all = ["diff", "expression"])]
    pub(crate) fix: bool,
    /// Print what --fix would change; change nothing.
    #[arg(long)]
    pub(crate) diff: bool,
    /// Check again whenever a program changes.
    #[arg(long, conflicts_with = "expression")]
    pub(crate) watch: bool,
    /// Output format.
    #[arg(long, value_parser = check_format(), default_value = GRAPHICAL)]
    pub(crate) format: CheckFormat,
    /// Order of the findings.
    #[arg(long, value_enum, default_value_t = Sort::Place)]
    pub(crate) sort: Sort,
    /// Write the findings to a file, instead of to the terminal.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<String>,
    /// Treat every program as explicit, as if it began with `plan`.
    #[arg(long)]
    pub(crate) explicit: bool,
    #[command(flatten)]
    pub(crate) levels: LevelArgs,
    #[command(flatten)]
    pub(crate) sizes: SizeArgs,
    #[command(flatten)]
    pub(crate) rates: RateArgs,
}

/// Which lints run, and how severe they are.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Lints")]
pub(crate) struct LevelArgs {
    /// Run only these lints: codes, prefixes of codes, names, groups, `all` or `default`.
    #[arg(long, value_name = "LINTS", value_delimiter = ',')]
    pub(crate) select: Option<Vec<Selector>>,
    /// Do not run these lints.
    #[arg(long, value_name = "LINTS", value_delimiter = ',')]
    pub(crate) ignore: Vec<Selector>,
    /// Run these lints besides the others.
    #[arg(long, value_name = "LINTS", value_delimiter = ',')]
    pub(crate) warn: Vec<Selector>,
    /// Report findings of these lints as errors.
    #[arg(long, value_name = "LINTS", value_delimiter = ',')]
    pub(crate) deny: Vec<Selector>,
    /// Report all findings as errors.
    #[arg(long)]
    pub(crate) deny_warnings: bool,
    /// The configuration file, instead of the nearest shardwise.toml.
    #[arg(long, value_name = "FILE", conflicts_with = "isolated")]
    pub(crate) config: Option<String>,
    /// Read no configuration file.
    #[arg(long)]
    pub(crate) isolated: bool,
}

/// How findings are printed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CheckFormat {
    /// The source with the findings marked, drawn by this crate, which knows the terminal.
    Graphical,
    /// A format of the library.
    Of(&'static Format<[Linted]>),
}

const GRAPHICAL: &str = "graphical";

fn check_format() -> impl TypedValueParser<Value = CheckFormat> {
    let graphical = PossibleValue::new(GRAPHICAL).help("The source with the findings marked");
    let values = std::iter::once(graphical).chain(FORMATS.iter().map(possible));
    PossibleValuesParser::new(values).map(|name| {
        let named = FORMATS.iter().find(|format| format.is_called(&name));
        named.map_or(CheckFormat::Graphical, CheckFormat::Of)
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    /// File by file, from top to bottom.
    Place,
    /// The most expensive finding first, and the file that has it.
    Cost,
}
