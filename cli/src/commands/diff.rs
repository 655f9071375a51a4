//! `diff`: plans both sides (a plan is its own plan), prints the difference, and exits with 1 if a
//! limit is broken.

use shardwise::diff::Limits;
use shardwise::{Options, Planned};

use crate::args::compare::DiffArgs;
use crate::error::{Error, Result};
use crate::input::read;
use crate::options;
use crate::output::Output;

pub(super) fn diff(args: &DiffArgs, output: &mut Output) -> Result {
    let options = options::planning(&args.planning)?;
    let before = planned(&args.before, &options, output);
    let after = planned(&args.after, &options, output);
    let (before, after) = match (before, after) {
        (Ok(before), Ok(after)) => (before, after),
        (before, after) => {
            return [before, after]
                .into_iter()
                .filter_map(Result::err)
                .try_for_each(|error| output.error(error));
        }
    };
    let diff = shardwise::diff(&before, &after);
    output.print(&(args.format.write)(&diff).map_err(Error::usage)?)?;
    let limits = Limits { by: args.by, budget_s: args.budget, max_regression: args.max_regression };
    diff.broken(&limits).into_iter().try_for_each(|text| output.error(Error::input(text)))
}

/// The plan of a file, named by its path: both sides may be versions of one file.
fn planned(path: &str, options: &Options, output: &mut Output) -> Result<Planned> {
    let source = read(path)?;
    let mut planned = shardwise::plan(&source.path, &source.text, options)?;
    output.findings(&planned.warnings)?;
    if path == "-" {
        planned.name = "standard input".to_owned();
    }
    Ok(planned)
}
