//! `docs`, `schema` and `completions`: print texts that depend on no program.

use clap::CommandFactory;
use clap_complete::Shell;
use shardwise::lint;

use crate::args::Cli;
use crate::error::Result;
use crate::output::Output;

pub(super) fn docs(output: &mut Output) -> Result {
    output.print(&lint::reference())
}

pub(super) fn schema(output: &mut Output) -> Result {
    output.print(&(shardwise::json::schema() + "\n"))
}

pub(super) fn completions(shell: Shell, output: &mut Output) -> Result {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "shardwise", &mut script);
    output.print(&String::from_utf8_lossy(&script))
}
