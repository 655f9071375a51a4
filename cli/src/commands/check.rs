//! `check`: checks many files at once, and prints their findings in order, in the requested format.
//!
//! Files are found and configurations read sequentially, since both may fail; programs are then
//! checked on all cores, and reported in the order of the files.

use std::cmp::Ordering;

use rayon::prelude::*;
use shardwise::lint::formats::Summary;
use shardwise::lint::{self, Finding, Linted, Settings};
use shardwise::units::counted;
use shardwise::{Diag, Options, Span, codes};
use similar::TextDiff;

use super::inputs;
use super::planning::{beside, one_liner};
use crate::args::check::{CheckArgs, CheckFormat, Sort};
use crate::configs::{Configs, set_levels};
use crate::error::{self, Error, Result};
use crate::exit_status::ExitStatus;
use crate::input::{Source, read};
use crate::options;
use crate::output::{Output, draw, refuse_to_replace, write_file};
use crate::programs::{self, Found};

/// A program to check.
struct Job {
    path: String,
    /// Its text, where it is not in a file.
    text: Option<String>,
    settings: Settings,
}

/// A checked program.
struct Checked {
    before: Linted,
    /// The same after its safe fixes, and how many they were.
    after: Option<(Linted, usize)>,
}

pub(super) fn check(args: &CheckArgs, output: &mut Output) -> Result {
    let options = Options { explicit: args.explicit, ..Options::default() };
    let sizes = beside(&args.one_liner, args.sizes.clone());
    let options = options::sized(options::priced(options, &args.rates), &sizes)?;
    let jobs = jobs(args, output)?;
    let checked: Vec<Result<Checked>> =
        jobs.par_iter().map(|job| check_one(job, args, &options)).collect();
    let mut files = Vec::with_capacity(checked.len());
    for file in checked {
        match file {
            Ok(file) => files.push(file),
            Err(error) => output.error(error)?,
        }
    }
    if args.diff { print_diff(&files, output) } else { report(args, files, output) }
}

/// The programs that the arguments name, each with its settings.
fn jobs(args: &CheckArgs, output: &mut Output) -> Result<Vec<Job>> {
    let mut configs = Configs::new(args.levels.config.as_deref(), args.levels.isolated);
    let mut jobs = Vec::new();
    let expression = args.one_liner.expression.as_ref().map(|text| one_liner(text, &args.sizes));
    let files: &[String] = if expression.is_some() { &[] } else { &args.files };
    let expression = expression.map(|source| (source.path, Some(source.text)));
    let named =
        expression.into_iter().map(|(path, text)| Ok((Found { path, in_folder: false }, text)));
    let files = programs::find(files).map(|found| found.map(|found| (found, None)));
    for found in named.chain(files) {
        let (found, text) = match found {
            Ok(found) => found,
            Err(error) => {
                output.error(error)?;
                continue;
            }
        };
        match configs.settings(&found) {
            Ok(Some(mut settings)) => {
                set_levels(&mut settings, &args.levels);
                jobs.push(Job { path: found.path, text, settings });
            }
            Ok(None) => {}
            Err(error) => {
                output.at_least(ExitStatus::Error);
                output.error(error)?;
            }
        }
    }
    refuse_to_replace(configs.files()?, args.output.as_deref())?;
    Ok(jobs)
}

fn check_one(job: &Job, args: &CheckArgs, options: &Options) -> Result<Checked> {
    let source = match &job.text {
        Some(text) => Source { path: job.path.clone(), text: text.clone() },
        None => match read(&job.path) {
            Err(Error::NotText { path, before }) if !args.fix && !args.diff => {
                return Ok(Checked { before: not_text(path, before), after: None });
            }
            source => source?,
        },
    };
    let before = lint::lint(&source.path, &source.text, options, &job.settings);
    let after = (args.fix || args.diff)
        .then(|| lint::fixed(before.clone(), options, &job.settings))
        .filter(|(_, count)| *count > 0);
    Ok(Checked { before, after })
}

