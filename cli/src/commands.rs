//! The commands: what the arguments mean, file by file.

use std::io::{self, Read};
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;
use shardwise::build::from_disk;
use shardwise::inference::{RequestedPhase, Sizing};
use shardwise::lint;
use shardwise::oneliner::{self, Setting};
use shardwise::{Options, Pass, Planned, codes, setting};

use crate::args::{Cli, CostArgs, Format, PlanArgs, SizeArgs};
use crate::hardware;
use crate::output::{Ending, Output};

/// A program's text and what to call it.
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    /// The program's name: its file's, without folder and ending.
    pub(crate) fn program(&self) -> String {
        let stem =
            Path::new(&self.path).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        stem.filter(|_| self.path != "-").unwrap_or_else(|| "program".to_owned())
    }
}

pub(crate) fn read(path: &str, output: &mut Output) -> io::Result<Option<Source>> {
    match read_text(path) {
        Ok(text) => Ok(Some(Source { path: path.to_owned(), text })),
        Err((complaint, ending)) => output.complain(&complaint, ending).map(|()| None),
    }
}

/// The text of a program, or why there is none.
pub(crate) fn read_text(path: &str) -> Result<String, (String, Ending)> {
    let mut bytes = Vec::new();
    let result = if path == "-" {
        io::stdin().lock().read_to_end(&mut bytes).map(|_| ())
    } else {
        std::fs::read(path).map(|read| bytes = read)
    };
    if let Err(error) = result {
        let hint = if error.kind() == io::ErrorKind::NotFound {
            "; give the path of a program, or - for standard input"
        } else {
            ""
        };
        return Err((format!("cannot read `{path}`: {error}{hint}"), Ending::WrongUsage));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        (
            format!("{}: `{path}` is not UTF-8 text (byte {at})", codes::syntax::NOT_TEXT),
            Ending::WrongInput,
        )
    })
}

fn sources(args: &PlanArgs, output: &mut Output) -> io::Result<Vec<Source>> {
    if let Some(expression) = &args.expression {
        let dims = (!args.sizes.dims.is_empty()).then(|| args.sizes.dims.join(","));
        let setting =
            Setting { hardware: args.hardware.clone(), mesh: args.sizes.mesh.clone(), dims };
        return Ok(vec![Source {
            path: "expression".to_owned(),
            text: oneliner::program(expression, &setting),
        }]);
    }
    let mut sources = Vec::new();
    for path in &args.files {
        sources.extend(read(path, output)?);
    }
    Ok(sources)
}

/// What the arguments mean; nothing, after a complaint, where they mean nothing.
fn options(args: &PlanArgs, output: &mut Output) -> io::Result<Option<Options>> {
    // The sizes of an expression are in its text.
    let known = args.sizes.hardware_file.clone();
    let sizes = if args.expression.is_some() {
        SizeArgs { hardware_file: known, ..SizeArgs::default() }
    } else {
        args.sizes.clone()
    };
    let options = Options {
        strategy: args.strategy,
        objective: args.objective,
        refinement: args.cost,
        memory: args.memory,
        timeout: args.timeout,
        hardware: args.hardware.clone(),
        explicit: args.explicit,
        ..Options::default()
    };
    resized(options, &sizes, output)
}

/// `options` with the sizes that were given; nothing, after a complaint, where they cannot be read.
pub(crate) fn resized(
    options: Options,
    sizes: &SizeArgs,
    output: &mut Output,
) -> io::Result<Option<Options>> {
    let Some(known) = hardware::known(&sizes.hardware_file, output)? else { return Ok(None) };
    let mesh = sizes
        .mesh
        .as_deref()
        .map_or(Ok(Vec::new()), setting::mesh)
        .map_err(|error| format!("--mesh: {error}"));
    let dims =
        if sizes.dims.is_empty() { Ok(Vec::new()) } else { setting::dims(&sizes.dims.join(",")) };
    match (mesh, dims.map_err(|error| format!("--dim: {error}"))) {
        (Ok(mesh), Ok(dims)) => {
            Ok(Some(Options { mesh, dims, known, files: from_disk(), ..options }))
        }
        (Err(error), _) | (_, Err(error)) => {
            output.complain(&error, Ending::WrongUsage).map(|()| None)
        }
    }
}

