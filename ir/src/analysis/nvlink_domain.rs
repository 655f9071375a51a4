//! Splits mesh axes into the part inside a switched domain (a node of GPUs, a rack of NVL72) and
//! the part between domains.
//!
//! Devices are numbered in mesh order, the last axis innermost. Going from it to the first, an axis
//! is inside as long as it fits together with those already inside. The first axis that does not
//! fit is split: its largest divisor that fits is inside, as its minor coordinates, and the rest is
//! reached over the network. Ranks assigned in order behave like this (16 ranks over nodes of 8 are
//! two nodes of 8). The alternative, treating such an axis as entirely on the network, is costlier,
//! and remains for axes that cannot be split: an axis of 11 has no even share in a node of 8.
//!
//! Explicit kinds (`X=16 ib`, `Y=8 nvlink`) are placed before all others; so are folds
//! (`X=16 over 8x2`: two in a node), each of whose factors is entirely inside or entirely outside.

use crate::mesh::AxisKind;

/// An axis whose networks are not yet known.
#[derive(Clone, Copy, Debug)]
pub struct Unplaced<'a> {
    /// Its factors, major to minor: one, its size, unless it is folded.
    pub factors: &'a [u64],
    /// Whether they are written, and so are not split.
    pub is_folded: bool,
    /// Its kind, where that is written.
    pub kind: Option<AxisKind>,
}

/// A part of an axis that runs over one network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Devices along it.
    pub size: u64,
    /// [`AxisKind::Switch`] inside a domain, [`AxisKind::Dcn`] between domains, or what is written.
    pub kind: AxisKind,
}

/// The largest number of devices inside.
const LARGEST_CUT: u64 = 1 << 16;

/// The parts of every axis, major to minor, where a domain has `chips`; `None`: as many as there
/// are.
///
/// ```
/// use shardwise_ir::nvlink_domain::{Unplaced, parts};
/// let axis = |factors| Unplaced { factors, is_folded: false, kind: None };
/// type Parts = Vec<shardwise_ir::nvlink_domain::Part>;
/// let size_of = |parts: &Parts| parts.iter().map(|part| part.size).collect();
/// let sizes = |placed: &[Parts]| placed.iter().map(size_of).collect::<Vec<Vec<u64>>>();
/// assert_eq!(sizes(&parts(Some(8), &[axis(&[4]), axis(&[16])])), [vec![4], vec![2, 8]]);
/// ```
pub fn parts(chips: Option<u64>, axes: &[Unplaced<'_>]) -> Vec<Vec<Part>> {
    let written = axes
        .iter()
        .filter(|axis| axis.kind == Some(AxisKind::Switch))
        .flat_map(|axis| axis.factors);
    let mut domain =
        Domain { chips, taken: written.fold(1, |taken, &size| taken.saturating_mul(size)) };
    let mut placed: Vec<Vec<Part>> = axes.iter().rev().map(|axis| domain.place(axis)).collect();
    placed.reverse();
    placed
}

/// A domain with the number of its free devices.
struct Domain {
    chips: Option<u64>,
    taken: u64,
}

impl Domain {
    fn place(&mut self, axis: &Unplaced<'_>) -> Vec<Part> {
        if let Some(kind) = axis.kind {
            return axis.factors.iter().map(|&size| Part { size, kind }).collect();
        }
        let mut parts = Vec::new();
        for &size in axis.factors.iter().rev() {
            let inside = self.inside(size, axis.is_folded);
            self.taken = self.taken.saturating_mul(inside);
            let both = [(inside, AxisKind::Switch), (size / inside, AxisKind::Dcn)]
                .map(|(size, kind)| Part { size, kind });
            // A part of one device is none, unless it is all there is.
            parts.extend(
                both.into_iter()
                    .filter(|part| part.size > 1 || size == 1 && part.kind == AxisKind::Switch),
            );
        }
        parts.reverse();
        parts
    }

    /// How many of `size` devices along an axis are inside.
    fn inside(&self, size: u64, is_whole: bool) -> u64 {
        let capacity = self.chips.map_or(u64::MAX, |chips| chips / self.taken);
        if size <= capacity {
            return size;
        }
        let most = if is_whole { 1 } else { capacity.min(LARGEST_CUT) };
        (2..=most).rev().find(|&cut| size.is_multiple_of(cut)).unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(chips: u64, axes: &[(&[u64], Option<AxisKind>)]) -> Vec<String> {
        let unplaced: Vec<Unplaced<'_>> = axes
            .iter()
            .map(|&(factors, kind)| Unplaced { factors, is_folded: factors.len() > 1, kind })
            .collect();
        let word = |part: &Part| {
            format!("{}{}", part.size, if part.kind == AxisKind::Switch { "" } else { "*" })
        };
        parts(Some(chips), &unplaced)
            .iter()
            .map(|parts| parts.iter().map(word).collect::<Vec<_>>().join("x"))
            .collect()
    }

    #[test]
    fn axes_fill_a_domain_from_the_last_one() {
        assert_eq!(placed(8, &[(&[4], None), (&[8], None)]), ["4*", "8"]);
        assert_eq!(placed(8, &[(&[2], None), (&[4], None)]), ["2", "4"]);
        assert_eq!(placed(8, &[(&[1], None), (&[8], None), (&[1], None)]), ["1", "8", "1"]);
    }

    #[test]
    fn what_outgrows_it_is_cut_once() {
        assert_eq!(placed(8, &[(&[16], None)]), ["2*x8"]);
        assert_eq!(placed(8, &[(&[4], None), (&[4], None)]), ["2*x2", "4"]);
        assert_eq!(placed(8, &[(&[2], None), (&[4], None), (&[4], None)]), ["2*", "2*x2", "4"]);
        assert_eq!(placed(72, &[(&[4], None), (&[128], None)]), ["4*", "2*x64"]);
        assert_eq!(placed(8, &[(&[12], None)]), ["2*x6"]);
        assert_eq!(placed(8, &[(&[11], None)]), ["11*"]);
        assert_eq!(
            placed(8, &[(&[2], None), (&[11], None)]),
            ["2", "11*"],
            "what puts nothing into a node leaves it to the others"
        );
    }

    #[test]
    fn what_is_written_goes_first() {
        let (nvlink, ib) = (Some(AxisKind::Switch), Some(AxisKind::Dcn));
        assert_eq!(placed(8, &[(&[8], nvlink), (&[8], None)]), ["8", "8*"]);
        assert_eq!(placed(8, &[(&[8], None), (&[16], ib)]), ["8", "16*"]);
        assert_eq!(placed(8, &[(&[16], nvlink)]), ["16"]);
        assert_eq!(placed(8, &[(&[4], None), (&[8, 2], None)]), ["4", "8*x2"]);
        assert_eq!(placed(8, &[(&[16, 1], None)]), ["16*x1"]);
    }

    #[test]
    fn sizes_of_any_kind_are_placed() {
        assert_eq!(placed(1, &[(&[1 << 62], None)]), [format!("{}*", 1_u64 << 62)]);
        assert_eq!(placed(u64::MAX, &[(&[1 << 62], None)]), [format!("{}", 1_u64 << 62)]);
        assert_eq!(
            placed((1 << 40) - 1, &[(&[1 << 41], None)]),
            [format!("{}*x65536", 1_u64 << 25)]
        );
    }
}
