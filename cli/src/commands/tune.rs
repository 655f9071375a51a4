//! `tune`: finds the best strategy of a program on a number of chips, prints the table, and writes
//! the winner.

mod pipelines;

use std::time::Duration;

use shardwise::Options;
use shardwise::export::Format;
use shardwise::hardware::named_file::with_paths;
use shardwise::tune::{CURVE_FORMATS, Given, Refused, Request, SERVING_FORMATS, Serve};

use super::inputs;
use super::target::path_from;
use crate::args::planning::SizeArgs;
use crate::args::tune::{Chips, TuneArgs};
use crate::error::{Error, Result};
use crate::input::read;
use crate::interrupt;
use crate::options;
use crate::output::{Output, refuse_to_replace, write_file};
use crate::progress::with_proof;

pub(super) fn tune(args: &TuneArgs, output: &mut Output) -> Result {
    let programs = std::iter::once(&args.file).chain(&args.against);
    refuse_to_replace(inputs::of(programs, &args.hardware_files), args.output.as_deref())?;
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
    let program = (source.path, source.text);
    output.findings(&shardwise::unmeasured(&program.0, &program.1, &options))?;
    match &args.chips {
        Chips::One(chips) => {
            let request = request(args, *chips, timeout)?;
            let written = match args.serving.prefill {
                Some(_) => deployments(args, program, request, &options)?,
                None => strategies(args, &program, &request, &options)?,
            };
            output.print(&written)
        }
        Chips::Curve(chips) => {
            let request = request(args, chips[0], timeout)?;
            output.print(&scaling(args, &program, (&request, chips), &options)?)
        }
    }
}

/// The best strategies; the winner is written where that is asked for.
fn strategies(
    args: &TuneArgs,
    (path, text): &(String, String),
    request: &Request,
    options: &Options,
) -> Result<String> {
    let tuned = with_proof(|report| shardwise::tune::tune(path, text, request, options, report));
    let tuned = tuned.map_err(error)?;
    if let Some(output) = &args.output {
        let path_of =
            |file: &str| path_from(output, path, file).unwrap_or_else(|_| file.to_owned());
        write_file(output, with_paths(&tuned.winner, path_of))?;
    }
    (args.format.write)(&tuned).map_err(Error::usage)
}

/// The best strategies on several numbers of chips.
fn scaling(
    args: &TuneArgs,
    (path, text): &(String, String),
    request: (&Request, &[u64]),
    options: &Options,
) -> Result<String> {
    let of_one_number = [
        ("--prefill", args.serving.prefill.is_some()),
        ("--against", !args.against.is_empty()),
        ("--what-if", args.what_if),
    ];
    if let Some((option, _)) = of_one_number.iter().find(|(_, is_given)| *is_given) {
        return Err(Error::usage(format!("{option} needs one number of --chips")));
    }
    if args.output.is_some() {
        return Err(Error::usage(
            "a curve has a winner for each number of chips: give one number of --chips to write \
                it with -o",
        ));
    }
    let format = format_among(CURVE_FORMATS, args, "a curve")?;
    let curve = with_proof(|report| shardwise::tune::curve(path, text, request, options, report));
    (format.write)(&curve.map_err(error)?).map_err(Error::usage)
}

/// The best deployments of a prefill and a decode step.
fn deployments(
    args: &TuneArgs,
    decode: (String, String),
    request: Request,
    options: &Options,
) -> Result<String> {
    let serve = serving(args, decode)?;
    let format = format_among(SERVING_FORMATS, args, "a deployment")?;
    let request = Request { batches: Vec::new(), ..request };
    let served = with_proof(|report| shardwise::tune::serve(&serve, &request, options, report));
    (format.write)(&served.map_err(error)?).map_err(Error::usage)
}

/// The format that was asked for, if `what` has it.
fn format_among<T>(
    formats: &'static [Format<T>],
    args: &TuneArgs,
    what: &str,
) -> Result<&'static Format<T>> {
    let name = args.format.name;
    formats.iter().find(|format| format.name == name).ok_or_else(|| {
        let names: Vec<&str> = formats.iter().map(|format| format.name).collect();
        Error::usage(format!("{what} has no format `{name}`: write one of {}", names.join(", ")))
    })
}

/// Sequences of a decode step, where --batch does not say.
const SEQUENCES: [u64; 9] = [1, 4, 8, 16, 32, 64, 128, 256, 512];

/// The phases and their limits.
fn serving(args: &TuneArgs, decode: (String, String)) -> Result<Serve> {
    let prefill = read(args.serving.prefill.as_deref().unwrap_or_default())?;
    let seconds = |of: Option<Duration>| of.map(|of| of.as_secs_f64());
    let given = &args.batch;
    Ok(Serve {
        prefill: (prefill.path, prefill.text),
        decode,
        tokens: args.serving.tokens.unwrap_or(1),
        prompts: distinct(&args.serving.prompts),
        sequences: if given.is_empty() { SEQUENCES.to_vec() } else { distinct(given) },
        first_s: seconds(args.serving.ttft),
        next_s: seconds(args.serving.tpot),
    })
}

fn error(refused: Refused) -> Error {
    match refused {
        Refused::Program(findings) => findings.into(),
        Refused::Options(_) => Error::usage(refused.to_string()),
        Refused::TooSlow(..) => Error::input(refused.to_string()),
    }
}

fn request(args: &TuneArgs, chips: u64, timeout: Option<Duration>) -> Result<Request> {
    let default = Request::of_chips(chips);
    pipelines::check(args, &default)?;
    let given = Given {
        microbatches: !args.microbatches.is_empty(),
        recompute: !args.recompute.is_empty(),
        of_pipelines: pipelines::given(args, &default),
    };
    let by_hand = args.against.iter().map(|path| read(path).map(|of| (of.path, of.text)));
    Ok(Request {
        chips,
        axes: args.axes,
        microbatches: distinct_or(&args.microbatches, default.microbatches),
        stages: distinct(&args.stages),
        free: args.free,
        best: usize::try_from(args.best).unwrap_or(usize::MAX),
        within: args.within,
        timeout,
        exhaustive: args.exhaustive,
        schedules: distinct(&args.schedules),
        chunks: pipelines::chunks(args),
        fewer_first: args.fewer_first,
        what_if: args.what_if,
        recompute: distinct_or(&args.recompute, default.recompute),
        dtypes: distinct(&args.dtypes),
        batches: distinct(&args.batch),
        latency_s: args.latency.map(|latency| latency.as_secs_f64()),
        against: by_hand.collect::<Result<_>>()?,
        given,
    })
}

/// Each of a list once, or what is there by default.
fn distinct_or<T: Clone + PartialEq>(list: &[T], default: Vec<T>) -> Vec<T> {
    if list.is_empty() { default } else { distinct(list) }
}

/// Each of a list once: what is given twice is one candidate.
fn distinct<T: Clone + PartialEq>(list: &[T]) -> Vec<T> {
    let mut each: Vec<T> = Vec::with_capacity(list.len());
    for item in list {
        if !each.contains(item) {
            each.push(item.clone());
        }
    }
    each
}
