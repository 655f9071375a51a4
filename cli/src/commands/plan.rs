//! `plan`: plans, or programs between two passes.

use shardwise::{Pass, Planned};

use super::planning::{for_each_plan, options, sources};
use super::target;
use crate::args::plan::{Format, PlanArgs, ProgramArgs};
use crate::error::Result;
use crate::output::Output;

pub(super) fn plan(args: &PlanArgs, output: &mut Output) -> Result {
    let programs = &args.programs;
    match (&args.target.output, args.print_after) {
        (Some(path), _) => {
            target::plan(path, args, |planned| in_format(planned, args.format), output)
        }
        (None, Some(pass)) => print_after(programs, pass, output),
        (None, None) => for_each_plan(programs, output, |planned, output| {
            output.print(&in_format(planned, args.format))
        }),
    }
}

fn in_format(planned: &Planned, format: Format) -> String {
    match format {
        Format::Text => planned.to_string(),
        Format::Dot => planned.dot(),
        Format::Trace => planned.trace(),
        Format::Json => planned.json().to_text() + "\n",
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
