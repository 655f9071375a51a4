//! Arguments of `new`.

use clap::Args;

/// `new`: which template, and where it is written.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  shardwise new mlp -o mlp.shard && shardwise plan mlp.shard")]
pub(crate) struct NewArgs {
    /// The template [default: print the list of all].
    #[arg(value_name = "TEMPLATE")]
    pub(crate) template: Option<String>,
    /// Write to a new file instead of to standard output.
    #[arg(short, long, value_name = "OUTPUT", requires = "template")]
    pub(crate) output: Option<String>,
}
