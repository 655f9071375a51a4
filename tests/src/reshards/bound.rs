//! How few bytes a reshard can do with, written from the definition of a sharding alone.
//!
//! A device must receive what it needs of the result and does not have. Where a sum is pending
//! over `n` terms, an element has to be reduced once and to reach every device that needs it: the
//! messages that make the first complete sum connect `n` devices, which takes `n - 1` of them, one
//! more if no device that needs the element has a term of it; then every other device that needs
//! it takes one. Each of these messages is an element.
//!
//! Bytes are those of all devices together, as a part of those of the value. The bytes of the
//! device that receives most would be another measure: there is no such bound on them for sums,
//! and without pending sums it differs from the mean only where axes change places.

use std::collections::BTreeSet;

use shardwise_ir::mesh::Mesh;
use shardwise_ir::program::CollectiveKind;
use shardwise_ir::sharding::{AxisRef, Sharding};

/// The devices of a mesh, which have blocks of a value.
pub struct Devices<'a> {
    /// Their mesh.
    pub mesh: &'a Mesh,
    /// The dimensions of the value.
    pub rank: usize,
}

/// A part of a dimension, of which there are as many as devices: the first, and their number.
type Range = (u64, u64);

impl Devices<'_> {
    fn count(&self) -> u64 {
        self.mesh.axes.iter().map(|axis| axis.size).product()
    }

    /// The place of a device along an axis.
    fn coordinate(&self, device: u64, axis: AxisRef) -> u64 {
        let inner = self.mesh.axes.iter().skip(axis.axis().index() + 1);
        device / inner.map(|axis| axis.size).product::<u64>() % axis.size(self.mesh)
    }

    /// The parts of every dimension that a device has.
    fn block(&self, device: u64, sharding: &Sharding) -> Vec<Range> {
        let of_dim = |axes: &[AxisRef]| {
            let (mut number, mut parts) = (0, 1);
            for &axis in axes {
                number = number * axis.size(self.mesh) + self.coordinate(device, axis);
                parts *= axis.size(self.mesh);
            }
            (number * (self.count() / parts), self.count() / parts)
        };
        sharding.dims.iter().map(|axes| of_dim(axes)).collect()
    }

    /// A volume as a part of the value.
    fn part(&self, block: &[Range]) -> f64 {
        block.iter().map(|&(_, length)| length as f64 / self.count() as f64).product()
    }

    /// What all devices need of `to` and do not have of `from`.
    fn lacking(&self, from: &Sharding, to: &Sharding) -> f64 {
        let lacks = |device| {
            let needed = self.block(device, to);
            let has = overlap(&self.block(device, from), &needed);
            self.part(&needed) - self.part(&has)
        };
        (0..self.count()).map(lacks).sum()
    }

    /// The fewest bytes in which any plan can lead from one to the other. `None` where the result
    /// is pending over axes over which the operand is not: zeros may be anywhere.
    pub fn least(&self, from: &Sharding, to: &Sharding) -> Option<f64> {
        let (before, after) = (from.unreduced.axes(), to.unreduced.axes());
        if !after.iter().all(|axis| before.contains(axis)) {
            return None;
        }
        let reduced = before.iter().filter(|axis| !after.contains(axis));
        let terms: u64 = reduced.map(|axis| axis.size(self.mesh)).product();
        if terms == 1 {
            return Some(self.lacking(from, to));
        }
        // Devices with other terms of what stays pending have other values.
        let kept = |device| -> Vec<u64> {
            after.iter().map(|&axis| self.coordinate(device, axis)).collect()
        };
        let values: BTreeSet<Vec<u64>> = (0..self.count()).map(kept).collect();
        let needed: f64 = (0..self.count()).map(|device| self.part(&self.block(device, to))).sum();
        let messages = |value: &Vec<u64>| {
            let devices = (0..self.count()).filter(|&device| kept(device) == *value);
            let both = devices
                .map(|device| overlap(&self.block(device, from), &self.block(device, to)))
                .collect::<Vec<_>>();
            (terms - 1) as f64 - self.union(&both)
        };
        Some(needed + values.iter().map(messages).sum::<f64>())
    }

    /// What is in any of these blocks, as a part of the value.
    fn union(&self, blocks: &[Vec<Range>]) -> f64 {
        let cuts = |dim: usize| -> Vec<u64> {
            let ends = blocks.iter().map(|block| block[dim]);
            let ends = ends.flat_map(|(first, length)| [first, first + length]);
            ends.collect::<BTreeSet<u64>>().into_iter().collect()
        };
        let mut cells: Vec<Vec<Range>> = vec![Vec::new()];
        for dim in 0..self.rank {
            let between: Vec<Range> =
                cuts(dim).windows(2).map(|ends| (ends[0], ends[1] - ends[0])).collect();
            let with = |cell: &Vec<Range>| -> Vec<Vec<Range>> {
                between.iter().map(|&range| [cell.as_slice(), &[range]].concat()).collect()
            };
            cells = cells.iter().flat_map(with).collect();
        }
        let is_covered =
            |cell: &&Vec<Range>| blocks.iter().any(|block| overlap(block, cell) == **cell);
        cells.iter().filter(is_covered).map(|cell| self.part(cell)).sum()
    }

    /// The bytes of a collective: those of a reduction are the fewest for its groups of devices,
    /// `n - 1` blocks of the result for `n` devices that scatter one, which they cut first by the
    /// axes that they slice, and twice that for all of them to have it.
    pub fn moved(&self, kind: &CollectiveKind, from: &Sharding, to: &Sharding) -> f64 {
        let all = |sharding| self.count() as f64 * self.part(&self.block(0, sharding));
        let reduced =
            from.unreduced.axes().iter().filter(|axis| !to.unreduced.axes().contains(axis));
        let group: u64 = reduced.map(|axis| axis.size(self.mesh)).product();
        let others = (group - 1) as f64;
        match kind {
            CollectiveKind::AllReduce => 2.0 * all(from) * others / group as f64,
            CollectiveKind::ReduceScatter => all(to) * others,
            CollectiveKind::Unreduce => 0.0,
            CollectiveKind::AllGather
            | CollectiveKind::AllToAll
            | CollectiveKind::Permute
            | CollectiveKind::Slice => self.lacking(from, to),
        }
    }
}

fn overlap(a: &[Range], b: &[Range]) -> Vec<Range> {
    let both = |(&(a, a_length), &(b, b_length)): (&Range, &Range)| {
        let first = a.max(b);
        (first, (a + a_length).min(b + b_length).saturating_sub(first))
    };
    a.iter().zip(b).map(both).collect()
}
