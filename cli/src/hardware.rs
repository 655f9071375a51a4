//! `hardware`: the chips that programs can name, as a table or as the file that describes them; and
//! the files that describe more.

use std::io;

use shardwise::files::MOST_BYTES;
use shardwise::{Hardware, units};

use crate::args::HardwareFormat;
use crate::commands::{Source, read};
use crate::output::{Ending, Output};

/// What hardware files describe, in the order of the files; nothing, after a complaint, where one
/// cannot be read.
pub(crate) fn known(files: &[String], output: &mut Output) -> io::Result<Option<Vec<Hardware>>> {
    let mut all = Vec::new();
    for path in files {
        let Some(source) = small(path, output)? else { return Ok(None) };
        match shardwise::hardware::parse(&source.path, &source.text) {
            Ok(chips) => all.extend(chips),
            Err(findings) => return output.findings(&findings).map(|()| None),
        }
    }
    if let Some(chip) = shardwise::hardware::clash(&all) {
        let sentence = format!(
            "`{}` is described twice by hardware files, with other numbers; give one of them \
                another name",
            chip.name
        );
        return output.complain(&sentence, Ending::WrongUsage).map(|()| None);
    }
    Ok(Some(all))
}

/// The hardware files that a program names, if it can be read.
pub(crate) fn named_by(program: &str) -> Vec<String> {
    let text = std::fs::read_to_string(program).unwrap_or_default();
    shardwise::hardware::named_file::named(program, &text)
        .iter()
        .map(|path| path.to_string_lossy().replace('\\', "/"))
        .collect()
}

/// The text of a hardware file, which is not read further than such files are long.
fn small(path: &str, output: &mut Output) -> io::Result<Option<Source>> {
    let is_too_large =
        std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() > MOST_BYTES);
    if is_too_large {
        let sentence = format!("`{path}` is larger than 1 MiB, which no hardware file is");
        return output.complain(&sentence, Ending::WrongInput).map(|()| None);
    }
    read(path, output)
}

pub(crate) fn hardware(
    names: &[String],
    format: HardwareFormat,
    files: &[String],
    output: &mut Output,
) -> io::Result<()> {
    let Some(mut chips) = known(files, output)? else { return Ok(()) };
    chips.extend(Hardware::preset_names().filter_map(Hardware::preset));
    if let Some(unknown) = names.iter().find(|name| !chips.iter().any(|chip| chip.name == **name)) {
        let known: Vec<&str> = chips.iter().map(|chip| chip.name.as_str()).collect();
        return output.complain(
            &format!("`{unknown}` is not known hardware; there are {}", known.join(", ")),
            Ending::WrongUsage,
        );
    }
    chips.retain(|chip| names.is_empty() || names.contains(&chip.name));
    match format {
        HardwareFormat::Table => output.out(&table(&chips)),
        HardwareFormat::Toml => {
            output.out(&chips.iter().map(shardwise::hardware::toml).collect::<Vec<_>>().join("\n"))
        }
    }
}

fn table(chips: &[Hardware]) -> String {
    let mut text = format!(
        "{:<12}{:>12}{:>12}{:>10}{:>12}{:>12}{:>12}\n",
        "name", "bf16 FLOP/s", "int8 OP/s", "HBM", "HBM/s", "link/s", "network/s"
    );
    for hardware in chips {
        let rate = |value: Option<f64>| {
            value.map_or_else(|| "-".to_owned(), |value| units::flops(value).replace("FLOP", ""))
        };
        let size = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), units::bytes);
        text.push_str(&format!(
            "{:<12}{:>12}{:>12}{:>10}{:>12}{:>12}{:>12}\n",
            hardware.name,
            rate(hardware.bf16_flops),
            rate(hardware.int8_flops),
            size(hardware.hbm_bytes),
            size(hardware.hbm_bandwidth),
            size(hardware.link_bandwidth),
            size(hardware.dcn_bandwidth),
        ));
    }
    text + "\nlink: one way along one axis (TPU) or out of a chip (GPU); network: a chip's share, \
        one way\n"
}
