//! The simulated mesh: the block of each device, and how blocks are exchanged.
//!
//! A device's block along a dimension is found from its coordinates on the axes of the subscript,
//! the first being the major one. A dimension that its axes do not divide (`pad`) is cut as if it
//! were as long as the next multiple of all its splits, and blocks end where it ends: the last ones
//! are shorter, or empty. Two primitives do every collective: *reduce* within the groups of devices
//! that differ only on the axes reduced, and *regroup*, where each device takes the pieces of its
//! new block from the devices that differ from it only on the axes taking part. A piece is only
//! taken from a device that has it; elements that no device of the group has are a gap.

use std::ops::Range;

use indexmap::IndexMap;
use ndarray::{ArrayD, Axis, Slice};
use shardwise_ir::mesh::Mesh;
use shardwise_ir::sharding::{AxisRef, Reduction, Sharding};
use shardwise_ir::unroll::Stage;

/// The size of a dimension, and the multiple of all its splits that its blocks are cut from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) size: usize,
    pub(super) grid: usize,
}

/// One block per device, by device number.
pub(super) type Blocks = Vec<ArrayD<f64>>;

/// All devices, by their coordinates.
pub(super) struct Devices {
    sizes: Vec<usize>,
    coordinates: Vec<Vec<usize>>,
}

/// The initial value of a block's elements: a NaN that no arithmetic produces.
const GAP: u64 = 0x7ff8_dead_beef_0001;

impl Devices {
    pub(super) fn new(mesh: &Mesh) -> Self {
        let sizes: Vec<usize> = mesh.axes.iter().map(|axis| axis.size as usize).collect();
        let mut coordinates = vec![Vec::new()];
        for &size in &sizes {
            coordinates = coordinates
                .iter()
                .flat_map(|at: &Vec<usize>| (0..size).map(move |i| [&at[..], &[i]].concat()))
                .collect();
        }
        Self { sizes, coordinates }
    }

    pub(super) fn len(&self) -> usize {
        self.coordinates.len()
    }

    pub(super) fn name(&self, mesh: &Mesh, device: usize) -> String {
        let at = mesh
            .axes
            .iter()
            .zip(&self.coordinates[device])
            .map(|(axis, i)| format!("{}={i}", axis.name));
        at.collect::<Vec<_>>().join(", ")
    }

    /// Whether a device is of a stage.
    pub(super) fn is_on(&self, stage: Stage, device: usize) -> bool {
        self.coordinates[device][stage.axis.index()] as u64 == stage.number
    }

    /// The device of a stage that is where `device` is along all other axes.
    pub(super) fn counterpart(&self, stage: Stage, device: usize) -> usize {
        let mut at = self.coordinates[device].clone();
        at[stage.axis.index()] = stage.number as usize;
        self.number(&at)
    }

    /// Whether one of two stages along an axis sends to the other; the last sends to the
    /// first.
    pub(super) fn are_neighbours(&self, a: Stage, b: Stage) -> bool {
        let stages = self.sizes[a.axis.index()] as u64;
        a.axis == b.axis
            && ((a.number + 1) % stages == b.number || (b.number + 1) % stages == a.number)
    }

    fn number(&self, coordinates: &[usize]) -> usize {
        coordinates.iter().zip(&self.sizes).fold(0, |number, (&i, &size)| number * size + i)
    }

    /// The index of a device's part of a dimension split over `axes`, and the number of parts.
    pub(super) fn place(&self, axes: &[AxisRef], device: usize) -> (usize, usize) {
        axes.iter().fold((0, 1), |(part, parts), axis| {
            let axis = axis.axis().index();
            (part * self.sizes[axis] + self.coordinates[device][axis], parts * self.sizes[axis])
        })
    }

    /// The range of a device's block along a dimension.
    fn span(&self, extent: Extent, axes: &[AxisRef], device: usize) -> Range<usize> {
        let (part, parts) = self.place(axes, device);
        let block = extent.grid.div_ceil(parts);
        let start = (part * block).min(extent.size);
        start..(start + block).min(extent.size)
    }

    /// The ranges of a device's block of a value.
    pub(super) fn spans(
        &self,
        extents: &[Extent],
        sharding: &Sharding,
        device: usize,
    ) -> Vec<Range<usize>> {
        extents
            .iter()
            .zip(&sharding.dims)
            .map(|(&extent, axes)| self.span(extent, axes, device))
            .collect()
    }

    /// The start of a device's block of a value along each dimension.
    pub(super) fn starts(
        &self,
        extents: &[Extent],
        sharding: &Sharding,
        device: usize,
    ) -> Vec<usize> {
        self.spans(extents, sharding, device).into_iter().map(|span| span.start).collect()
    }

    /// The shape of a device's block of a value.
    pub(super) fn shape(
        &self,
        extents: &[Extent],
        sharding: &Sharding,
        device: usize,
    ) -> Vec<usize> {
        self.spans(extents, sharding, device).into_iter().map(|span| span.len()).collect()
    }

    /// A device's block of an unsharded value, ignoring pending sums.
    pub(super) fn block(
        &self,
        whole: &ArrayD<f64>,
        extents: &[Extent],
        sharding: &Sharding,
        device: usize,
    ) -> ArrayD<f64> {
        let mut block = whole.view();
        for (dim, span) in self.spans(extents, sharding, device).into_iter().enumerate() {
            block.slice_axis_inplace(Axis(dim), Slice::from(span));
        }
        block.to_owned()
    }

