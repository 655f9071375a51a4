//! Arguments of `import`: one subcommand for each source, since each leaves other things open.

use clap::{Args, Subcommand};
use shardwise::import::hf::Step;
use shardwise::setting;

use super::one_of::one_of;
use super::planning::HardwareFileArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum ImportSource {
    /// Write the program of a model that a Hugging Face `config.json` describes.
    Hf(HfArgs),
    /// Write the program of a function in JAX: `import jax models.py:forward --args 'f32[8, 128]'`.
    Jax(JaxArgs),
    /// Write the program of a `torch.nn.Module`: `import torch models.py:model --args
    /// 'ids=int64[8, 128]'`.
    Torch(TorchArgs),
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
    #[arg(
        long,
        value_name = "SIZE",
        allow_hyphen_values = true,
        value_parser = setting::whole_number
    )]
    pub(crate) batch: Option<u64>,
    /// Tokens of a sequence, or of a cache [default: 4096 to train, 8192 to serve, at most what the
    /// model has positions for].
    #[arg(
        long,
        value_name = "SIZE",
        allow_hyphen_values = true,
        value_parser = setting::whole_number
    )]
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

/// What `import jax --help` prints below the options.
const JAX_EXAMPLE: &str = "\
Examples:
  shardwise import jax models.py:forward --args 'init(), x=f32[B:8, T:128, D:512]'
  shardwise import jax models.py:loss --args '*example()' --names wq=D,N,H -o loss.shard

`shardwise docs import-jax` says what is imported.";

/// `import jax`: the function, and which of its arguments are weights.
#[derive(Args, Debug)]
#[command(after_help = JAX_EXAMPLE)]
pub(crate) struct JaxArgs {
    #[command(flatten)]
    pub(crate) function: FunctionArgs,
    /// The arguments that are weights [default: those that are containers of arrays, or called so].
    #[arg(long, value_name = "ARGUMENTS", value_delimiter = ',')]
    pub(crate) params: Option<Vec<String>>,
}

/// What `import torch --help` prints below the options.
const TORCH_EXAMPLE: &str = "\
Examples:
  shardwise import torch models.py:model --args 'ids=int64[B:8, T:128]'
  shardwise import torch models.py:large --args 'int64[8, 4096]' --names wq=F,D -o large.shard

`shardwise docs import-torch` says what is imported.";

/// `import torch`: the model, or a function that makes it.
#[derive(Args, Debug)]
#[command(after_help = TORCH_EXAMPLE)]
pub(crate) struct TorchArgs {
    #[command(flatten)]
    pub(crate) function: FunctionArgs,
}

/// A function or model in Python, its arguments, and what the program has besides.
#[derive(Args, Debug)]
pub(crate) struct FunctionArgs {
    /// The file or module, and what is in it: `models.py:forward`.
    #[arg(value_name = "MODULE:NAME")]
    pub(crate) target: String,
    /// What stands in the call, as in Python: names of the module, and shapes such as `f32[8,
    /// 128]`, whose dimensions may have names, `int32[B:8, T:128]`.
    #[arg(long, value_name = "EXPRESSIONS", default_value = "")]
    pub(crate) args: String,
    /// Names of an argument's dimensions, or of its last ones; `_` is one without a name:
    /// --names wq=D,N,H.
    #[arg(long, value_name = "NAME=DIMS")]
    pub(crate) names: Vec<String>,
    /// Make what the language does not have an error, and no `opaque` statement.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Mesh axes: X=8 or 'X=4 dcn,Y=8' [default: those of the function's shardings, or X=8].
    #[arg(long, value_name = "AXES")]
    pub(crate) mesh: Option<String>,
    /// The chip.
    #[arg(long, value_name = "NAME", default_value = "h100")]
    pub(crate) hardware: String,
    /// Write to a file, completely or not at all, instead of to standard output.
    #[arg(short, long, value_name = "OUTPUT")]
    pub(crate) output: Option<String>,
}
