//! The commands, one file each: call the library as the arguments ask.

mod calibrate;
mod check;
mod cost;
mod diff;
mod explain;
mod export;
mod fmt;
mod hardware;
mod import;
mod inputs;
mod lsp;
mod new;
mod plan;
mod planning;
mod reference;
mod sweep;
mod target;
mod tune;
mod verify;
mod watch;

use crate::args::{Cli, Command};
use crate::error::Result;
use crate::output::Output;

/// Runs the command that was typed.
pub(crate) fn run(cli: &Cli, output: &mut Output) -> Result {
    match &cli.command {
        Command::Plan(args) if args.watch => {
            let programs = &args.programs;
            let hardware = &programs.planning.sizes.hardware_files.paths;
            watch::watch(&programs.files, hardware, output, |output| plan::plan(args, output))
        }
        Command::Plan(args) => plan::plan(args, output),
        Command::New(args) => new::new(args, output),
        Command::Export(args) => export::export(args, output),
        Command::Lsp(args) => lsp::lsp(args),
        Command::Import(source) => import::import(source, output),
        Command::Check(args) if args.watch => {
            let hardware = &args.sizes.hardware_files.paths;
            watch::watch(&args.files, hardware, output, |output| check::check(args, output))
        }
        Command::Check(args) => check::check(args, output),
        Command::Fmt(args) => fmt::fmt(args, output),
        Command::Verify(args) => verify::verify(args, output),
        Command::Cost(args) => cost::cost(args, output),
        Command::Sweep(args) => sweep::sweep(args, output),
        Command::Tune(args) => tune::tune(args, output),
        Command::Diff(args) => diff::diff(args, output),
        Command::Explain(args) => explain::explain(args, output),
        Command::Docs { topic } => reference::docs(topic.as_deref(), output),
        Command::Hardware(args) => hardware::hardware(args, output),
        Command::Calibrate(args) => calibrate::calibrate(args, output),
        Command::Schema { document } => reference::schema(document, output),
        Command::Completions { shell } => reference::completions(*shell, output),
        Command::Man { folder } => reference::man(folder.as_deref(), output),
    }
}
