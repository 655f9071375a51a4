//! `fmt`: writes programs in their canonical layout, in place.

use crate::args::FmtArgs;
use crate::error::{Error, Result};

use crate::input::read;
use crate::output::{Output, write_file};

pub(super) fn fmt(args: &FmtArgs, output: &mut Output) -> Result {
    for path in &args.files {
        if let Err(error) = one_file(path, args.check, output) {
            output.error(error)?;
        }
    }
    Ok(())
}

fn one_file(path: &str, check: bool, output: &mut Output) -> Result {
    let source = read(path)?;
    let formatted = shardwise::format(&source.path, &source.text)?;
    if check && formatted != source.text {
        let text = format!("`{path}` is not formatted; run `shardwise fmt {path}`");
        Err(Error::input(text))
    } else if !check && path == "-" {
        output.print(&formatted)
    } else if !check && formatted != source.text {
        write_file(path, &formatted)
    } else {
        Ok(())
    }
}
