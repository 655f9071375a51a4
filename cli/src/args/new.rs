//! Arguments of `new`.

use clap::{ArgGroup, Args};

/// `new`: which template, and where it is written.
#[derive(Args, Debug)]
#[command(
    group = ArgGroup::new("source").args(["template", "from_hf"]),
    after_help = "Examples:\n  shardwise new mlp -o mlp.shard && shardwise plan mlp.shard\n  \
        shardwise new --from-hf config.json -o model.shard"
)]
pub(crate) struct NewArgs {
    /// The template [default: print the list of all].
    #[arg(value_name = "TEMPLATE")]
    pub(crate) template: Option<String>,
    /// A model's `config.json` of Hugging Face, instead of a template: its training step, as
    /// `import hf` writes it, which has options for other steps and sizes.
    #[arg(long, value_name = "CONFIG")]
    pub(crate) from_hf: Option<String>,
    /// Write to a new file instead of to standard output.
    #[arg(short, long, value_name = "OUTPUT", requires = "source")]
    pub(crate) output: Option<String>,
}
