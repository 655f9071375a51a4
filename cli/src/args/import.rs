//! Arguments of `import`: one subcommand for each source, since each leaves other things open.

use clap::{Args, Subcommand};
use shardwise::import::hf::Step;

use super::one_of::one_of;
use super::planning::HardwareFileArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum ImportSource {
    /// Write the program of a model that a Hugging Face `config.json` describes.
    Hf(HfArgs),
}

/// `import hf`: the configuration, and what it leaves open.
#[derive(Args, Debug)]
pub(crate) struct HfArgs {
    /// A `config.json`; `-` is standard input.
    #[arg(value_name = "CONFIG")]
    pub(crate) config: String,
    /// The step that is written.
    #[arg(
        long = "for",
        value_name = "STEP",
        value_parser = one_of::<Step>(),
        default_value = Step::default().name()
    )]
    pub(crate) step: Step,
    /// Sequences [default: a few for each device].
    #[arg(long, value_name = "SIZE", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub(crate) batch: Option<u64>,
    /// Tokens of a sequence, or of a cache [default: 4096 to train, 8192 to serve, at most what the
    /// model has positions for].
    #[arg(long, value_name = "SIZE", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub(crate) sequence: Option<u64>,
    /// Mesh axes: X=8 or 'X=4 dcn,Y=8' [default: as many devices as hold the model].
    #[arg(long, value_name = "AXES")]
    pub(crate) mesh: Option<String>,
    /// The chip.
    #[arg(long, value_name = "NAME", default_value = "h100")]
    pub(crate) hardware: String,
    /// Write to a file, completely or not at all, instead of to standard output.
    #[arg(short, long, value_name = "OUTPUT")]
    pub(crate) output: Option<String>,
    #[command(flatten)]
    pub(crate) hardware_files: HardwareFileArgs,
}
