//! The simulated mesh: who holds which block, and what a collective moves.
//!
//! A device's block along a dimension is found from its coordinates on the axes of the subscript, the first being the major one. One rule moves
//! blocks for every collective: settle what is to be settled within the groups of devices that differ only there; then each device takes, from
//! devices that agree with it on every axis that does not take part, the pieces that make up its new block. A piece is only ever taken from a
//! device that holds it.

use indexmap::IndexMap;
use ndarray::{ArrayD, Axis, Slice};
use shardwise_ir::mesh::Mesh;
use shardwise_ir::sharding::{AxisRef, Reduction, Sharding};

/// All devices, by their coordinates.
pub(super) struct Devices {
    sizes: Vec<usize>,
    coordinates: Vec<Vec<usize>>,
}

impl Devices {
    pub(super) fn new(mesh: &Mesh) -> Self {
        let sizes: Vec<usize> = mesh.axes.iter().map(|axis| axis.size as usize).collect();
        let mut coordinates = vec![Vec::new()];
        for &size in &sizes {
            coordinates = coordinates.iter().flat_map(|at: &Vec<usize>| (0..size).map(move |i| [&at[..], &[i]].concat())).collect();
        }
        Self { sizes, coordinates }
    }

    pub(super) fn len(&self) -> usize {
        self.coordinates.len()
    }

    pub(super) fn name(&self, mesh: &Mesh, device: usize) -> String {
        let at = mesh.axes.iter().zip(&self.coordinates[device]).map(|(axis, i)| format!("{}={i}", axis.name));
        at.collect::<Vec<_>>().join(", ")
    }

    fn number(&self, coordinates: &[usize]) -> usize {
        coordinates.iter().zip(&self.sizes).fold(0, |number, (&i, &size)| number * size + i)
    }

    /// Which block of a dimension split over `axes` a device holds, and of how many.
    fn place(&self, axes: &[AxisRef], device: usize) -> (usize, usize) {
        axes.iter().fold((0, 1), |(block, parts), axis| {
            let axis = axis.axis().index();
            (block * self.sizes[axis] + self.coordinates[device][axis], parts * self.sizes[axis])
        })
    }

    /// A device's block of a whole value, pending sums apart.
    pub(super) fn block(&self, whole: &ArrayD<f64>, sharding: &Sharding, device: usize) -> ArrayD<f64> {
        let mut block = whole.clone();
        for (dim, axes) in sharding.dims.iter().enumerate() {
            let (number, parts) = self.place(axes, device);
            let size = block.len_of(Axis(dim)) / parts;
            block = block.slice_axis(Axis(dim), Slice::from(number * size..(number + 1) * size)).to_owned();
        }
        block
    }

    /// A whole value laid out on all devices. A pending value is cut into uneven parts that make it up.
    pub(super) fn distribute(&self, whole: &ArrayD<f64>, sharding: &Sharding, seed: u64) -> Vec<ArrayD<f64>> {
        (0..self.len())
            .map(|device| {
                let block = self.block(whole, sharding, device);
                let (part, parts) = self.place(sharding.unreduced.axes(), device);
                if parts == 1 {
                    return block;
                }
                let shift = ((seed as usize + part) % 5) as f64 - 2.0;
                let others: f64 = (1..parts).map(|part| ((seed as usize + part) % 5) as f64 - 2.0).sum();
                match sharding.unreduced.kind() {
                    Reduction::Sum if part == 0 => block - others,
                    Reduction::Sum => block.mapv(|_| shift),
                    Reduction::Max if part > 0 => block - 1.0,
                    Reduction::Min if part > 0 => block + 1.0,
                    Reduction::Max | Reduction::Min => block,
                }
            })
            .collect()
    }

    /// Pending parts put together within their groups, on every device.
    pub(super) fn settle(&self, blocks: &[ArrayD<f64>], sharding: &Sharding) -> Vec<ArrayD<f64>> {
        self.reduce(blocks, sharding.unreduced.axes(), sharding.unreduced.kind())
    }

