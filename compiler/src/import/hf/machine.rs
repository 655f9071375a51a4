//! The machine and the sizes of a step, where nobody has given them.

use super::architecture::Architecture;
use super::{Setting, Step};
use crate::hardware::nearest;
use crate::{Hardware, setting};

/// What a step runs on, and its sizes.
pub(super) struct Machine {
    pub(super) hardware: String,
    /// As after `mesh`.
    pub(super) mesh: String,
    pub(super) batch: u64,
    pub(super) sequence: u64,
}

/// Bytes of a parameter in training: itself and its gradient in bf16, two moments in f32, and as
/// much as a third of these for values.
const TRAINED_BYTES: u64 = 16;
/// Bytes of a parameter that is read.
const SERVED_BYTES: u64 = 2;
/// Devices of a node, or of the shorter axis of a slice.
const NODE: u64 = 8;
/// No mesh of more devices is written by itself.
const MOST_DEVICES: u64 = 1 << 24;

impl Machine {
    pub(super) fn of(architecture: &Architecture, given: &Setting) -> Result<Self, String> {
        let name = given.hardware.as_deref().unwrap_or("h100");
        let chip = given.known.iter().find(|chip| chip.name == name).cloned();
        let chip =
            chip.or_else(|| Hardware::preset(name)).ok_or_else(|| unknown(name, &given.known))?;
        let (mesh, devices) = match &given.mesh {
            Some(mesh) => (mesh.replace(',', ", "), devices_of(mesh)?),
            None => smallest_mesh(architecture, &chip, given.step)?,
        };
        let several = match given.step {
            Step::Train => 4,
            Step::Prefill => 1,
            Step::Decode => 8,
        };
        let usual = if given.step == Step::Train { 4096 } else { 8192 };
        Ok(Self {
            hardware: name.to_owned(),
            mesh,
            batch: given.batch.unwrap_or(devices.saturating_mul(several)),
            sequence: given.sequence.unwrap_or(usual.min(architecture.longest.unwrap_or(usual))),
        })
    }
}

/// How many devices a mesh has that was typed.
fn devices_of(mesh: &str) -> Result<u64, String> {
    let axes = setting::mesh(mesh).map_err(|error| format!("--mesh: {error}"))?;
    let devices = axes.iter().try_fold(1_u64, |devices, axis| devices.checked_mul(axis.size));
    devices.ok_or_else(|| format!("--mesh: {mesh} has more devices than can be counted"))
}

/// The smallest power of two of devices whose memory is twice what the parameters take.
fn smallest_mesh(
    architecture: &Architecture,
    chip: &Hardware,
    step: Step,
) -> Result<(String, u64), String> {
    let bytes = if step == Step::Train { TRAINED_BYTES } else { SERVED_BYTES };
    let weights = architecture.weights();
    let memory = chip.hbm_bytes.unwrap_or(80e9) / 2.0;
    let devices = (weights * bytes as f64 / memory).ceil();
    if devices > MOST_DEVICES as f64 {
        return Err(format!(
            "the model has {weights:.1e} parameters, which would need {devices:.1e} devices; check \
                its sizes, or give a mesh with --mesh"
        ));
    }
    let devices = (devices as u64).max(NODE).next_power_of_two();
    if devices == NODE {
        return Ok((format!("X={NODE}"), devices));
    }
    let network =
        if chip.nvlink_domain().is_some_and(|domain| domain < devices) { " dcn" } else { "" };
    Ok((format!("X={}{network}, Y={NODE}", devices / NODE), devices))
}

/// A chip that nothing describes, with the one that is meant.
fn unknown(name: &str, described: &[Hardware]) -> String {
    let presets = Hardware::preset_names().filter_map(Hardware::preset);
    let known: Vec<Hardware> = described.iter().cloned().chain(presets).collect();
    let near = nearest(name, &known);
    let near = near.map_or(String::new(), |near| format!("did you mean `{near}`? "));
    format!(
        "--hardware: there is no hardware `{name}`; {near}`shardwise hardware` lists those known"
    )
}
