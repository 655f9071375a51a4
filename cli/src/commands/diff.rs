//! `diff`: plans both sides (a plan is its own plan), prints the difference, and exits with 1 if a
//! limit is broken.

use shardwise::diff::Limits;
use shardwise::{Options, Planned};

use super::planning::{in_text, one_liner};
use crate::args::compare::DiffArgs;
use crate::args::planning::PlanningArgs;
use crate::error::{Error, Result};
use crate::input::{Source, read};
use crate::options;
use crate::output::Output;

pub(super) fn diff(args: &DiffArgs, output: &mut Output) -> Result {
    let options = options::planning(&args.planning)?;
    if let ([before, after], []) = (&args.files[..], &args.expressions[..])
        && before == after
    {
        // What is wrong with it is reported once.
        let planned = planned_file(before, &options, output)?;
        return compare(&planned, &planned, args, output);
    }
    let files = args.files.iter().map(|path| planned_file(path, &options, output));
    let files = files.collect::<Vec<_>>();
    let expressions = args.expressions.iter();
    let lines = expressions.map(|expression| planned_line(expression, args, output));
    let mut sides = files.into_iter().chain(lines.collect::<Vec<_>>());
    let (Some(before), Some(after), None) = (sides.next(), sides.next(), sides.next()) else {
        return Err(Error::usage(
            "give two programs: `diff before.shard after.shard`, or `-e` for each that is a line",
        ));
    };
    match (before, after) {
        (Ok(before), Ok(after)) => compare(&before, &after, args, output),
        (before, after) => [before, after]
            .into_iter()
            .filter_map(Result::err)
            .try_for_each(|error| output.error(error)),
    }
}

/// Prints the difference, and the limits that it breaks.
fn compare(before: &Planned, after: &Planned, args: &DiffArgs, output: &mut Output) -> Result {
    let diff = shardwise::diff(before, after);
    output.print(&(args.format.write)(&diff).map_err(Error::usage)?)?;
    let limits = Limits { by: args.by, budget_s: args.budget, max_regression: args.max_regression };
    diff.broken(&limits).into_iter().try_for_each(|text| output.error(Error::input(text)))
}

/// The plan of a file, named by its path: both sides may be versions of one file.
fn planned_file(path: &str, options: &Options, output: &mut Output) -> Result<Planned> {
    let mut planned = planned(&read(path)?, options, output)?;
    if path == "-" {
        planned.name = "standard input".to_owned();
    }
    Ok(planned)
}

/// The plan of a program of one line, named by that line.
fn planned_line(expression: &str, args: &DiffArgs, output: &mut Output) -> Result<Planned> {
    let source = one_liner(expression, &args.planning.sizes);
    let sizes = in_text(args.planning.sizes.clone());
    let planning = PlanningArgs { sizes, ..args.planning.clone() };
    let mut planned = planned(&source, &options::planning(&planning)?, output)?;
    expression.clone_into(&mut planned.name);
    Ok(planned)
}

fn planned(source: &Source, options: &Options, output: &mut Output) -> Result<Planned> {
    let planned = shardwise::plan(&source.path, &source.text, options)?;
    output.findings(&planned.warnings)?;
    Ok(planned)
}
