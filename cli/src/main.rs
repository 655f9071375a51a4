//! The `shardwise` command: arguments, files, colours, exit codes. Everything else is the
//! library's.

mod args;
mod check;
mod choices;
mod commands;
mod diff;
mod explain;
mod hardware;
mod output;
mod sweep;
mod target;
mod verify;
mod watch;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command};
use crate::output::{Ending, Output};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut output = Output::new(cli.color);
    if let Some(ending) = watched(&cli) {
        return ending.unwrap_or_else(Ending::from).code();
    }
    let ending = match &cli.command {
        Command::Plan(args) => target::plan(args, &mut output),
        Command::Verify(args) => verify::verify(args, &mut output),
        Command::Cost(args) => commands::cost(args, &mut output),
        Command::Check(args) => check::check(args, &mut output),
        Command::Sweep(args) => sweep::sweep(args, &mut output),
        Command::Fmt { files, check } => commands::format(files, *check, &mut output),
        Command::Diff(args) => diff::diff(args, &mut output),
        Command::Explain(args) => explain::explain(args, &mut output),
        Command::Docs => commands::docs(&mut output),
        Command::Hardware { names, format, files } => {
            hardware::hardware(names, *format, files, &mut output)
        }
        Command::Schema => commands::schema(&mut output),
        Command::Completions { shell } => commands::completions(*shell, &mut output),
    };
    match ending {
        Ok(()) => output.ending().code(),
        Err(ending) => Ending::from(ending).code(),
    }
}

/// The commands that can go on after they are done, where that was asked for.
fn watched(cli: &Cli) -> Option<std::io::Result<Ending>> {
    match &cli.command {
        Command::Plan(args) if args.watch => Some(watch::watch(
            &args.plan.files,
            &args.plan.sizes.hardware_file,
            cli.color,
            |output| target::plan(args, output),
        )),
        Command::Check(args) if args.watch => {
            Some(watch::watch(&args.files, &args.sizes.hardware_file, cli.color, |output| {
                check::check(args, output)
            }))
        }
        _ => None,
    }
}
