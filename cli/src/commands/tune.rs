//! `tune`: finds the best strategy of a program on a number of chips, prints the table, and writes
//! the winner.

use std::time::Duration;

use shardwise::Options;
use shardwise::tune::{CURVE_FORMATS, Refused, Request};

use crate::args::planning::SizeArgs;
use crate::args::tune::{Chips, TuneArgs};
use crate::error::{Error, Result};
use crate::input::read;
use crate::interrupt;
use crate::options;
use crate::output::{Output, write_file};
use crate::progress::with_proof;

pub(super) fn tune(args: &TuneArgs, output: &mut Output) -> Result {
    let source = read(&args.file)?;
    let sizes = SizeArgs {
        mesh: None,
        dims: args.dims.clone(),
        hardware: args.hardware.clone(),
        hardware_files: args.hardware_files.clone(),
    };
    let searched = options::priced(options::search(&args.search), &args.rates);
    let options = options::sized(searched, &sizes)?;
    let cancellation = interrupt::on_ctrl_c()?;
    let timeout = options.timeout;
    let options = Options { timeout: None, cancellation, ..options };
    match &args.chips {
        Chips::One(chips) => {
            let request = request(args, *chips, timeout);
            let tuned = with_proof(|report| {
                shardwise::tune::tune(&source.path, &source.text, &request, &options, report)
            });
            let tuned = tuned.map_err(error)?;
            if let Some(path) = &args.output {
                write_file(path, &tuned.winner)?;
            }
            output.print(&(args.format.write)(&tuned).map_err(Error::usage)?)
        }
        Chips::Curve(chips) => {
            if args.output.is_some() {
                return Err(Error::usage(
                    "a curve has a winner for each number of chips: give one \
                    number of --chips to write it with -o",
                ));
            }
            let of_curves = CURVE_FORMATS.iter().find(|format| format.name == args.format.name);
            let format = of_curves.ok_or_else(|| no_curve(args.format.name))?;
            let request = request(args, chips[0], timeout);
            let (path, text) = (&source.path, &source.text);
            let curve = with_proof(|report| {
                shardwise::tune::curve(path, text, (&request, chips), &options, report)
            });
            output.print(&(format.write)(&curve.map_err(error)?).map_err(Error::usage)?)
        }
    }
}

fn no_curve(format: &str) -> Error {
    let names: Vec<&str> = CURVE_FORMATS.iter().map(|format| format.name).collect();
    Error::usage(format!(
        "a curve has no format `{format}`: write one of {}, or one number of --chips",
        names.join(", ")
    ))
}

fn error(refused: Refused) -> Error {
    match refused {
        Refused::Program(findings) => findings.into(),
        Refused::Options(text) => Error::usage(text),
    }
}

fn request(args: &TuneArgs, chips: u64, timeout: Option<Duration>) -> Request {
    Request {
        chips,
        axes: args.axes,
        microbatches: args.microbatches.clone(),
        stages: args.stages.clone(),
        free: args.free,
        best: args.best,
        within: args.within,
        timeout,
        exhaustive: args.exhaustive,
    }
}
