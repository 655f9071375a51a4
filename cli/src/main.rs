//! The `shardwise` command: arguments, files, colors, exit statuses. Everything else is the
//! library's.

mod args;
mod commands;
mod configs;
mod error;
mod exit_status;
mod input;
mod interrupt;
mod lsp;
mod options;
mod output;
mod programs;
mod progress;

use std::process::ExitCode;

use crate::args::Cli;
use crate::output::Output;

fn main() -> ExitCode {
    let cli = Cli::typed();
    let mut output = Output::new(cli.color);
    let result = commands::run(&cli, &mut output);
    output.finish(result).into()
}
