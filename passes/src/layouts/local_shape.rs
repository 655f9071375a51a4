//! Sizes of dimensions and values on one device under a sharding.

use shardwise_ir::ids::{DimId, RepeatId, ValueId};
use shardwise_ir::mesh::Mesh;
use shardwise_ir::program::{Program, Value};
use shardwise_ir::rearrange::{Halo, Roll, Windows};
use shardwise_ir::sharding::{AxisRef, Sharding};

/// The number of parts into which `axes` split a dimension.
pub fn parts(mesh: &Mesh, axes: &[AxisRef]) -> u64 {
    axes.iter().fold(1, |n, axis| n.saturating_mul(axis.size(mesh)))
}

/// A dimension's size on one device, for the statements of `block`; a padded dimension rounds up.
pub fn local_size(program: &Program, block: Option<RepeatId>, dim: DimId, axes: &[AxisRef]) -> u64 {
    program.size_in(block, dim).div_ceil(parts(&program.mesh, axes))
}

/// Whether `axes` may split `dim` for the statements of `block`: they divide it, or it may be
/// padded.
pub fn divides(program: &Program, block: Option<RepeatId>, dim: DimId, axes: &[AxisRef]) -> bool {
    program.dims[dim].pad || program.size_in(block, dim).is_multiple_of(parts(&program.mesh, axes))
}

/// Elements of `value` on a device; for a value of a pipeline, those of a microbatch.
pub fn local_elements(program: &Program, value: ValueId, sharding: &Sharding) -> f64 {
    elements_in(program, program.values[value].repeat, value, sharding)
}

/// Bytes of `value` on a device; for a value of a pipeline, those of a microbatch.
pub fn local_bytes(program: &Program, value: ValueId, sharding: &Sharding) -> f64 {
    bytes_in(program, program.values[value].repeat, value, sharding)
}

/// Elements of `value` on a device in the statements of `block`: on the fullest, where devices have
/// unequal numbers.
pub(crate) fn elements_in(
    program: &Program,
    block: Option<RepeatId>,
    value: ValueId,
    sharding: &Sharding,
) -> f64 {
    filled(program, value, sharding) * places_in(program, block, value, sharding)
}

/// The share of a value's elements that the fullest device holds of its block.
fn filled(program: &Program, value: ValueId, sharding: &Sharding) -> f64 {
    let dims = &program.values[value].dims;
    program.values[value].filled.of_fullest(|dim| {
        let place = dims.iter().position(|&other| other == dim);
        place.map_or(1, |place| parts(&program.mesh, &sharding.dims[place]))
    })
}

/// Places of `value` on a device in the statements of `block`: its elements, and those that routing
/// leaves empty.
pub(crate) fn places_in(
    program: &Program,
    block: Option<RepeatId>,
    value: ValueId,
    sharding: &Sharding,
) -> f64 {
    let dims = &program.values[value].dims;
    dims.iter()
        .zip(&sharding.dims)
        .map(|(&dim, axes)| local_size(program, block, dim, axes) as f64)
        .product()
}

/// Bytes of `value` on a device in the statements of `block`.
pub(crate) fn bytes_in(
    program: &Program,
    block: Option<RepeatId>,
    value: ValueId,
    sharding: &Sharding,
) -> f64 {
    elements_in(program, block, value, sharding) * f64::from(program.values[value].dtype.bits())
        / 8.0
}

/// The bytes that an operation in a block reads of an operand, in the dtype in which it is stored.
pub(crate) fn bytes_read(
    program: &Program,
    block: Option<RepeatId>,
    value: ValueId,
    sharding: &Sharding,
) -> f64 {
    let Value { dtype, stored_as, .. } = &program.values[value];
    elements_in(program, block, value, sharding) * f64::from(stored_as.unwrap_or(*dtype).bits())
        / 8.0
}

/// The share of a block that a roll sends to the next block, where `axes` split the dimension;
/// `None` where elements would have to go further.
pub(crate) fn roll_share(program: &Program, roll: &Roll, axes: &[AxisRef]) -> Option<f64> {
    let size = program.dims[roll.dim].size;
    let block = size / parts(&program.mesh, axes);
    let leaves = roll.by.min(size - roll.by.min(size));
    let blocks_are_equal = size == block * parts(&program.mesh, axes);
    (blocks_are_equal && leaves <= block).then(|| leaves as f64 / block as f64)
}

/// What a device needs of its neighbours for windows, where `axes` split their dimension; `None`
/// where these may not split it.
pub(crate) fn halo(program: &Program, windows: &Windows, axes: &[AxisRef]) -> Option<Halo> {
    windows.halo(|dim| program.dims[dim].size, parts(&program.mesh, axes))
}
