//! A mesh axis used in parts: `mesh X=16 as 8x2` names `X.0` of 8 devices and `X.1` of 2, major to
//! minor, so that `X` is both of them.
//!
//! Parts are axes of the mesh, and `X` is a name for all of them. The alternative, references to a
//! range of an axis beside references to all of it, would have every comparison of two shardings
//! ask whether ranges overlap; here two axes are the same or have nothing to do with each other,
//! and propagation, the search and the simulated devices work as they are. What is particular to
//! parts is their links, in this module, and that all of them print as the axis that they are of.
//!
//! # Links of parts
//!
//! The last part of a ring or line is a line of neighbours. Devices along a part before it are a
//! stride apart: each link carries the traffic of as many groups as the stride, so that a group has
//! that share of its bandwidth, and a hop takes as many hops. Only a part that reaches around a
//! ring wraps. A switch or network has one port a device, whichever part uses it.

use serde::Serialize;

use crate::ids::AxisId;
use crate::mesh::{Axis, AxisKind, PhysicalAxis};

/// A mesh axis of several parts, each of which is an axis of the mesh.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AxisInParts {
    /// The axis as it is declared, with its links.
    pub whole: Axis,
    /// The first of its parts, which follow each other in the mesh.
    pub first: AxisId,
    /// For each part the strands of the physical axes that it runs over, minor to major.
    strands: Vec<Vec<Strand>>,
}

/// Devices along a physical axis that are `stride` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Strand {
    physical: usize,
    size: u64,
    stride: u64,
}

impl Strand {
    /// The links of one group of devices among all that use them at once.
    fn links(self, of: PhysicalAxis) -> PhysicalAxis {
        let Self { size, stride, .. } = self;
        let kind = match of.kind {
            AxisKind::Ring if size * stride < of.size => AxisKind::Line,
            kind => kind,
        };
        let share = match kind {
            AxisKind::Ring | AxisKind::Line => stride as f64,
            AxisKind::Switch | AxisKind::Dcn => 1.0,
        };
        PhysicalAxis { size, kind, bandwidth: of.bandwidth / share, hop_s: of.hop_s * share }
    }
}

impl AxisInParts {
    /// `whole` in parts of these sizes, major to minor, of which the first is the axis `first`;
    /// `None` where a part would end inside of a physical axis that it does not divide.
    pub fn new(whole: Axis, sizes: &[u64], first: AxisId) -> Option<Self> {
        let strands = strands(&whole.physical, sizes)?;
        Some(Self { whole, first, strands })
    }

    /// Its parts, major to minor.
    pub fn parts(&self) -> impl DoubleEndedIterator<Item = AxisId> + use<> {
        let first = self.first.index();
        (first..first + self.strands.len()).map(AxisId::new)
    }

    /// Whether `axis` is one of its parts.
    pub fn has(&self, axis: AxisId) -> bool {
        self.parts().any(|part| part == axis)
    }

    /// The parts as axes of their own: `X.0`, `X.1`.
    pub(crate) fn axes(&self) -> impl Iterator<Item = Axis> + '_ {
        self.parts().enumerate().map(|(number, part)| {
            let physical = self.physical(&[part]);
            Axis {
                name: format!("{}.{number}", self.whole.name),
                size: physical.iter().map(|axis| axis.size).product(),
                written_kind: None,
                over: None,
                physical,
            }
        })
    }

    /// The physical axes of the chosen `axes` among its parts, never empty. Neighbouring parts are
    /// one axis, all of them the whole.
    pub(crate) fn physical(&self, axes: &[AxisId]) -> Vec<PhysicalAxis> {
        let chosen = self.parts().zip(&self.strands).filter(|(part, _)| axes.contains(part));
        let strands: Vec<Strand> = chosen.flat_map(|(_, strands)| strands).copied().collect();
        let along =
            |number: usize| joined(strands.iter().copied().filter(|s| s.physical == number));
        let each = self.whole.physical.iter().enumerate().filter_map(|(number, &physical)| {
            let joined = along(number);
            let links = joined.iter().map(|strand| strand.links(physical));
            links.reduce(across_a_gap)
        });
        let physical: Vec<PhysicalAxis> = each.collect();
        if physical.is_empty() {
            return vec![PhysicalAxis { size: 1, ..self.whole.physical[0] }];
        }
        physical
    }
}

/// The links of two strands of one physical axis with a gap between them. They share what they
/// cross, so that they are no faster than the slower; a switch is one hop away for both.
fn across_a_gap(one: PhysicalAxis, other: PhysicalAxis) -> PhysicalAxis {
    let (kind, hop_s) = match one.kind {
        AxisKind::Ring | AxisKind::Line => (AxisKind::Line, one.hop_s + other.hop_s),
        kind @ (AxisKind::Switch | AxisKind::Dcn) => (kind, one.hop_s.max(other.hop_s)),
    };
    let (size, bandwidth) = (one.size * other.size, one.bandwidth.min(other.bandwidth));
    PhysicalAxis { size, kind, bandwidth, hop_s }
}

