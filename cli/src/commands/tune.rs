//! `tune`: finds the best strategy of a program on a number of chips, prints the table, and writes
//! the winner.

use shardwise::Options;
use shardwise::tune::{Refused, Request};

use crate::args::planning::SizeArgs;
use crate::args::tune::TuneArgs;
use crate::error::{Error, Result};
use crate::input::read;
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
    let request = request(args, &options);
    let options = Options { timeout: None, ..options };
    let tuned = with_proof(|report| {
        shardwise::tune::tune(&source.path, &source.text, &request, &options, report)
    });
    let tuned = tuned.map_err(|refused| match refused {
        Refused::Program(findings) => findings.into(),
        Refused::Options(text) => Error::usage(text),
    })?;
    if let Some(path) = &args.output {
        write_file(path, &tuned.winner)?;
    }
    output.print(&(args.format.write)(&tuned).map_err(Error::usage)?)
}

fn request(args: &TuneArgs, options: &Options) -> Request {
    Request {
        chips: args.chips,
        axes: args.axes,
        microbatches: args.microbatches.clone(),
        stages: args.stages.clone(),
        free: args.free,
        best: args.best,
        within: args.within,
        timeout: options.timeout,
        exhaustive: args.exhaustive,
    }
}
