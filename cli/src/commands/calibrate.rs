//! `calibrate`: fits the rates of a chip to measurements, and writes them as a hardware file.

use shardwise::Hardware;
use shardwise::calibrate::{Calibration, calibrate as fit};

use super::hardware::known;
use super::inputs;
use crate::args::CalibrateArgs;
use crate::error::{Error, Result};
use crate::input::{Source, read_a};
use crate::output::{Output, refuse_to_replace, write_file};

pub(super) fn calibrate(args: &CalibrateArgs, output: &mut Output) -> Result {
    refuse_to_replace(inputs::of(&args.measurements, &args.files), args.output.as_deref())?;
    let base = chip(args)?;
    let name = args.name.clone().unwrap_or_else(|| format!("measured-{}", base.name));
    check_name(&name)?;
    let sources = args.measurements.iter().map(|path| read_a("file of measurements", path));
    let sources = sources.collect::<Result<Vec<_>>>()?;
    let texts: Vec<(&str, &str)> =
        sources.iter().map(|Source { path, text }| (path.as_str(), text.as_str())).collect();
    let fitted = fit(&texts, &base, &name)?;
    write(&fitted, args.output.as_deref(), output)
}

/// The chip that was measured.
fn chip(args: &CalibrateArgs) -> Result<Hardware> {
    let chips = known(&args.files, std::slice::from_ref(&args.hardware))?;
    let chip = chips.into_iter().find(|chip| chip.name == args.hardware);
    chip.ok_or_else(|| Error::usage(format!("`{}` is not known hardware", args.hardware)))
}

/// A name that programs can write and no preset has.
fn check_name(name: &str) -> Result {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || !name.chars().all(fits) {
        return Err(Error::usage(format!(
            "--name: `{name}` is no name of hardware; write letters, digits, `-`, `_` and `.`"
        )));
    }
    if Hardware::preset(name).is_some() {
        return Err(Error::usage(format!(
            "--name: `{name}` is a preset; give another one, such as `my-{name}`"
        )));
    }
    Ok(())
}

fn write(fitted: &Calibration, path: Option<&str>, output: &mut Output) -> Result {
    let Some(path) = path else {
        output.print(&fitted.hardware_file())?;
        return output.remark(fitted.to_string().trim_end());
    };
    write_file(path, fitted.hardware_file())?;
    output.print(&fitted.to_string())
}
