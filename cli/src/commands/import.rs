//! `import`: writes programs from models of other tools.

mod python;

use shardwise::codes::tool::NOT_IMPORTED;
use shardwise::import::hf::{self, Setting};

use super::inputs;
use crate::args::import::{HfArgs, ImportSource};
use crate::error::{Error, Result};
use crate::input::read_a;
use crate::options;
use crate::output::{Output, refuse_to_replace, write_file};

pub(super) fn import(source: &ImportSource, output: &mut Output) -> Result {
    match source {
        ImportSource::Hf(args) => from_hf(args, output),
        ImportSource::Jax(args) => python::from_jax(args, output),
        ImportSource::Torch(args) => python::from_torch(args, output),
    }
}

fn from_hf(args: &HfArgs, output: &mut Output) -> Result {
    refuse_to_replace(inputs::of([&args.config], &args.hardware_files), args.output.as_deref())?;
    let setting = Setting {
        step: args.step,
        batch: args.batch,
        sequence: args.sequence,
        mesh: args.mesh.clone(),
        hardware: Some(args.hardware.clone()),
        known: options::hardware(&args.hardware_files)?,
    };
    let program = program(&args.config, &setting, output)?;
    write(&program, &[], args.output.as_deref(), output)
}

/// The program of a configuration; its warnings are written to standard error.
pub(super) fn program(config: &str, setting: &Setting, output: &mut Output) -> Result<String> {
    let text = read_a("`config.json`", config)?.text;
    let imported = hf::program(&text, setting)
        .map_err(|error| Error::input(format!("{NOT_IMPORTED}: `{config}`: {error}")))?;
    warn(&imported.warnings, output)?;
    Ok(imported.program)
}

fn warn(warnings: &[String], output: &mut Output) -> Result {
    for warning in warnings {
        output.remark(&format!("warning: {warning}"))?;
    }
    Ok(())
}

/// Writes a program to a file or standard output, and its warnings to standard error.
fn write(program: &str, warnings: &[String], path: Option<&str>, output: &mut Output) -> Result {
    warn(warnings, output)?;
    match path {
        Some(path) => write_file(path, program),
        None => output.print(program),
    }
}
