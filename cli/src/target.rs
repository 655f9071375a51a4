//! `plan -o`: a plan as a build tool's target. The file is written whole or not at all, and only
//! when every program could be planned; what it depends on is written beside it for make and ninja.

use std::io;
use std::path::Path;

use shardwise::build::{depfile, write_if_changed};
use shardwise::{Plan, Planned};

use crate::args::{PlanArgs, PlanCommand, TargetArgs};
use crate::commands::{self, planned, write_whole, written};
use crate::hardware::named_by as hardware_of;
use crate::output::{Ending, Output};

pub(crate) fn plan(args: &PlanCommand, output: &mut Output) -> io::Result<()> {
    let PlanCommand { plan, target, .. } = args;
    let Some(path) = &target.output else { return commands::plan(plan, output) };
    if plan.files.len() > 1 {
        return output
            .complain("-o is for one program; run the command once for each", Ending::WrongUsage);
    }
    let mut text = String::new();
    planned(plan, output, |planned, _| {
        text = written(&beside(planned, plan, path)?, plan.format);
        Ok(())
    })?;
    if output.ending() != Ending::Done {
        return Ok(());
    }
    if target.check {
        up_to_date(path, plan, &text, output)
    } else {
        deliver(path, plan, target, &text, output)
    }
}

/// The plan as it reads beside `output`: the hardware file that it names is where it was, and paths
/// count from the folder that a program is in.
fn beside(planned: &Planned, args: &PlanArgs, output: &str) -> io::Result<Planned> {
    let mut planned = planned.clone();
    let folder = |of: &str| {
        std::path::absolute(of).map(|path| path.parent().map(Path::to_path_buf).unwrap_or_default())
    };
    if let (Some(program), Some(file)) = (args.files.first(), &planned.plan.program.hardware.file) {
        let (from, to) = (folder(program)?, folder(output)?);
        if from != to && Path::new(file).is_relative() {
            let file = relative(&from.join(file), &to);
            let mut plan = Plan::clone(&planned.plan);
            plan.program.hardware.file = Some(file);
            planned.plan = plan.into();
        }
    }
    Ok(planned)
}

/// The way from a folder to a file.
fn relative(file: &Path, folder: &Path) -> String {
    let (file, folder): (Vec<_>, Vec<_>) =
        (file.components().collect(), folder.components().collect());
    let common = file.iter().zip(&folder).take_while(|(a, b)| a == b).count();
    let up = folder[common..].iter().map(|_| "..".to_owned());
    let down = file[common..].iter().map(|part| part.as_os_str().to_string_lossy().into_owned());
    up.chain(down).collect::<Vec<_>>().join("/")
}

/// Whether the file is what would be written.
fn up_to_date(path: &str, plan: &PlanArgs, text: &str, output: &mut Output) -> io::Result<()> {
    match std::fs::read(path) {
        Ok(bytes) if bytes == text.as_bytes() => Ok(()),
        Ok(_) => output.complain(
            &format!("`{path}` is not the plan of {} any more; {}", from(plan), again(plan, path)),
            Ending::WrongInput,
        ),
        Err(error) if error.kind() == io::ErrorKind::NotFound => output
            .complain(&format!("`{path}` is not there; {}", again(plan, path)), Ending::WrongInput),
        Err(error) => {
            output.complain(&format!("cannot read `{path}`: {error}"), Ending::WrongUsage)
        }
    }
}

fn from(plan: &PlanArgs) -> String {
    plan.files.first().map_or_else(|| "the expression".to_owned(), |file| format!("`{file}`"))
}

fn again(plan: &PlanArgs, path: &str) -> String {
    match plan.files.first() {
        Some(file) => format!("run `shardwise plan {file} -o {path}` with the same options"),
        None => "run the same command without `--check`".to_owned(),
    }
}

/// Everything that the plan is made from: the program, the hardware files that it names, and those
/// of options.
fn inputs(plan: &PlanArgs) -> Vec<String> {
    let programs = plan.files.iter().filter(|file| *file != "-");
    let with_hardware =
        programs.flat_map(|file| std::iter::once(file.clone()).chain(hardware_of(file)));
    let all =
        with_hardware.chain(plan.sizes.hardware_file.iter().filter(|file| *file != "-").cloned());
    let mut inputs: Vec<String> = Vec::new();
    for input in all {
        if !inputs.contains(&input) {
            inputs.push(input);
        }
    }
    inputs
}

/// Writes what the output is made from, then the output: an output without its dependencies would
/// never be made again.
fn deliver(
    path: &str,
    plan: &PlanArgs,
    target: &TargetArgs,
    text: &str,
    output: &mut Output,
) -> io::Result<()> {
    if let Some(beside) = &target.depfile {
        let inputs = inputs(plan);
        write_whole(
            beside,
            &depfile(path, &inputs.iter().map(String::as_str).collect::<Vec<_>>()),
            output,
        )?;
    }
    if !target.if_changed {
        return write_whole(path, text, output);
    }
    match write_if_changed(Path::new(path), text) {
        Ok(_) => Ok(()),
        Err(error) => {
            output.complain(&format!("cannot write `{path}`: {error}"), Ending::WrongUsage)
        }
    }
}
