//! Samples of a run that is too large even at the smallest sizes: in each only some axes have more
//! than one device, and only some dimensions more than one element.
//!
//! Every axis and every dimension is in some sample, pairs of dimensions in many, so that swapped
//! dimensions and wrong groups of devices are found as in a whole run; what only shows where
//! several absent ones meet is not. Running all devices on a few elements would need an evaluator
//! of single elements for every operation, beside the one that everything else is checked with.

use std::collections::BTreeSet;

use shardwise_ir::ids::{AxisId, DimId};
use shardwise_ir::mesh::Mesh;
use shardwise_ir::plan::Plan;

use super::mesh::MOST_DEVICES;

/// How many samples there are at least.
const FEWEST: usize = 8;

/// Axes up to this size keep it; others have two devices where that divides them.
const LARGEST_AXIS: u64 = 4;

/// What a sample runs of a plan.
pub(super) struct Sample {
    pub(super) mesh: Mesh,
    /// The dimensions that have one element, if relations of sizes allow that.
    pub(super) single: BTreeSet<DimId>,
}

/// Samples in which one of `share` dimensions has more than one element.
pub(super) fn samples(plan: &Plan, share: usize) -> Vec<Sample> {
    let dims = plan.program.dims.len();
    let count = FEWEST.max(plan.program.mesh.axes.len()).max(share);
    let sample = |number: usize| {
        let is_in = |dim: usize| dim % count == number || hash(dim, number).is_multiple_of(share);
        let single = (0..dims).filter(|&dim| !is_in(dim)).map(DimId::from).collect();
        Sample { mesh: part(&plan.program.mesh, number), single }
    };
    (0..count).map(sample).collect()
}

/// A mesh with the axis of a number, and those after it as far as they fit; the others have one
/// device.
fn part(mesh: &Mesh, number: usize) -> Mesh {
    let axes = mesh.axes.len();
    let mut part = mesh.clone();
    let mut devices = 1;
    for offset in 0..axes {
        let axis = &mut part.axes[AxisId::from((number + offset) % axes)];
        let size = match axis.size {
            small if small <= LARGEST_AXIS => small,
            even if even.is_multiple_of(2) => 2,
            odd => odd,
        };
        axis.size = if devices == 1 || devices * size <= MOST_DEVICES / 4 { size } else { 1 };
        devices *= axis.size;
    }
    part
}

/// A number that looks random, the same on every machine.
fn hash(a: usize, b: usize) -> usize {
    let mixed = (a as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ (b as u64 + 1).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    (mixed.wrapping_mul(0xff51_afd7_ed55_8ccd) >> 33) as usize
}
