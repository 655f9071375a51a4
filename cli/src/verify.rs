//! `verify`: plans of every file run on simulated devices, with a bar on a terminal where that
//! takes long.

use std::io;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use shardwise::verify::{self, Setup, Sizes, Verdict};
use shardwise::{Findings, Options, Strategy};

use crate::args::VerifyArgs;
use crate::commands::{Source, read, resized};
use crate::output::{Ending, Output};

/// Runs shorter than this show no bar.
const PATIENCE: Duration = Duration::from_millis(400);

pub(crate) fn verify(args: &VerifyArgs, output: &mut Output) -> io::Result<()> {
    let reference = match &args.against {
        Some(path) => match read(path, output)? {
            Some(reference) => Some(reference),
            None => return Ok(()),
        },
        None => None,
    };
    for path in &args.files {
        let Some(source) = read(path, output)? else { continue };
        match &reference {
            Some(reference) => {
                let Some(options) = resized(
                    Options { explicit: args.explicit, ..Options::default() },
                    &args.sizes,
                    output,
                )?
                else {
                    return Ok(());
                };
                let run = |setup: &Setup<'_>| {
                    verify::against(
                        (&source.path, &source.text),
                        (&reference.path, &reference.text),
                        &options,
                        setup,
                    )
                };
                say(path, watched(args, run), output)?;
            }
            None => both_strategies(args, &source, output)?,
        }
    }
    Ok(())
}

/// An explicit program is its own plan, and is run once.
fn both_strategies(args: &VerifyArgs, source: &Source, output: &mut Output) -> io::Result<()> {
    for strategy in [Strategy::Search, Strategy::Textbook] {
        // The textbook's plan is right or wrong whether it fits or not; the search's is the one
        // that fits.
        let memory = (strategy == Strategy::Textbook).then_some(f64::INFINITY);
        let options = Options { strategy, memory, explicit: args.explicit, ..Options::default() };
        let Some(options) = resized(options, &args.sizes, output)? else { return Ok(()) };
        let verdict =
            watched(args, |setup| verify::verify(&source.path, &source.text, &options, setup));
        let once = verdict.as_ref().map_or(true, |verdict| verdict.plan == "explicit");
        say(&source.path, verdict, output)?;
        if once {
            break;
        }
    }
    Ok(())
}

/// Runs with a progress bar that appears when the run is long and stderr is a terminal.
fn watched(
    args: &VerifyArgs,
    run: impl FnOnce(&Setup<'_>) -> Result<Verdict, Findings>,
) -> Result<Verdict, Findings> {
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} statements, {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::no_length().with_style(style);
    let started = Instant::now();
    let progress = |done: usize, all: usize| {
        if started.elapsed() > PATIENCE {
            bar.set_length(all as u64);
            bar.set_position(done as u64);
        }
    };
    let sizes = if args.full { Sizes::Full } else { Sizes::Scaled };
    let verdict = run(&Setup { sizes, seed: args.seed, progress: &progress });
    bar.finish_and_clear();
    verdict
}

fn say(path: &str, verdict: Result<Verdict, Findings>, output: &mut Output) -> io::Result<()> {
    match verdict {
        Err(findings) => output.findings(&findings),
        Ok(verdict) => {
            if verdict.mismatch.is_some() {
                output.worst(Ending::WrongInput);
            }
            output.out(&format!("{path} ({}): {verdict}\n", verdict.plan))
        }
    }
}
