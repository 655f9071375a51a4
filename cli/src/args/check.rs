//! `check`: which programs, which lints at which levels, and how findings are printed.

use clap::{Args, ValueEnum};
use shardwise::lint::Selector;

use super::planning::SizeArgs;

#[derive(Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct CheckArgs {
    /// Programs, or folders of *.shard files (those in .gitignore are left out); `-` is standard
    /// input.
    #[arg(default_value = ".", value_name = "PATH")]
    pub(crate) files: Vec<String>,
    /// Apply the safe fixes, and report what is left.
    #[arg(long, conflicts_with = "diff")]
    pub(crate) fix: bool,
    /// Print what --fix would change; change nothing.
    #[arg(long)]
    pub(crate) diff: bool,
    /// Check again whenever a program changes.
    #[arg(long)]
    pub(crate) watch: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t = CheckFormat::Graphical)]
    pub(crate) format: CheckFormat,
    /// Order of the findings.
    #[arg(long, value_enum, default_value_t = Sort::Place)]
    pub(crate) sort: Sort,
    /// Write the findings to a file, instead of to the terminal.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<String>,
    #[command(flatten)]
    pub(crate) levels: LevelArgs,
    /// Treat every program as explicit, as if it began with `plan`.
    #[arg(long)]
    pub(crate) explicit: bool,
    #[command(flatten)]
    pub(crate) sizes: SizeArgs,
}

/// Which lints run, and how severe they are.
#[derive(Args, Debug)]
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CheckFormat {
    /// The source with the findings marked.
    Graphical,
    /// A line a finding.
    Concise,
    Json,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
    /// Annotations of GitHub Actions.
    Github,
    /// JUnit XML, for test reports.
    Junit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    /// File by file, from top to bottom.
    Place,
    /// The most expensive finding first, and the file that has it.
    Cost,
}
