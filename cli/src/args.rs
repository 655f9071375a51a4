//! Declares the command line. [`crate::options`] and [`crate::commands`] translate the arguments
//! for the library, so that a flag is declared once and means the same to every command.

pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod import;
mod mistaken;
pub(crate) mod new;
mod one_of;
pub(crate) mod plan;
pub(crate) mod planning;
pub(crate) mod sweep;
pub(crate) mod tune;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process;

use clap::error::{ContextKind, ContextValue};
use clap::{ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use shardwise::export::Format;
use shardwise::schemas::SCHEMAS;

use self::check::{CheckArgs, LevelArgs};
use self::compare::{DiffArgs, ExplainArgs, VerifyArgs};
use self::import::ImportSource;
use self::new::NewArgs;
use self::one_of::format_of;
use self::plan::{CostArgs, ExportArgs, PlanArgs};
use self::planning::{HardwareFileArgs, PlanningArgs};
use self::sweep::SweepArgs;
use self::tune::TuneArgs;
use crate::error::Error;
use crate::exit_status::ExitStatus;

/// What `--help` prints below the options.
const AFTER_HELP: &str = "\
Examples:
  shardwise plan model.shard        print the cheapest plan of a program
  shardwise explain model.shard W   print why `W` is communicated
  shardwise check                   check every *.shard file below this folder

Exit status:
  0  success
  1  a program is wrong, a lint finds something, or a plan breaks a limit
  2  the command is used wrongly, or a file cannot be read or written";

/// Plan the communication of sharded models: read a model with the shardings of its values, and
/// find the cheapest collectives that compute it.
#[derive(Debug, Parser)]
#[command(
    name = "shardwise",
    version,
    after_help = AFTER_HELP,
    arg_required_else_help = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// When to color diagnostics.
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t)]
    pub(crate) color: ColorChoice,
}

impl Cli {
    /// The arguments as typed. Wrong ones end the process with a message: where it was a program
    /// or a command of other tools, with the command to type.
    pub(crate) fn typed() -> Self {
        let matches = with_negative_numbers(Self::command()).try_get_matches();
        matches.and_then(|matches| Self::from_arg_matches(&matches)).unwrap_or_else(|mut error| {
            if let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand)
                && let Some(tip) = mistaken::tip(word)
            {
                let tips = ContextValue::StyledStrs(vec![tip.into()]);
                error.insert(ContextKind::Suggested, tips);
            }
            end(&error)
        })
    }
}

/// Prints help or a message about wrong arguments, and ends the process. Help that cannot be
/// written is an error, as a plan is; a reader that closes the pipe early is not.
fn end(message: &clap::Error) -> ! {
    let code = match message.print().and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            // Nothing is reported where standard error is the stream that cannot be written.
            let _ = writeln!(io::stderr(), "error: {}", Error::stdout(error));
            ExitStatus::Error as i32
        }
        _ => message.exit_code(),
    };
    process::exit(code)
}

/// The command, in which `-1` is the value of the option before it: its message says what to write.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let takes_one = |arg: clap::Arg| {
        let takes_value = arg.get_action().takes_values();
        if takes_value { arg.allow_negative_numbers(true) } else { arg }
    };
    command.mut_args(takes_one).mut_subcommands(with_negative_numbers)
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print the cheapest plan of each program.
    Plan(PlanArgs),
    /// Write a program to begin with, or list those that there are: `new mlp`.
    New(NewArgs),
    /// Write plans as programs of a framework: `export jax`, `export torch` as Python modules,
    /// `export sdy` as `StableHLO`, `export chakra` as traces.
    Export(ExportArgs),
    /// Write programs from models of other tools: `import hf config.json`,
    /// `import jax models.py:forward`.
    #[command(subcommand)]
    Import(ImportSource),
    /// Report the errors and lints of programs.
    Check(CheckArgs),
    /// Format programs in place.
    Fmt(FmtArgs),
    /// Run plans on simulated devices, and compare with the unsharded program.
    Verify(VerifyArgs),
    /// Print FLOPs, bytes and bounds of every statement.
    Cost(CostArgs),
    /// Plan for many mesh shapes, sizes and chips: a table, CSV, JSON or a plot.
    Sweep(SweepArgs),
    /// Find the best strategy on a number of chips, with a proof: meshes, stages, microbatches,
    /// recomputation and shardings.
    Tune(TuneArgs),
    /// Print what changed between two plans.
    Diff(DiffArgs),
    /// Explain a diagnostic code, or why a program needs its collectives.
    Explain(ExplainArgs),
    /// Print a page of the reference, or the list of its pages.
    Docs {
        /// The name of a page, or a diagnostic code [default: the list of pages].
        topic: Option<String>,
    },
    /// List the hardware presets, or print them as a hardware file to edit.
    Hardware(HardwareArgs),
    /// Fit the measured rates of a chip to measurements: a hardware file, and how well it fits.
    Calibrate(CalibrateArgs),
    /// Serve an editor: diagnostics, fixes, formatting over the Language Server Protocol.
    Lsp(LspArgs),
    /// Print the JSON Schema of a document that other commands write.
    Schema {
        /// The document.
        #[arg(value_parser = format_of(SCHEMAS), default_value = SCHEMAS[0].name)]
        document: &'static Format<()>,
    },
    /// Print a shell completion script.
    Completions {
        /// The shell that reads the script.
        shell: Shell,
    },
    /// Print the manual page, or write the pages of all commands into a folder: `man man1`.
    Man {
        /// The folder to write them to, which is made if it is not there.
        folder: Option<PathBuf>,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct FmtArgs {
    /// Programs; `-` reads standard input and prints to standard output.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// Write nothing; exit with 1 if a program is not formatted.
    #[arg(long)]
    pub(crate) check: bool,
}

/// What `lsp --help` prints below the options.
const LSP_EXAMPLE: &str = "\
Example: the command of an editor's client, which starts it for files *.shard
  shardwise lsp --hardware-file ~/chips.toml

`shardwise docs editors` prints the settings of editors.";

#[derive(Debug, clap::Args)]
#[command(after_help = LSP_EXAMPLE)]
pub(crate) struct LspArgs {
    /// Standard input and output, as editors ask for: there is no other transport.
    #[arg(long, hide = true)]
    pub(crate) stdio: bool,
    #[command(flatten)]
    pub(crate) levels: LevelArgs,
    #[command(flatten)]
    pub(crate) planning: PlanningArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct HardwareArgs {
    /// Chips to print [default: all].
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = HardwareFormat::Table)]
    pub(crate) format: HardwareFormat,
    #[command(flatten)]
    pub(crate) files: HardwareFileArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CalibrateArgs {
    /// Measurements: output of nccl-tests, CSV, logs of the scripts that measure; `-` is standard
    /// input.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) measurements: Vec<String>,
    /// The chip that was measured: its peaks, and the figures that measurements do not determine.
    #[arg(long, value_name = "NAME")]
    pub(crate) hardware: String,
    /// The name of the fitted chip [default: measured-NAME].
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Write the hardware file here, completely or not at all, and print the fit; without it, the
    /// hardware file is printed, and the fit to standard error.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<String>,
    #[command(flatten)]
    pub(crate) files: HardwareFileArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HardwareFormat {
    /// A line a chip.
    Table,
    /// A hardware file.
    Toml,
}
