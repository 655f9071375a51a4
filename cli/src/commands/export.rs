//! `export`: writes plans as programs of other frameworks.

use shardwise::Planned;
use shardwise::export::{JAX_FORMATS, JAX_STYLES};

use super::planning::{for_each_plan, one_for_output, one_to_print, write_one};
use crate::args::plan::ExportArgs;
use crate::error::{Error, Result};
use crate::output::{Output, write_file};

pub(super) fn export(args: &ExportArgs, output: &mut Output) -> Result {
    let write = writer(args)?;
    if args.framework.name == "chakra" {
        return traces(args, output);
    }
    let programs = &args.programs;
    one_to_print(programs, &format!("`export {}`", args.framework.name))?;
    let written = |planned: &Planned| write(planned).map_err(Error::input);
    match &args.output {
        Some(path) => write_one(programs, path, output, written),
        None => for_each_plan(programs, output, |planned, output| output.print(&written(planned)?)),
    }
}

/// Writes a plan, or says why it cannot.
type Write = fn(&Planned) -> std::result::Result<String, String>;

/// What writes a plan: options of JAX are for JAX alone, and a style is that of a module.
fn writer(args: &ExportArgs) -> Result<Write> {
    let (format, style) = (args.format.name, args.style.name);
    let [module, shard_map] = [JAX_FORMATS[0].name, JAX_STYLES[0].name];
    match args.framework.name {
        "jax" if format == module => Ok(args.style.write),
        "jax" if style == shard_map => Ok(args.format.write),
        "jax" => {
            Err(Error::usage(format!("--style {style} is of a module, not of --format {format}")))
        }
        other if format != module => {
            let text = format!("--format {format} is for `export jax`; `{other}` has {module}");
            Err(Error::usage(text))
        }
        other if style != shard_map => {
            Err(Error::usage(format!("--style {style} is for `export jax`, not for `{other}`")))
        }
        _ => Ok(args.framework.write),
    }
}

/// Writes a trace for each rank, and the groups that these name, into a folder.
fn traces(args: &ExportArgs, output: &mut Output) -> Result {
    let Some(folder) = &args.output else {
        return Err(Error::usage("traces are one file for each rank: give a folder with -o"));
    };
    one_for_output(&args.programs)?;
    for_each_plan(&args.programs, output, |planned, _| {
        let traces = planned.chakra().map_err(Error::input)?;
        std::fs::create_dir_all(folder).map_err(|error| Error::unwritable(folder, &error))?;
        let path = |ending: &str| format!("{folder}/{}.{ending}", planned.name);
        for rank in 0..traces.ranks() {
            write_file(&path(&format!("{rank}.et")), traces.trace(rank))?;
        }
        write_file(&path("groups.json"), traces.groups())
    })
}
