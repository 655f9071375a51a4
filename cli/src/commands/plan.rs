//! `plan`: prints plans, or programs after a pass.

use shardwise::export::FORMATS;
use shardwise::{Pass, Planned};

use super::planning::{for_each_plan, one_to_print, options, sources};
use super::target;
use crate::args::plan::{PlanArgs, ProgramArgs};
use crate::error::{Error, Result};
use crate::output::Output;

pub(super) fn plan(args: &PlanArgs, output: &mut Output) -> Result {
    let programs = &args.programs;
    let written = |planned: &Planned| (args.format.write)(planned).map_err(Error::usage);
    match (&args.target.output, args.print_after) {
        (Some(path), _) => target::plan(path, args, written, output),
        (None, Some(_)) if args.format.name != FORMATS[0].name => Err(Error::usage(format!(
            "--print-after prints a program as text, not as --format {}",
            args.format.name
        ))),
        (None, Some(pass)) => print_after(programs, pass, output),
        (None, None) => {
            if !args.format.is_prose() {
                one_to_print(programs, &format!("--format {}", args.format.name))?;
            }
            for_each_plan(programs, output, |planned, output| output.print(&written(planned)?))
        }
    }
}

fn print_after(args: &ProgramArgs, pass: Pass, output: &mut Output) -> Result {
    let options = options(args)?;
    for source in sources(args, output)? {
        match shardwise::print_after(&source.path, &source.text, &options, pass) {
            Err(findings) => output.findings(&findings)?,
            Ok(program) => output.print(&program)?,
        }
    }
    Ok(())
}
