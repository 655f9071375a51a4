//! `plan -o`: a plan as the target of a build tool. The file is written completely or not at all,
//! and only if the program could be planned; the files that it depends on are written beside it,
//! for make and ninja.

use std::io;
use std::path::Path;

use indexmap::IndexSet;
use shardwise::build::{depfile, write_if_changed};
use shardwise::{Plan, Planned};

use super::inputs;
use super::planning::{for_each_plan, one_for_output};
use crate::args::plan::{PlanArgs, ProgramArgs};
use crate::error::{Error, Result};
use crate::exit_status::ExitStatus;
use crate::input;
use crate::output::{Output, is_same_file, refuse_to_replace, write_file};

/// Writes the plan to `path`, in the format that `in_format` prints.
pub(super) fn plan(
    path: &str,
    args: &PlanArgs,
    in_format: impl Fn(&Planned) -> Result<String>,
    output: &mut Output,
) -> Result {
    let PlanArgs { programs, target, format, .. } = args;
    one_for_output(programs)?;
    let reads = inputs::of(&programs.files, &programs.planning.sizes.hardware_files);
    refuse_to_replace(&reads, target.depfile.as_deref())?;
    let beside = reads.iter().filter(|read| !programs.files.contains(read));
    refuse_to_replace(beside, Some(path))?;
    if target.depfile.as_deref().is_some_and(|depfile| is_same_file(depfile, path)) {
        return Err(Error::usage(format!(
            "-o and --depfile are both `{path}`; write the dependencies to another file"
        )));
    }
    let mut text = String::new();
    let mut is_plan = true;
    for_each_plan(programs, output, |planned, _| {
        is_plan = format.name == "text" && planned.strategy_name() == "explicit";
        text = in_format(&as_read_from(path, planned, programs)?)?;
        Ok(())
    })?;
    if output.status() != ExitStatus::Success {
        return Ok(());
    }
    if target.check {
        return up_to_date(path, programs, &text);
    }
    // A plan may be replaced by itself with other costs; a program would be lost.
    if !is_plan {
        refuse_to_replace(&programs.files, Some(path))?;
    }
    if let Some(depfile) = &target.depfile {
        // First, since an output without its dependencies would never be rebuilt.
        write_depfile(depfile, path, &reads)?;
    }
    if target.if_changed && path != "-" {
        let written = write_if_changed(Path::new(path), &text);
        written.map(drop).map_err(|error| Error::unwritable(path, &error))
    } else {
        write_file(path, &text)
    }
}

/// The plan for the folder of `output`: the path of its hardware file changes.
fn as_read_from(output: &str, planned: &Planned, args: &ProgramArgs) -> io::Result<Planned> {
    let mut planned = planned.clone();
    if let (Some(program), Some(file)) = (args.files.first(), &planned.plan.program.hardware.file) {
        let mut plan = Plan::clone(&planned.plan);
        plan.program.hardware.file = Some(path_from(output, program, file)?);
        planned.plan = plan.into();
    }
    Ok(planned)
}

/// The path of a file that `program` names, as a program at `output` has to name it: paths in a
/// program are relative to its folder.
pub(super) fn path_from(output: &str, program: &str, file: &str) -> io::Result<String> {
    let folder = |of: &str| {
        std::path::absolute(of).map(|path| path.parent().map(Path::to_path_buf).unwrap_or_default())
    };
    let (from, to) = (folder(program)?, folder(output)?);
    let is_moved = from != to && Path::new(file).is_relative();
    Ok(if is_moved { relative(&from.join(file), &to) } else { file.to_owned() })
}

/// The path from a folder to a file.
fn relative(file: &Path, folder: &Path) -> String {
    let (file, folder): (Vec<_>, Vec<_>) =
        (file.components().collect(), folder.components().collect());
    let common = file.iter().zip(&folder).take_while(|(a, b)| a == b).count();
    let up = folder[common..].iter().map(|_| "..".to_owned());
    let down = file[common..].iter().map(|part| part.as_os_str().to_string_lossy().into_owned());
    up.chain(down).collect::<Vec<_>>().join("/")
}

/// Fails unless the file is up to date.
fn up_to_date(path: &str, args: &ProgramArgs, text: &str) -> Result {
    let (what, how) = match args.files.first() {
        Some(file) => (
            format!("`{file}`"),
            format!("run `shardwise plan {file} -o {path}` with the same options"),
        ),
        None => ("the expression".to_owned(), "run the same command without `--check`".to_owned()),
    };
    match input::bytes(path) {
        Ok(bytes) if bytes == text.as_bytes() => Ok(()),
        Ok(_) => Err(Error::input(format!("`{path}` is not the plan of {what} any more; {how}"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(Error::input(format!("`{path}` is not there; {how}")))
        }
        Err(error) => Err(Error::unreadable(path, &error, "")),
    }
}

/// Writes the dependencies of the plan.
fn write_depfile(path: &str, target: &str, inputs: &IndexSet<String>) -> Result {
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    write_file(path, depfile(target, &inputs))
}
