//! `sweep`: plans every combination of shapes, sizes and chips, and prints or writes the rows.

use shardwise::Options;
use shardwise::build::from_disk;
use shardwise::oneliner;
use shardwise::sweep::{Grid, Refused, Source};

use crate::args::sweep::SweepArgs;
use crate::error::{Error, Result};
use crate::input::read;
use crate::options;
use crate::output::{Output, write_file};
use crate::progress::with_bar;

pub(super) fn sweep(args: &SweepArgs, output: &mut Output) -> Result {
    let grid = Grid::parse(&args.mesh, &args.dims, &args.hardware).map_err(Error::usage)?;
    let expression = args.one_liner.expression.iter();
    let expression = expression.map(|expression| Ok(one_liner(expression, &grid)));
    let files = args.files.iter().map(|path| source(path));
    let sources = expression.chain(files).collect::<Result<Vec<_>>>()?;
    let known = options::hardware(&args.hardware_files)?;
    let options = Options { known, files: from_disk(), ..options::search(&args.search) };
    let options = options::priced(options, &args.rates);
    let swept = with_bar("read and planned", |progress| {
        shardwise::sweep::sweep(&sources, &grid, &options, progress)
    });
    let swept = swept.map_err(|refused| match refused {
        Refused::Program(findings) => findings.into(),
        Refused::Options(text) => Error::usage(text),
    })?;
    let text = (args.format.write)(&swept).map_err(Error::usage)?;
    match &args.output {
        Some(path) => write_file(path, &text),
        None => output.print(&text),
    }
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
