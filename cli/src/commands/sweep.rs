//! `sweep`: plans every combination of shapes, sizes and chips, and prints or writes the rows.

use shardwise::build::from_disk;
use shardwise::oneliner;
use shardwise::sweep::{Grid, Refused, Source, Swept};
use shardwise::{Findings, Options, Report};

use super::inputs;
use crate::args::sweep::SweepArgs;
use crate::error::{Error, Result};
use crate::input::read;
use crate::options;
use crate::output::{Output, refuse_to_replace, write_file};
use crate::progress::with_bar;

pub(super) fn sweep(args: &SweepArgs, output: &mut Output) -> Result {
    refuse_to_replace(inputs::of(&args.files, &args.hardware_files), args.output.as_deref())?;
    let grid = Grid::parse(&args.mesh, &args.dims, &args.hardware).map_err(Error::usage)?;
    let expression = args.one_liner.expression.iter();
    let expression = expression.map(|expression| Ok(one_liner(expression, &grid)));
    let files = args.files.iter().map(|path| source(path));
    let sources = expression.chain(files).collect::<Result<Vec<_>>>()?;
    let known = options::hardware(&args.hardware_files)?;
    let options = Options { known, files: from_disk(), ..options::search(&args.search) };
    let options = options::priced(options, &args.rates);
    let unmeasured = unmeasured(&sources, &grid, &options);
    let swept = with_bar("read and planned", |progress| {
        shardwise::sweep::sweep(&sources, &grid, &options, progress)
    });
    let swept = swept.map_err(|refused| match refused {
        Refused::Program(findings) => findings.into(),
        Refused::Options(text) => Error::usage(text),
    })?;
    output.findings(&unmeasured)?;
    let refuse = if swept.has_plan() { Error::usage } else { Error::input };
    let text = (args.format.write)(&swept).map_err(refuse)?;
    match &args.output {
        Some(path) => write_file(path, &text)?,
        None => output.print(&text)?,
    }
    if swept.has_plan() { Ok(()) } else { Err(nothing_feasible(&swept)) }
}

/// As `plan` ends where there is no plan; the rows have the other reasons.
fn nothing_feasible(swept: &Swept) -> Error {
    let reason = swept.points.iter().find_map(|point| point.infeasible.as_deref());
    Error::input(format!(
        "no point of the grid can be planned; the first: {}",
        reason.unwrap_or("the grid is empty")
    ))
}

/// Chips of which nothing was measured though measured rates are asked for, each once.
fn unmeasured(sources: &[Source], grid: &Grid, options: &Options) -> Findings {
    let chips: Vec<Option<String>> = match &grid.hardware[..] {
        [] => vec![options.hardware.clone()],
        named => named.iter().cloned().map(Some).collect(),
    };
    let mut findings = Findings::default();
    for source in sources {
        for hardware in &chips {
            let options = Options { hardware: hardware.clone(), ..options.clone() };
            let of_chip = shardwise::unmeasured(&source.path, &source.text, &options).reports;
            for report in of_chip {
                let is_known = |known: &Report| known.diag.message == report.diag.message;
                if !findings.reports.iter().any(is_known) {
                    findings.reports.push(report);
                }
            }
        }
    }
    findings
}

fn source(path: &str) -> Result<Source> {
    let source = read(path)?;
    Ok(Source { name: source.program(), path: source.path, text: source.text })
}

/// A program of one line, which declares a point of the grid.
fn one_liner(expression: &str, grid: &Grid) -> Source {
    let name = "expression".to_owned();
    let text = oneliner::program(expression, &grid.first());
    Source { path: name.clone(), name, text }
}
