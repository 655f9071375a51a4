//! A scatter or an exchange with slices in it, as a device does it: it cuts its own block by the
//! axes that are sliced, and exchanges what is left over the others.
//!
//! Sliced axes may be minor to those that move, so what is left of a block is strided, and no
//! sharding describes it. The devices at one place along the sliced axes have such rests
//! of one value, a smaller one without these axes: the exchange is that of this value. A block that
//! padding makes shorter is filled up before, and cut to its length after.

use ndarray::{ArrayD, Axis, Slice};
use shardwise_ir::sharding::{AxisRef, Sharding};

use super::devices::{Blocks, Devices, Extent};

impl Devices {
    /// The blocks of all devices after a collective from one sharding to the other that slices
    /// the axes which only the second uses; `None` if some device's block has a gap, or cannot be
    /// cut like this.
    pub(super) fn slice_and_move(
        &self,
        blocks: &Blocks,
        extents: &[Extent],
        from: &Sharding,
        to: &Sharding,
    ) -> Option<Blocks> {
        let gained: Vec<&[AxisRef]> = from
            .dims
            .iter()
            .zip(&to.dims)
            .map(|(before, after)| after.strip_prefix(before.as_slice()).unwrap_or_default())
            .collect();
        let is_sliced = |axis: &AxisRef| !from.uses(*axis);
        if !gained.iter().copied().flatten().any(is_sliced) {
            return self.move_blocks(blocks, extents, from, to);
        }
        let (mut rest_extents, mut rest_to) = (extents.to_vec(), to.clone());
        for (dim, axes) in gained.iter().enumerate() {
            let sliced: Vec<AxisRef> = axes.iter().copied().filter(is_sliced).collect();
            let grid = extents[dim].grid / self.place(&sliced, 0).1;
            if !sliced.is_empty() {
                rest_extents[dim] = Extent { size: grid, grid };
                rest_to.dims[dim].retain(|axis| !sliced.contains(axis));
            }
        }
        let rest = |(device, block): (usize, &ArrayD<f64>)| {
            let mut block = block.clone();
            for (dim, axes) in gained.iter().enumerate().filter(|(_, axes)| !axes.is_empty()) {
                if axes.iter().any(is_sliced) {
                    let length = extents[dim].grid / self.place(&from.dims[dim], device).1;
                    block = self.own_parts(&filled(block, dim, length), dim, axes, device, from);
                }
            }
            block
        };
        let rests: Blocks = blocks.iter().enumerate().map(rest).collect();
        let is_rest = |(device, block): (usize, &ArrayD<f64>)| {
            block.shape() == self.shape(&rest_extents, from, device)
        };
        if !rests.iter().enumerate().all(is_rest) {
            return None;
        }
        let moved = self.move_blocks(&rests, &rest_extents, from, &rest_to)?;
        let own_length = |(device, mut block): (usize, ArrayD<f64>)| {
            for (dim, length) in self.shape(extents, to, device).into_iter().enumerate() {
                let is_long_enough = length <= block.len_of(Axis(dim));
                is_long_enough
                    .then(|| block.slice_axis_inplace(Axis(dim), Slice::from(..length)))?;
            }
            Some(block)
        };
        moved.into_iter().enumerate().map(own_length).collect()
    }

    /// The parts of a block that are a device's own along each of `axes` that `from` does not use;
    /// `axes` cut the dimension, the first one the major.
    fn own_parts(
        &self,
        block: &ArrayD<f64>,
        dim: usize,
        axes: &[AxisRef],
        device: usize,
        from: &Sharding,
    ) -> ArrayD<f64> {
        let length = block.shape()[dim] / self.place(axes, device).1;
        let mut kept = vec![0];
        for axis in axes {
            let (own, parts) = self.place(&[*axis], device);
            let is_kept = |&part: &usize| from.uses(*axis) || part == own;
            kept = kept
                .iter()
                .flat_map(|at| (0..parts).filter(is_kept).map(move |part| at * parts + part))
                .collect();
        }
        let elements: Vec<usize> =
            kept.iter().flat_map(|part| part * length..(part + 1) * length).collect();
        block.select(Axis(dim), &elements)
    }
}

/// A block with zeros at its end, up to `length`.
fn filled(block: ArrayD<f64>, dim: usize, length: usize) -> ArrayD<f64> {
    let missing = length.saturating_sub(block.shape()[dim]);
    if missing == 0 {
        return block;
    }
    let mut shape = block.shape().to_vec();
    shape[dim] = length;
    let mut longer = ArrayD::zeros(shape);
    longer.slice_axis_mut(Axis(dim), Slice::from(..block.shape()[dim])).assign(&block);
    longer
}
