//! Slices that are larger than their pod, or than the node whose switch is written.
//!
//! Links inside a slice are faster than those between slices, so that a mesh with more devices
//! than one pod has would be priced at a speed that no machine has. How a pod is cut into slices is
//! not checked: its shape is a convention of the cloud that sells it, its number of chips is not.

use crate::codes::mesh as codes;

use super::Resolver;
use crate::hardware::{Hardware, Wraparound};
use crate::mesh::{Axis, AxisKind, Mesh};
use crate::{Diag, counted};

impl Resolver<'_> {
    /// Reports a mesh with more devices on the links of one pod than the pod has.
    pub(super) fn outgrown_pod(&mut self, hardware: &Hardware) {
        let chips = hardware.pod.iter().fold(1_u64, |chips, &edge| chips.saturating_mul(edge));
        let used = devices_inside(&self.mesh);
        if hardware.pod.is_empty() || used <= chips {
            return;
        }
        let (pod, between) = match hardware.wraparound {
            Wraparound::Switched => ("node", "ib"),
            Wraparound::Cube4 | Wraparound::Full16 | Wraparound::WholePod => ("pod", "dcn"),
        };
        let has = counted(chips, "chip");
        let message =
            format!("a {pod} of `{}` has {has}, and this mesh has {used} in one", hardware.name);
        let span = self.mesh_span.unwrap_or_default();
        let diag = Diag::error(codes::OUTGROWN_POD, message, span, "this mesh");
        let mesh = split(&self.mesh, used.div_ceil(chips), between);
        self.error(diag.help(mesh.map_or_else(
            || format!("declare an axis between {pod}s, such as `P=2 {between}`, or fewer devices"),
            |mesh| format!("declare the {pod}s as an axis of their own: `{mesh}`"),
        )));
    }
}

/// The devices that are joined by the links of one pod or node.
fn devices_inside(mesh: &Mesh) -> u64 {
    let parts = mesh.axes.iter().flat_map(|axis| &axis.physical);
    let inside = parts.filter(|part| part.kind != AxisKind::Dcn);
    inside.fold(1, |devices, part| devices.saturating_mul(part.size))
}

/// Numbers of pods that are tried for an axis.
const MOST_TRIED: usize = 10_000;

/// A mesh in which an axis leaves so many pods to a new one; `None` where no axis divides.
fn split(mesh: &Mesh, least: u64, between: &str) -> Option<String> {
    let is_inside = |axis: &&Axis| !axis.runs_over(AxisKind::Dcn);
    let counts = mesh.declared().map(|(axis, _)| axis).filter(is_inside).filter_map(|axis| {
        let mut pods = (least..=axis.size.min(least.saturating_mul(64))).take(MOST_TRIED);
        let pods = pods.find(|&pods| axis.size.is_multiple_of(pods))?;
        Some((pods, axis))
    });
    let (pods, shrunk) = counts.min_by_key(|(pods, _)| *pods)?;
    let free = ["P", "Pods", "Slices"].into_iter().find(|&name| mesh.named(name).is_none())?;
    let written = |axis: &Axis| {
        let size = if axis.name == shrunk.name { axis.size / pods } else { axis.size };
        let kind = axis.written_kind.map_or(String::new(), |kind| format!(" {}", kind.name()));
        format!("{}={size}{kind}", axis.name)
    };
    let others: Vec<String> = mesh.declared().map(|(axis, _)| written(axis)).collect();
    Some(format!("mesh {free}={pods} {between}, {}", others.join(", ")))
}