    /// Distributes an unsharded value over all devices. A pending value is split into uneven parts
    /// that sum to it.
    pub(super) fn distribute(
        &self,
        whole: &ArrayD<f64>,
        extents: &[Extent],
        sharding: &Sharding,
        seed: u64,
    ) -> Blocks {
        let uneven = |part: usize| ((seed as usize % 5 + part) % 5) as f64 - 2.0;
        let one = |device: usize| {
            let block = self.block(whole, extents, sharding, device);
            let (part, parts) = self.place(sharding.unreduced.axes(), device);
            match sharding.unreduced.kind() {
                Reduction::Sum if parts > 1 && part == 0 => {
                    block - (1..parts).map(uneven).sum::<f64>()
                }
                Reduction::Sum if parts > 1 => block.mapv(|_| uneven(part)),
                Reduction::Max if part > 0 => block - 1.0,
                Reduction::Min if part > 0 => block + 1.0,
                _ => block,
            }
        };
        (0..self.len()).map(one).collect()
    }

    /// Reduces parts within the groups along `axes`, on every device; `None` if some parts are
    /// not of one shape.
    pub(super) fn reduce(
        &self,
        blocks: &Blocks,
        axes: &[AxisRef],
        kind: Reduction,
    ) -> Option<Blocks> {
        if axes.is_empty() {
            return Some(blocks.clone());
        }
        let mut totals: IndexMap<usize, ArrayD<f64>> = IndexMap::new();
        for (device, block) in blocks.iter().enumerate() {
            match totals.get_mut(&self.without(device, axes)) {
                Some(total) if total.shape() != block.shape() => return None,
                Some(total) => total.zip_mut_with(block, |a, &b| *a = combine(kind, *a, b)),
                None => {
                    totals.insert(self.without(device, axes), block.clone());
                }
            }
        }
        Some((0..self.len()).map(|device| totals[&self.without(device, axes)].clone()).collect())
    }

    /// The blocks of the first devices along `axes`, and zeros on the others.
    pub(super) fn first_only(&self, blocks: &Blocks, axes: &[AxisRef]) -> Blocks {
        let kept = |(device, block): (usize, &ArrayD<f64>)| {
            let is_first = self.without(device, axes) == device;
            if is_first { block.clone() } else { ArrayD::zeros(block.raw_dim()) }
        };
        blocks.iter().enumerate().map(kept).collect()
    }

    /// The device at zero along `axes`, else where `device` is: the name of its group.
    fn without(&self, device: usize, axes: &[AxisRef]) -> usize {
        let mut at = self.coordinates[device].clone();
        for axis in axes {
            at[axis.axis().index()] = 0;
        }
        self.number(&at)
    }

    /// The blocks of all devices after a collective; `None` if some device's block has a gap.
    pub(super) fn move_blocks(
        &self,
        blocks: &Blocks,
        extents: &[Extent],
        from: &Sharding,
        to: &Sharding,
    ) -> Option<Blocks> {
        let reduced: Vec<AxisRef> = from
            .unreduced
            .axes()
            .iter()
            .copied()
            .filter(|axis| !to.unreduced.axes().contains(axis))
            .collect();
        let blocks = self.reduce(blocks, &reduced, from.unreduced.kind())?;
        if from.dims == to.dims {
            return Some(blocks);
        }
        let differing = from.dims.iter().zip(&to.dims).filter(|(a, b)| a != b);
        let taking_part: Vec<AxisRef> =
            differing.flat_map(|(a, b)| a.iter().chain(b).copied()).collect();
        let mut groups: IndexMap<usize, Vec<usize>> = IndexMap::new();
        for device in 0..self.len() {
            groups.entry(self.without(device, &taking_part)).or_default().push(device);
        }
        let held: Vec<_> =
            (0..self.len()).map(|device| self.spans(extents, from, device)).collect();
        let assemble = |device: usize| {
            let wanted = self.spans(extents, to, device);
            let shape: Vec<usize> = wanted.iter().map(ExactSizeIterator::len).collect();
            let mut new = ArrayD::from_elem(shape, f64::from_bits(GAP));
            for &holder in &groups[&self.without(device, &taking_part)] {
                copy_overlap(&mut new, &wanted, &blocks[holder], &held[holder]);
            }
            new.iter().all(|x| x.to_bits() != GAP).then_some(new)
        };
        (0..self.len()).map(assemble).collect()
    }
}

/// Copies the part of `block` that falls into the new block; the spans are their places in the
/// unsharded value.
fn copy_overlap(
    new: &mut ArrayD<f64>,
    wanted: &[Range<usize>],
    block: &ArrayD<f64>,
    held: &[Range<usize>],
) {
    let mut source = block.view();
    let mut place = new.view_mut();
    for (dim, (wanted, held)) in wanted.iter().zip(held).enumerate() {
        let overlap = wanted.start.max(held.start)..wanted.end.min(held.end);
        if overlap.is_empty() {
            return;
        }
        source.slice_axis_inplace(
            Axis(dim),
            Slice::from(overlap.start - held.start..overlap.end - held.start),
        );
        place.slice_axis_inplace(
            Axis(dim),
            Slice::from(overlap.start - wanted.start..overlap.end - wanted.start),
        );
    }
    place.assign(&source);
}

fn combine(kind: Reduction, a: f64, b: f64) -> f64 {
    match kind {
        Reduction::Sum => a + b,
        Reduction::Max => a.max(b),
        Reduction::Min => a.min(b),
    }
}
