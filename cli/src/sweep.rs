//! `sweep`: the points planned with a bar on a terminal, the rows written where they are asked for.

use std::io;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use shardwise::Options;
use shardwise::build::from_disk;
use shardwise::sweep::{Grid, Refused, Source, Swept};

use crate::args::{SweepArgs, SweepFormat};
use crate::commands::{read, write_whole};
use crate::hardware;
use crate::output::{Ending, Output};

pub(crate) fn sweep(args: &SweepArgs, output: &mut Output) -> io::Result<()> {
    let grid = match Grid::parse(&args.mesh, &args.dims, &args.hardware) {
        Ok(grid) => grid,
        Err(error) => return output.complain(&error, Ending::WrongUsage),
    };
    let mut sources = Vec::new();
    for path in &args.files {
        let Some(source) = read(path, output)? else { return Ok(()) };
        sources.push(Source { name: source.program(), path: source.path, text: source.text });
    }
    let Some(known) = hardware::known(&args.hardware_file, output)? else { return Ok(()) };
    let options = Options { known, files: from_disk(), ..options(args) };
    match watched(&sources, &grid, &options) {
        Ok(swept) => write(args, &swept, output),
        Err(Refused::Program(findings)) => output.findings(&findings),
        Err(Refused::Options(error)) => output.complain(&error, Ending::WrongUsage),
    }
}

fn options(args: &SweepArgs) -> Options {
    Options {
        strategy: args.strategy,
        objective: args.objective,
        refinement: args.cost,
        memory: args.memory,
        timeout: args.timeout,
        ..Options::default()
    }
}

/// Sweeps with a bar on stderr, which indicatif hides where that is no terminal.
fn watched(sources: &[Source], grid: &Grid, options: &Options) -> Result<Swept, Refused> {
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} plans, {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style);
    let progress = |done: usize, all: usize| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    };
    let swept = shardwise::sweep::sweep(sources, grid, options, &progress);
    bar.finish_and_clear();
    swept
}

fn write(args: &SweepArgs, swept: &Swept, output: &mut Output) -> io::Result<()> {
    let text = match args.format {
        SweepFormat::Text => swept.table(),
        SweepFormat::Csv => swept.csv(),
        SweepFormat::Json => swept.json(),
        SweepFormat::Svg => match swept.svg() {
            Ok(svg) => svg,
            Err(error) => return output.complain(&error, Ending::WrongUsage),
        },
    };
    match &args.output {
        Some(path) => write_whole(path, &text, output),
        None => output.out(&text),
    }
}
