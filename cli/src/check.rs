//! `check`: many files at once, their findings in order, in the format asked for.
//!
//! Files are found and configurations read one after another, since both complain; programs are
//! then judged on all cores, and whatever order they finish in, they are told in the order in which
//! they were found.

mod configs;
mod files;

use std::cmp::Ordering;
use std::io;

use rayon::prelude::*;
use shardwise::Options;
use shardwise::lint::formats::{self, Summary};
use shardwise::lint::{self, Finding, Levels, Linted, Settings};
use similar::TextDiff;

use self::configs::Configs;
use crate::args::{CheckArgs, CheckFormat, Sort};
use crate::commands::{read_text, resized, write_whole};
use crate::output::{Ending, Output};

/// A program that is to be judged.
struct Job {
    path: String,
    settings: Settings,
}

/// What became of a job.
struct Judged {
    before: Linted,
    /// The same after its safe edits, and how many they were.
    after: Option<(Linted, usize)>,
}

/// Why there is nothing to judge: a sentence, and how bad it is.
type Unread = (String, Ending);

pub(crate) fn check(args: &CheckArgs, output: &mut Output) -> io::Result<()> {
    let options = Options { explicit: args.explicit, ..Options::default() };
    let Some(options) = resized(options, &args.sizes, output)? else { return Ok(()) };
    let jobs = jobs(args, output)?;
    let judged: Vec<Result<Judged, Unread>> =
        jobs.par_iter().map(|job| judge(job, args, &options)).collect();
    let mut files = Vec::with_capacity(judged.len());
    for file in judged {
        match file {
            Ok(file) => files.push(file),
            Err((complaint, ending)) => output.complain(&complaint, ending)?,
        }
    }
    if args.diff { diff(&files, output) } else { tell(args, files, output) }
}

/// The programs that the arguments name, each with its settings.
fn jobs(args: &CheckArgs, output: &mut Output) -> io::Result<Vec<Job>> {
    let levels = &args.levels;
    let mut configs = Configs::new(levels.config.as_deref(), levels.isolated);
    let mut jobs = Vec::new();
    for path in files::find(&args.files, output)? {
        let Some(mut settings) = configs.settings(&path, output)? else { continue };
        settings.layer(Levels {
            select: levels.select.clone(),
            ignore: levels.ignore.clone(),
            warn: levels.warn.clone(),
            deny: levels.deny.clone(),
        });
        if levels.deny_warnings {
            settings.deny_warnings();
        }
        jobs.push(Job { path: path.name, settings });
    }
    Ok(jobs)
}

fn judge(job: &Job, args: &CheckArgs, options: &Options) -> Result<Judged, Unread> {
    let text = read_text(&job.path)?;
    let before = lint::lint(&job.path, &text, options, &job.settings);
    let after = (args.fix || args.diff)
        .then(|| lint::fixed(before.clone(), options, &job.settings))
        .filter(|(_, count)| *count > 0);
    Ok(Judged { before, after })
}

/// Prints what `--fix` would change.
fn diff(files: &[Judged], output: &mut Output) -> io::Result<()> {
    let mut count = 0;
    for Judged { before, after } in files {
        let Some((after, fixes)) = after else { continue };
        count += fixes;
        let diff = TextDiff::from_lines(&before.source, &after.source);
        output.out(&diff.unified_diff().header(&before.name, &before.name).to_string())?;
    }
    if count > 0 {
        output.worst(Ending::WrongInput);
    }
    output.remark(&format!(
        "{count} safe edits in {} files",
        files.iter().filter(|file| file.after.is_some()).count()
    ))
}

/// Writes what was mended, and tells what is left.
fn tell(args: &CheckArgs, files: Vec<Judged>, output: &mut Output) -> io::Result<()> {
    let mut left = Vec::with_capacity(files.len());
    let mut mended = 0;
    for Judged { before, after } in files {
        let Some((after, count)) = after else {
            if args.fix && before.name == "-" {
                output.out(&before.source)?;
            }
            left.push(before);
            continue;
        };
        mended += count;
        if after.name == "-" {
            output.out(&after.source)?;
        } else {
            write_whole(&after.name, &after.source, output)?;
        }
        left.push(after);
    }
    if args.sort == Sort::Cost {
        by_cost(&mut left);
    }
    if left.iter().any(|file| !file.findings.is_empty()) {
        output.worst(Ending::WrongInput);
    }
    print(args, &left, output)?;
    let summary = Summary::of(&left);
    let is_news =
        summary.files > 1 || summary.with_findings > 0 || summary.untried > 0 || mended > 0;
    if is_news && matches!(args.format, CheckFormat::Graphical | CheckFormat::Concise) {
        let mended = if mended > 0 { format!("{mended} edits made; ") } else { String::new() };
        output.remark(&format!("{mended}{summary}"))?;
    }
    Ok(())
}

/// The dearest finding first, and the file that has it.
fn by_cost(files: &mut [Linted]) {
    let cost =
        |finding: &Finding| finding.price.map_or((0.0, 0.0), |price| (price.seconds, price.bytes));
    let dearest_first =
        |a: (f64, f64), b: (f64, f64)| b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1));
    for file in files.iter_mut() {
        file.findings.sort_by(|a, b| dearest_first(cost(a), cost(b)));
    }
    files.sort_by(|a, b| match (a.findings.first(), b.findings.first()) {
        (Some(a), Some(b)) => dearest_first(cost(a), cost(b)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    });
}

fn print(args: &CheckArgs, files: &[Linted], output: &mut Output) -> io::Result<()> {
    let text = match args.format {
        CheckFormat::Graphical => return graphical(args, files, output),
        CheckFormat::Concise => formats::concise(files),
        CheckFormat::Json => formats::json(files),
        CheckFormat::Sarif => formats::sarif(files),
        CheckFormat::Github => formats::github(files),
        CheckFormat::Junit => formats::junit(files),
    };
    match &args.output {
        Some(path) => write_whole(path, &text, output),
        None => output.out(&text),
    }
}

fn graphical(args: &CheckArgs, files: &[Linted], output: &mut Output) -> io::Result<()> {
    let Some(path) = &args.output else {
        return files.iter().try_for_each(|file| output.findings(&file.reports()));
    };
    let drawn: String = files
        .iter()
        .flat_map(|file| file.reports().reports)
        .map(|report| output.drawn(&report, false) + "\n\n")
        .collect();
    write_whole(path, &drawn, output)
}
