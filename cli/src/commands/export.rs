//! `export`: writes plans as programs of other frameworks.

use shardwise::Planned;
use shardwise::export::JAX_FORMATS;

use super::planning::for_each_plan;
use crate::args::plan::ExportArgs;
use crate::error::{Error, Result};
use crate::output::{Output, write_file};

pub(super) fn export(args: &ExportArgs, output: &mut Output) -> Result {
    let programs = &args.programs;
    let default = JAX_FORMATS[0].name;
    let write = match args.framework.name {
        "jax" => args.format.write,
        other if args.format.name != default => {
            let format = args.format.name;
            let text = format!("--format {format} is for `export jax`; `{other}` has {default}");
            return Err(Error::usage(text));
        }
        _ => args.framework.write,
    };
    let written = |planned: &Planned| write(planned).map_err(Error::input);
    let Some(path) = &args.output else {
        return for_each_plan(programs, output, |planned, output| output.print(&written(planned)?));
    };
    if programs.files.len() > 1 {
        return Err(Error::usage("-o takes one program; run the command once for each"));
    }
    let mut text = None;
    for_each_plan(programs, output, |planned, _| {
        text = Some(written(planned)?);
        Ok(())
    })?;
    text.map_or(Ok(()), |text| write_file(path, &text))
}
