//! Shared by `plan`, `cost` and `export`: plans the programs that their arguments name, one by one.

use shardwise::oneliner::{self, Setting};
use shardwise::{Options, Planned};

use super::inputs;
use crate::args::plan::{ExpressionArgs, ProgramArgs};
use crate::args::planning::{PlanningArgs, SizeArgs};
use crate::error::{Error, Result};
use crate::input::{Source, read};
use crate::interrupt::{on_ctrl_c, search_is_over};
use crate::options;
use crate::output::{Output, refuse_to_replace, write_file};
use crate::progress::with_gap;

/// Plans every program and shows its plan; a program that cannot be planned is reported and
/// skipped. Ctrl-C ends the searches with the best plans so far.
pub(super) fn for_each_plan(
    args: &ProgramArgs,
    output: &mut Output,
    mut show: impl FnMut(&Planned, &mut Output) -> Result,
) -> Result {
    let options = options(args)?;
    for source in sources(args, output)? {
        let options = Options { enough: on_ctrl_c()?, ..options.clone() };
        let planned =
            with_gap(&options, |options| shardwise::plan(&source.path, &source.text, options));
        search_is_over();
        match planned {
            Err(findings) => output.refusal(&findings)?,
            Ok(mut planned) => {
                planned.name = source.program();
                output.findings(&planned.warnings)?;
                show(&planned, output)?;
            }
        }
    }
    Ok(())
}

/// An error where several programs are given for one output file.
pub(super) fn one_for_output(args: &ProgramArgs) -> Result {
    if args.files.len() > 1 {
        return Err(Error::usage("-o takes one program; run the command once for each"));
    }
    Ok(())
}

/// An error where several programs are given, and `what` is printed is a file of one of them.
pub(super) fn one_to_print(args: &ProgramArgs, what: &str) -> Result {
    if args.files.len() > 1 {
        let text = "writes a file of one program: run the command once for each, with -o FILE";
        return Err(Error::usage(format!("{what} {text}")));
    }
    Ok(())
}

/// What is written of the plan of one program, in a file.
pub(super) fn write_one(
    args: &ProgramArgs,
    path: &str,
    output: &mut Output,
    written: impl Fn(&Planned) -> Result<String>,
) -> Result {
    one_for_output(args)?;
    let reads = inputs::of(&args.files, &args.planning.sizes.hardware_files);
    refuse_to_replace(reads, Some(path))?;
    let mut text = None;
    for_each_plan(args, output, |planned, _| {
        text = Some(written(planned)?);
        Ok(())
    })?;
    text.map_or(Ok(()), |text| write_file(path, &text))
}

/// The programs that the arguments name; a file that cannot be read is reported and skipped.
pub(super) fn sources(args: &ProgramArgs, output: &mut Output) -> Result<Vec<Source>> {
    if let Some(expression) = &args.one_liner.expression {
        return Ok(vec![one_liner(expression, &args.planning.sizes)]);
    }
    let mut sources = Vec::new();
    for path in &args.files {
        match read(path) {
            Ok(source) => sources.push(source),
            Err(error) => output.error(error)?,
        }
    }
    Ok(sources)
}

/// A program of one line, with the sizes that options give it.
pub(super) fn one_liner(expression: &str, sizes: &SizeArgs) -> Source {
    let dims = (!sizes.dims.is_empty()).then(|| sizes.dims.join(","));
    let setting = Setting { hardware: sizes.hardware.clone(), mesh: sizes.mesh.clone(), dims };
    Source { path: "expression".to_owned(), text: oneliner::program(expression, &setting) }
}

/// The options that are left beside the arguments: those of a program of one line are in its text.
pub(super) fn beside(one_liner: &ExpressionArgs, sizes: SizeArgs) -> SizeArgs {
    if one_liner.expression.is_some() { in_text(sizes) } else { sizes }
}

/// The options that are left for a program whose text has its sizes.
pub(super) fn in_text(sizes: SizeArgs) -> SizeArgs {
    SizeArgs { mesh: None, dims: Vec::new(), ..sizes }
}

/// The options of planning.
pub(super) fn options(args: &ProgramArgs) -> Result<Options> {
    let sizes = beside(&args.one_liner, args.planning.sizes.clone());
    let planning = PlanningArgs { sizes, ..args.planning.clone() };
    Ok(Options { explicit: args.explicit, ..options::planning(&planning)? })
}