/// Plans every source; findings are shown in its own name, the path.
pub(crate) fn planned(
    args: &PlanArgs,
    output: &mut Output,
    mut show: impl FnMut(&Planned, &mut Output) -> io::Result<()>,
) -> io::Result<()> {
    let Some(options) = options(args, output)? else { return Ok(()) };
    for source in sources(args, output)? {
        match shardwise::plan(&source.path, &source.text, &options) {
            Err(findings) => output.findings(&findings)?,
            Ok(mut planned) => {
                planned.name = source.program();
                output.findings(&planned.warnings)?;
                show(&planned, output)?;
            }
        }
    }
    Ok(())
}

pub(crate) fn plan(args: &PlanArgs, output: &mut Output) -> io::Result<()> {
    match args.print_after {
        Some(pass) => print_after(args, pass, output),
        None => planned(args, output, |planned, output| output.out(&written(planned, args.format))),
    }
}

/// A plan in the format that was asked for.
pub(crate) fn written(planned: &Planned, format: Format) -> String {
    match format {
        Format::Text => planned.to_string(),
        Format::Dot => planned.dot(),
        Format::Trace => planned.trace(),
        Format::Json => planned.json().to_text() + "\n",
    }
}

fn print_after(args: &PlanArgs, pass: Pass, output: &mut Output) -> io::Result<()> {
    let Some(options) = options(args, output)? else { return Ok(()) };
    for source in sources(args, output)? {
        match shardwise::print_after(&source.path, &source.text, &options, pass) {
            Err(findings) => output.findings(&findings)?,
            Ok(program) => output.out(&program)?,
        }
    }
    Ok(())
}

pub(crate) fn cost(args: &CostArgs, output: &mut Output) -> io::Result<()> {
    let sizing = Sizing { phase: args.phase, batches: args.batches.clone() };
    planned(&args.plan, output, |planned, output| {
        let cost = planned.cost_sized(&sizing);
        if asks_for_sizing(args)
            && let Err(reason) = planned.inference(&sizing)
        {
            return output.complain(
                &format!("`{}` cannot be sized as asked: {reason}", planned.name),
                Ending::WrongInput,
            );
        }
        match args.plan.format {
            Format::Text => output.out(&planned.cost_table_sized(&sizing)),
            Format::Json => output.out(&cost.to_text()),
            Format::Dot | Format::Trace => {
                let message = "cost is no graph and no schedule; give --format text or json, or \
                    see `plan --format dot` and `plan --format trace`";
                output.complain(message, Ending::WrongUsage)
            }
        }
    })
}

fn asks_for_sizing(args: &CostArgs) -> bool {
    !args.batches.is_empty()
        || matches!(args.phase, RequestedPhase::Prefill | RequestedPhase::Decode)
}

pub(crate) fn format(files: &[String], check: bool, output: &mut Output) -> io::Result<()> {
    for path in files {
        let Some(source) = read(path, output)? else {
            continue;
        };
        match shardwise::format(&source.path, &source.text) {
            Err(findings) => output.findings(&findings)?,
            Ok(formatted) if check && formatted != source.text => {
                output.complain(
                    &format!("`{path}` is not formatted; run `shardwise fmt {path}`"),
                    Ending::WrongInput,
                )?;
            }
            Ok(_) if check => {}
            Ok(formatted) if path == "-" => output.out(&formatted)?,
            Ok(formatted) if formatted != source.text => write_whole(path, &formatted, output)?,
            Ok(_) => {}
        }
    }
    Ok(())
}

/// Writes beside the file and renames, so that nobody ever sees half of it.
pub(crate) fn write_whole(path: &str, text: &str, output: &mut Output) -> io::Result<()> {
    let beside = format!("{path}.shardwise-tmp");
    let written = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, path));
    if let Err(error) = written {
        // The temporary file may not exist; there is nothing more to do about it either way.
        let _ = std::fs::remove_file(&beside);
        output.complain(&format!("cannot write `{path}`: {error}"), Ending::WrongUsage)?;
    }
    Ok(())
}

pub(crate) fn docs(output: &mut Output) -> io::Result<()> {
    output.out(&lint::reference())
}

pub(crate) fn schema(output: &mut Output) -> io::Result<()> {
    output.out(&(shardwise::json::schema() + "\n"))
}

pub(crate) fn completions(shell: Shell, output: &mut Output) -> io::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "shardwise", &mut script);
    output.out(&String::from_utf8_lossy(&script))
}
