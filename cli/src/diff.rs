//! `diff`: both sides planned (a plan is its own plan), the difference printed, and exit 1 where a
//! limit is broken.

use std::io;

use shardwise::diff::Limits;
use shardwise::{Options, Planned};

use crate::args::{DiffArgs, DiffFormat};
use crate::commands::read;
use crate::output::{Ending, Output};

pub(crate) fn diff(args: &DiffArgs, output: &mut Output) -> io::Result<()> {
    let Some(options) = args.choices.options(output)? else { return Ok(()) };
    let before = planned(&args.before, &options, output)?;
    let after = planned(&args.after, &options, output)?;
    let (Some(before), Some(after)) = (before, after) else { return Ok(()) };
    let diff = shardwise::diff(&before, &after);
    output.out(&match args.format {
        DiffFormat::Text => diff.to_string(),
        DiffFormat::Markdown => diff.markdown(),
        DiffFormat::Json => diff.json(),
    })?;
    let limits = Limits { by: args.by, budget_s: args.budget, max_regression: args.max_regression };
    for sentence in diff.broken(&limits) {
        output.complain(&sentence, Ending::WrongInput)?;
    }
    Ok(())
}

/// The plan of a file, called by its path: both sides may be versions of one file.
fn planned(path: &str, options: &Options, output: &mut Output) -> io::Result<Option<Planned>> {
    let Some(source) = read(path, output)? else { return Ok(None) };
    match shardwise::plan(&source.path, &source.text, options) {
        Ok(mut planned) => {
            output.findings(&planned.warnings)?;
            if path == "-" {
                planned.name = "standard input".to_owned();
            }
            Ok(Some(planned))
        }
        Err(findings) => output.findings(&findings).map(|()| None),
    }
}