/// The finding that a file is not text, at the end of what is, so that every format has it.
fn not_text(path: String, before: String) -> Linted {
    let end = Span::new(before.len(), before.len());
    let message = error::not_text(&path, &before);
    let diag = Diag::error(codes::syntax::NOT_TEXT, message, end, "no UTF-8 from here on")
        .help("save it as UTF-8");
    Linted { name: path, source: before, findings: vec![diag.into()], untried: 0 }
}

/// Prints what `--fix` would change.
fn print_diff(files: &[Checked], output: &mut Output) -> Result {
    let (mut edits, mut changed) = (0, 0);
    for Checked { before, after } in files {
        let Some((after, count)) = after else { continue };
        (edits, changed) = (edits + count, changed + 1);
        output.at_least(ExitStatus::Failure);
        let diff = TextDiff::from_lines(&before.source, &after.source);
        output.print(&diff.unified_diff().header(&before.name, &before.name).to_string())?;
    }
    output.remark(&format!(
        "{} in {}",
        counted(edits as u64, "safe edit"),
        counted(changed as u64, "file")
    ))
}

/// Writes the fixed programs, and reports the remaining findings.
fn report(args: &CheckArgs, files: Vec<Checked>, output: &mut Output) -> Result {
    let mut left = Vec::with_capacity(files.len());
    let mut edits = 0;
    for Checked { before, after } in files {
        let is_fixed = after.is_some();
        let (file, count) = after.unwrap_or((before, 0));
        if file.name == "-" && args.fix {
            output.print(&file.source)?;
        } else if is_fixed {
            write_file(&file.name, &file.source)?;
        }
        edits += count;
        left.push(file);
    }
    if args.sort == Sort::Cost {
        by_cost(&mut left);
    }
    if left.iter().any(|file| !file.findings.is_empty()) {
        output.at_least(ExitStatus::Failure);
    }
    print(args, &left, output)?;
    summarize(args, &left, edits, output)
}

/// Prints the number of findings in the format for people, except for one clean program.
fn summarize(args: &CheckArgs, files: &[Linted], edits: usize, output: &mut Output) -> Result {
    let summary = Summary::of(files);
    if summary.files == 0 && output.status() == ExitStatus::Success {
        return output.remark(&format!("no programs (*.shard) in {}", args.files.join(", ")));
    }
    let is_news =
        summary.files > 1 || summary.with_findings > 0 || summary.untried > 0 || edits > 0;
    let for_people = match args.format {
        CheckFormat::Graphical => true,
        CheckFormat::Of(format) => format.name == "concise",
    };
    if is_news && for_people {
        let made = || format!("{} made; ", counted(edits as u64, "edit"));
        let edits = if edits > 0 { made() } else { String::new() };
        output.remark(&format!("{edits}{summary}"))?;
    }
    Ok(())
}

/// The most expensive finding first, and the file that has it.
fn by_cost(files: &mut [Linted]) {
    let cost =
        |finding: &Finding| finding.price.map_or((0.0, 0.0), |price| (price.seconds, price.bytes));
    let descending = |a: (f64, f64), b: (f64, f64)| b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1));
    for file in files.iter_mut() {
        file.findings.sort_by(|a, b| descending(cost(a), cost(b)));
    }
    files.sort_by(|a, b| match (a.findings.first(), b.findings.first()) {
        (Some(a), Some(b)) => descending(cost(a), cost(b)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    });
}

fn print(args: &CheckArgs, files: &[Linted], output: &mut Output) -> Result {
    let text = match args.format {
        CheckFormat::Graphical => match &args.output {
            None => return files.iter().try_for_each(|file| output.findings(&file.reports())),
            Some(_) => graphical(files),
        },
        CheckFormat::Of(format) => (format.write)(files).map_err(Error::usage)?,
    };
    let reads = inputs::of(files.iter().map(|file| &file.name), &args.sizes.hardware_files);
    refuse_to_replace(reads.iter().chain(&args.levels.config), args.output.as_deref())?;
    match &args.output {
        Some(path) => write_file(path, &text),
        None => output.print(&text),
    }
}

/// Findings as they are drawn for terminals, for a file.
fn graphical(files: &[Linted]) -> String {
    let reports = files.iter().flat_map(|file| file.reports().reports);
    reports.map(|report| draw(&report, false) + "\n\n").collect()
}