/// Strands of one physical axis, those that continue each other as one.
fn joined(strands: impl Iterator<Item = Strand>) -> Vec<Strand> {
    let mut sorted: Vec<Strand> = strands.collect();
    sorted.sort_by_key(|strand| strand.stride);
    let mut joined: Vec<Strand> = Vec::new();
    for strand in sorted {
        match joined.last_mut() {
            Some(last) if last.stride * last.size == strand.stride => last.size *= strand.size,
            _ => joined.push(strand),
        }
    }
    joined
}

/// The strands of each part, cut from the minor end of the physical axes.
fn strands(physical: &[PhysicalAxis], sizes: &[u64]) -> Option<Vec<Vec<Strand>>> {
    let mut axes = physical.iter().enumerate().rev();
    let (mut left, mut current) = (1, Strand { physical: 0, size: 1, stride: 1 });
    let mut parts = Vec::new();
    for &size in sizes.iter().rev() {
        let (mut needed, mut strands) = (size, Vec::new());
        while needed > 1 {
            if left == 1 {
                let (number, axis) = axes.next()?;
                (left, current) = (axis.size, Strand { physical: number, size: 1, stride: 1 });
                continue;
            }
            let step = if needed.is_multiple_of(left) { left } else { needed };
            if !left.is_multiple_of(step) {
                return None;
            }
            strands.push(Strand { size: step, ..current });
            (needed, left) = (needed / step, left / step);
            current.stride *= step;
        }
        parts.push(strands);
    }
    parts.reverse();
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(kind: AxisKind, sizes: &[u64]) -> Axis {
        let physical = |&size| PhysicalAxis { size, kind, bandwidth: 8e9, hop_s: 1e-6 };
        Axis {
            name: "X".to_owned(),
            size: sizes.iter().product(),
            written_kind: None,
            over: None,
            physical: sizes.iter().map(physical).collect(),
        }
    }

    fn links(of: &AxisInParts, parts: &[usize]) -> Vec<String> {
        let chosen: Vec<AxisId> = parts.iter().map(|&part| AxisId::new(part)).collect();
        let word = |axis: &PhysicalAxis| {
            let (kind, hops) = (axis.kind.name(), axis.hop_s * 1e6);
            format!("{kind} {} at {} GB/s, {hops} us", axis.size, axis.bandwidth / 1e9)
        };
        of.physical(&chosen).iter().map(word).collect()
    }

    #[test]
    fn a_part_of_a_ring_is_a_line_or_a_ring_with_a_stride() {
        let whole = axis(AxisKind::Ring, &[8]);
        let parts = AxisInParts::new(whole.clone(), &[2, 4], AxisId::new(0)).unwrap();
        assert_eq!(links(&parts, &[0]), ["ring 2 at 2 GB/s, 4 us"]);
        assert_eq!(links(&parts, &[1]), ["line 4 at 8 GB/s, 1 us"]);
        assert_eq!(parts.physical(&[AxisId::new(0), AxisId::new(1)]), whole.physical);
        let names: Vec<String> = parts.axes().map(|axis| axis.name).collect();
        assert_eq!(names, ["X.0", "X.1"]);
    }

    #[test]
    fn parts_with_a_gap_share_the_slower_links() {
        let whole = axis(AxisKind::Ring, &[8]);
        let parts = AxisInParts::new(whole, &[2, 2, 2], AxisId::new(0)).unwrap();
        assert_eq!(links(&parts, &[0, 1]), ["ring 4 at 4 GB/s, 2 us"]);
        assert_eq!(links(&parts, &[0, 2]), ["line 4 at 2 GB/s, 5 us"]);
    }

    #[test]
    fn parts_follow_physical_axes_or_divide_them() {
        let folded =
            |sizes: &[u64]| AxisInParts::new(axis(AxisKind::Ring, &[4, 4]), sizes, AxisId::new(0));
        let halves = folded(&[4, 4]).unwrap();
        assert_eq!(links(&halves, &[0]), ["ring 4 at 8 GB/s, 1 us"]);
        let uneven = folded(&[8, 2]).unwrap();
        assert_eq!(
            links(&uneven, &[0]),
            ["ring 4 at 8 GB/s, 1 us", "ring 2 at 4 GB/s, 2 us"],
            "all of the first physical axis, and half of the second"
        );
        let of_six = axis(AxisKind::Line, &[2, 3]);
        assert!(AxisInParts::new(of_six, &[3, 2], AxisId::new(0)).is_none());
    }

    #[test]
    fn a_part_of_a_switch_has_the_whole_port() {
        let whole = axis(AxisKind::Switch, &[8]);
        let parts = AxisInParts::new(whole, &[4, 2], AxisId::new(0)).unwrap();
        assert_eq!(links(&parts, &[0]), ["switch 4 at 8 GB/s, 1 us"]);
        let whole = axis(AxisKind::Switch, &[8]);
        let parts = AxisInParts::new(whole, &[2, 2, 2], AxisId::new(0)).unwrap();
        assert_eq!(links(&parts, &[0, 2]), ["switch 4 at 8 GB/s, 1 us"], "also with a gap");
    }
}
