//! The files that a command reads: its programs, the hardware files that these name, and those of
//! options.

use std::path::Path;

use indexmap::IndexSet;
use shardwise::hardware::named_file;

use crate::args::planning::HardwareFileArgs;
use crate::input;

/// The files that a command reads, each once.
pub(super) fn of<S: AsRef<str>>(
    programs: impl IntoIterator<Item = S>,
    hardware: &HardwareFileArgs,
) -> IndexSet<String> {
    let programs = programs.into_iter().map(|program| program.as_ref().to_owned());
    let with_hardware =
        programs.flat_map(|program| std::iter::once(program.clone()).chain(named_by(&program)));
    with_hardware.chain(hardware.paths.iter().cloned()).filter(|path| path != "-").collect()
}

/// The hardware files that a program names. A pipe is read once only, and not here.
fn named_by(program: &str) -> Vec<String> {
    if !Path::new(program).is_file() {
        return Vec::new();
    }
    let text = input::bytes(program).unwrap_or_default();
    let text = String::from_utf8(text).unwrap_or_default();
    named_file::named(program, &text)
        .iter()
        .map(|path| path.to_string_lossy().replace('\\', "/"))
        .collect()
}
