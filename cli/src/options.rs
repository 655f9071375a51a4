//! Translates the arguments of planning into options of the library.

use shardwise::build::from_disk;
use shardwise::files::MOST_BYTES;
use shardwise::{AxisParts, Grouping, Hardware, Options, setting};

use crate::args::planning::{HardwareFileArgs, PlanningArgs, RateArgs, SearchArgs, SizeArgs};
use crate::error::{Error, Result};
use crate::input::read_a;

/// The options of a command that plans programs.
pub(crate) fn planning(args: &PlanningArgs) -> Result<Options> {
    sized(priced(search(&args.search), &args.rates), &args.sizes)
}

/// The options with what times and tokens are priced at.
pub(crate) fn priced(options: Options, args: &RateArgs) -> Options {
    Options { rates: args.rates, price: args.price, ..options }
}

/// The options of the search.
pub(crate) fn search(args: &SearchArgs) -> Options {
    Options {
        strategy: args.strategy,
        objective: args.objective,
        refinement: args.cost,
        fusion: args.fusion,
        collectives: args.collectives,
        products: args.products,
        memory: args.memory,
        timeout: args.timeout,
        effort: args.effort,
        parts: if args.whole_axes { AxisParts::AsWritten } else { AxisParts::CalledFor },
        grouping: if args.keep_order { Grouping::AsWritten } else { Grouping::Cheapest },
        ..Options::default()
    }
}

/// The options with the sizes that are given, and the hardware that programs may name.
pub(crate) fn sized(options: Options, sizes: &SizeArgs) -> Result<Options> {
    let known = hardware(&sizes.hardware_files)?;
    let mesh = sizes.mesh.as_deref().map(setting::mesh).transpose();
    let mesh = mesh.map_err(|error| Error::usage(format!("--mesh: {error}")))?;
    let dims = Some(sizes.dims.join(",")).filter(|dims| !dims.is_empty());
    let dims = dims.as_deref().map(setting::dims).transpose();
    let dims = dims.map_err(|error| Error::usage(format!("--dim: {error}")))?;
    Ok(Options {
        mesh: mesh.unwrap_or_default(),
        dims: dims.unwrap_or_default(),
        hardware: sizes.hardware.clone(),
        known,
        files: from_disk(),
        ..options
    })
}

/// The chips that hardware files describe, in the order of the files.
pub(crate) fn hardware(files: &HardwareFileArgs) -> Result<Vec<Hardware>> {
    let mut all = Vec::new();
    for path in &files.paths {
        all.extend(chips(path)?);
    }
    if let Some(chip) = shardwise::hardware::clash(&all) {
        return Err(Error::usage(format!(
            "`{}` is described twice by hardware files, with different numbers; give one of them \
                another name",
            chip.name
        )));
    }
    Ok(all)
}

fn chips(path: &str) -> Result<Vec<Hardware>> {
    let is_too_large =
        std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() > MOST_BYTES);
    if is_too_large {
        return Err(Error::input(format!(
            "`{path}` is larger than 1 MiB; give a hardware file (`shardwise hardware --format \
                toml` prints one)"
        )));
    }
    let source = read_a("hardware file", path)?;
    Ok(shardwise::hardware::parse(&source.path, &source.text)?)
}
