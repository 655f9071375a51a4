//! What a strategy keeps on a device for the whole program, and where: parameters and state.
//!
//! Two programs that run on the same devices in turn (the phases of serving) hold a value of one
//! name once where both place it alike: each device has the same elements of it. The meshes of both
//! may name and divide the devices differently, so that axes are compared by the devices along
//! them, which are numbered in the order of the mesh, the last axis innermost.
//!
//! The alternative, to list for each device which block it has, takes as many entries as devices
//! for each parameter.

use std::collections::BTreeSet;

use shardwise_ir::Role;
use shardwise_ir::dtype::DType;
use shardwise_ir::ids::{AxisId, ValueId};
use shardwise_ir::mesh::Mesh;
use shardwise_ir::plan::Plan;
use shardwise_ir::program::Program;
use shardwise_ir::sharding::Pin;
use shardwise_ir::stages::Stages;
use shardwise_passes::held;

/// A parameter or state on a device.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Resident {
    name: String,
    placement: Placement,
    bytes: f64,
}

/// Which elements each device has.
#[derive(Clone, Debug, PartialEq)]
struct Placement {
    dtype: DType,
    /// Its size along each dimension.
    sizes: Vec<u64>,
    /// For each dimension, the devices that split it, major to minor.
    splits: Vec<Vec<Devices>>,
    layers: u64,
    /// The stages of a pipeline, and which devices they are.
    stages: Option<(Vec<Devices>, Stages)>,
}

/// So many devices whose numbers are `stride` apart.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Devices {
    count: u64,
    stride: u64,
}

/// What the plan keeps on a device.
pub(super) fn of_plan(plan: &Plan) -> Vec<Resident> {
    let program = &plan.program;
    let kept = |value: ValueId| {
        let bytes = held::resident_bytes(program, value)?;
        let placement = placement(program, value)?;
        Some(Resident { name: program.values[value].name.clone(), placement, bytes })
    };
    program.values.indices().filter_map(kept).collect()
}

/// The names of the axes that split a state.
pub(super) fn split_states(program: &Program) -> BTreeSet<&str> {
    let states = program.values.iter().filter(|value| value.role == Some(Role::State));
    let pins = states.filter_map(|value| value.declared_sharding.as_ref().and_then(Pin::exact));
    pins.flat_map(|sharding| sharding.axes().collect::<Vec<_>>())
        .map(|of| program.mesh.axes[of.axis()].name.as_str())
        .collect()
}

/// Bytes of what is kept that `other` does not keep in the same place.
pub(super) fn bytes_beside(kept: &[Resident], other: &[Resident]) -> f64 {
    let is_shared =
        |of: &Resident| other.iter().any(|it| it.name == of.name && it.placement == of.placement);
    kept.iter().filter(|of| !is_shared(of)).map(|of| of.bytes).sum()
}

fn placement(program: &Program, id: ValueId) -> Option<Placement> {
    let value = &program.values[id];
    let sharding = value.declared_sharding.as_ref().and_then(Pin::exact)?;
    let split = |axes: &[AxisId]| devices(&program.mesh, axes);
    let axes_of = |dim: usize| sharding.dims[dim].iter().map(|of| of.axis()).collect::<Vec<_>>();
    Some(Placement {
        dtype: value.dtype,
        sizes: value.dims.iter().map(|&dim| program.dims[dim].size).collect(),
        splits: (0..value.dims.len()).map(|dim| split(&axes_of(dim))).collect(),
        layers: program.layer_count(value.repeat),
        stages: program
            .pipeline(value.repeat)
            .map(|pipeline| (split(&[pipeline.axis]), pipeline.stages.clone())),
    })
}

/// The devices along `axes`, major to minor; those that continue each other as one.
fn devices(mesh: &Mesh, axes: &[AxisId]) -> Vec<Devices> {
    let inside = |axis: AxisId| mesh.axes.iter().skip(axis.index() + 1).map(|of| of.size);
    let of_axis =
        |&axis: &AxisId| Devices { count: mesh.axes[axis].size, stride: inside(axis).product() };
    let all = axes.iter().map(of_axis);
    let mut joined: Vec<Devices> = Vec::new();
    for minor in all.filter(|of| of.count > 1) {
        match joined.last_mut() {
            Some(major) if major.stride == minor.count * minor.stride => {
                *major = Devices { count: major.count * minor.count, stride: minor.stride };
            }
            _ => joined.push(minor),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    fn kept(mesh: &str, w: &str) -> Vec<Resident> {
        let source = format!(
            "hardware h100\nmesh {mesh}\ndim B=64, D=64, F=64\ninput x[B, D]\nparam w[{w}]\n\
                output y[B, F] = x *D w\n"
        );
        let planned = crate::plan("kept", &source, &Options::default());
        of_plan(&planned.unwrap_or_else(|no| panic!("{:?}", no.reports)).plan)
    }

    #[test]
    fn equal_blocks_are_held_once_whatever_the_mesh() {
        let whole = kept("X=8", "D, F_X");
        let alike = kept("Y=4, Z=2", "D, F_YZ");
        assert!(bytes_beside(&whole, &alike) == 0.0 && bytes_beside(&alike, &whole) == 0.0);
        for other in [
            kept("Y=4, Z=2", "D, F_ZY"),
            kept("Y=4, Z=2", "D, F_Y"),
            kept("Y=4, Z=2", "D_Y, F_Z"),
            kept("Y=8", "D_Y, F"),
        ] {
            let bytes = 64.0 * 64.0 * 2.0 / 8.0;
            assert!((bytes_beside(&whole, &other) - bytes).abs() < 1e-9, "{other:?}");
        }
    }
}