    fn reduce(&self, blocks: &[ArrayD<f64>], axes: &[AxisRef], kind: Reduction) -> Vec<ArrayD<f64>> {
        if axes.is_empty() {
            return blocks.to_vec();
        }
        let mut totals: IndexMap<usize, ArrayD<f64>> = IndexMap::new();
        for (device, block) in blocks.iter().enumerate() {
            let group = self.without(device, axes);
            match totals.get_mut(&group) {
                None => {
                    totals.insert(group, block.clone());
                }
                Some(total) => total.zip_mut_with(block, |a, &b| *a = combine(kind, *a, b)),
            }
        }
        (0..self.len()).map(|device| totals[&self.without(device, axes)].clone()).collect()
    }

    /// The device at zero along `axes`, else where `device` is: the name of its group.
    fn without(&self, device: usize, axes: &[AxisRef]) -> usize {
        let mut at = self.coordinates[device].clone();
        for axis in axes {
            at[axis.axis().index()] = 0;
        }
        self.number(&at)
    }

    /// One collective: what every device holds after it.
    pub(super) fn move_blocks(&self, blocks: &[ArrayD<f64>], from: &Sharding, to: &Sharding) -> Vec<ArrayD<f64>> {
        let settled: Vec<AxisRef> = from.unreduced.axes().iter().copied().filter(|axis| !to.unreduced.axes().contains(axis)).collect();
        let blocks = self.reduce(blocks, &settled, from.unreduced.kind());
        if from.dims == to.dims {
            return blocks;
        }
        let taking_part: Vec<AxisRef> =
            from.dims.iter().zip(&to.dims).filter(|(a, b)| a != b).flat_map(|(a, b)| a.iter().chain(b).copied()).collect();
        (0..self.len()).map(|device| self.assemble(&blocks, from, to, &taking_part, device)).collect()
    }

    /// The new block of a device, from the pieces that the devices of its group hold.
    fn assemble(&self, blocks: &[ArrayD<f64>], from: &Sharding, to: &Sharding, taking_part: &[AxisRef], device: usize) -> ArrayD<f64> {
        let held = blocks[device].shape();
        let shape: Vec<usize> =
            (0..held.len()).map(|dim| held[dim] * self.place(&from.dims[dim], device).1 / self.place(&to.dims[dim], device).1).collect();
        let group = self.without(device, taking_part);
        let holders: Vec<usize> = (0..self.len()).filter(|&other| self.without(other, taking_part) == group).collect();
        let mut new = ArrayD::from_elem(shape.clone(), f64::NAN);
        for holder in holders {
            self.copy_overlap(&mut new, &shape, &blocks[holder], (from, holder), (to, device));
        }
        new
    }

    /// Copies the part of `block` that falls into the new block.
    fn copy_overlap(
        &self,
        new: &mut ArrayD<f64>,
        shape: &[usize],
        block: &ArrayD<f64>,
        old: (&Sharding, usize),
        target: (&Sharding, usize),
    ) {
        let mut source = block.view();
        let mut place = new.view_mut();
        for (dim, &size) in shape.iter().enumerate() {
            let old_start = self.place(&old.0.dims[dim], old.1).0 * block.len_of(Axis(dim));
            let new_start = self.place(&target.0.dims[dim], target.1).0 * size;
            let start = old_start.max(new_start);
            let end = (old_start + block.len_of(Axis(dim))).min(new_start + size);
            if start >= end {
                return;
            }
            source.slice_axis_inplace(Axis(dim), Slice::from(start - old_start..end - old_start));
            place.slice_axis_inplace(Axis(dim), Slice::from(start - new_start..end - new_start));
        }
        place.assign(&source);
    }
}

fn combine(kind: Reduction, a: f64, b: f64) -> f64 {
    match kind {
        Reduction::Sum => a + b,
        Reduction::Max => a.max(b),
        Reduction::Min => a.min(b),
    }
}
