//! `hardware`: prints the chips that programs can name, as a table or as a hardware file.

use shardwise::{Hardware, units};

use crate::args::planning::HardwareFileArgs;
use crate::args::{HardwareArgs, HardwareFormat};
use crate::error::{Error, Result};
use crate::options;
use crate::output::Output;

pub(super) fn hardware(args: &HardwareArgs, output: &mut Output) -> Result {
    let mut chips = known(&args.files, &args.names)?;
    chips.retain(|chip| args.names.is_empty() || args.names.contains(&chip.name));
    output.print(&match args.format {
        HardwareFormat::Table => table(&chips),
        HardwareFormat::Toml => {
            chips.iter().map(shardwise::hardware::toml).collect::<Vec<_>>().join("\n")
        }
    })
}

/// The presets and the chips of hardware files; an error if one of `names` is not among them.
pub(super) fn known(files: &HardwareFileArgs, names: &[String]) -> Result<Vec<Hardware>> {
    let mut chips = options::hardware(files)?;
    chips.extend(Hardware::preset_names().filter_map(Hardware::preset));
    let is_known = |name: &&String| chips.iter().any(|chip| chip.name == **name);
    if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
        let known: Vec<&str> = chips.iter().map(|chip| chip.name.as_str()).collect();
        let near = shardwise::hardware::nearest(unknown, &chips);
        let near = near.map_or(String::new(), |near| format!("did you mean `{near}`? "));
        return Err(Error::usage(format!(
            "`{unknown}` is not known hardware; {near}there are {}",
            known.join(", ")
        )));
    }
    Ok(chips)
}

fn table(chips: &[Hardware]) -> String {
    let mut text = format!(
        "{:<12}{:>11}{:>13}{:>12}{:>11}{:>10}{:>12}{:>12}{:>12}\n",
        "name",
        "f32 FLOP/s",
        "bf16 FLOP/s",
        "fp8 FLOP/s",
        "int8 OP/s",
        "HBM",
        "HBM/s",
        "link/s",
        "network/s"
    );
    for hardware in chips {
        let rate = |value: Option<f64>| {
            value.map_or_else(|| "-".to_owned(), |value| units::flops(value).replace("FLOP", ""))
        };
        let size = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), units::bytes);
        text.push_str(&format!(
            "{:<12}{:>11}{:>13}{:>12}{:>11}{:>10}{:>12}{:>12}{:>12}\n",
            hardware.name,
            rate(hardware.f32_flops),
            rate(hardware.bf16_flops),
            rate(hardware.fp8_flops),
            rate(hardware.int8_flops),
            size(hardware.hbm_bytes),
            size(hardware.hbm_bandwidth),
            size(hardware.link_bandwidth),
            size(hardware.dcn_bandwidth),
        ));
    }
    text + "\nlink: one way along one axis (TPU) or out of a chip (GPU); network: a chip's share, \
        one way; f32: TF32 on GPUs that have it\n"
}
