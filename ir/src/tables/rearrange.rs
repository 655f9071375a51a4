//! Operations that change dimensions otherwise than by summing: rename, reshape, slice, pad,
//! concat, lookups.
//!
//! They are kinds of operation and not element-wise functions, because their results have other
//! dimensions; and they are several kinds and not one, because each constrains shardings
//! differently: a renamed dimension keeps its axes, a reshaped one keeps those that keep blocks
//! contiguous, and one that is sliced or concatenated at constant places must be unsharded.

use index_vec::IndexVec;

pub use crate::functions::{Composite, EPSILON};
use crate::ids::DimId;
use crate::program::Dim;

/// A rearrangement of unchanged elements: linear, and partial maxima and minima pass.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Rearrange {
    /// `rename(x)`: dimensions under other names of equal size, as pairs of old and new.
    Rename(Vec<(DimId, DimId)>),
    /// `reshape(x)`: dimensions split into their factors or merged into their product.
    Reshape(Vec<Regroup>),
    /// `slice_{S->P}(x, 128)`: the part of `S` from there that is as long as `P`.
    Slice(Window),
    /// `pad_{P->S}(x, 128)`: the inverse, with zeros around it.
    Pad(Window),
    /// `concat_{P,Q->S}(a, b)`: one after the other.
    Concat {
        /// The dimension of each operand.
        from: Vec<DimId>,
        /// That of the result.
        to: DimId,
    },
    /// `roll_R(x, 1)`: each element so many places further along, cyclically.
    Roll(Roll),
    /// `windows_{H->P,R}(x, stride=2, padding=1)`: for each place along `P`, the elements along `H`
    /// that a kernel as long as `R` covers there, zero outside of `H`.
    Windows(Windows),
    /// `overlap_{P,R->H}(y, stride=2, padding=1)`: the transpose, windows added up where they came
    /// from.
    Overlap(Windows),
    /// `part(x)`: the rows of a microbatch, a strided selection of the batch.
    Part {
        /// The batch.
        from: DimId,
        /// The dimension of the microbatch.
        to: DimId,
        /// Its first row: the number of the microbatch; 0 in a block, which defines it.
        first: u64,
    },
    /// `chunk(x)`: what a step of a scan reads, elements side by side along a dimension.
    Chunk {
        /// The dimension.
        from: DimId,
        /// That of a chunk; `None`: a step reads one element, and its result lacks the dimension.
        to: Option<DimId>,
        /// The number of the step; 0 in a block, which defines it.
        step: u64,
    },
    /// `stack(y)`: the values of all steps of a scan, one after another. One operand in a program;
    /// one per step when unrolled.
    Stack {
        /// The dimension of a chunk; `None`: values lack the dimension.
        from: Option<DimId>,
        /// The dimension of all.
        to: DimId,
    },
    /// `join(y)`: the rows of all microbatches in the order of the batch. One operand in a block;
    /// one per microbatch when unrolled.
    Join {
        /// The dimension of a microbatch.
        from: DimId,
        /// The batch.
        to: DimId,
    },
}

impl Rearrange {
    /// Whether it collects the values of all iterations of a block, one operand for each when
    /// unrolled.
    pub fn collects(&self) -> bool {
        matches!(self, Self::Join { .. } | Self::Stack { .. })
    }

    /// Dimensions of the operand whose axes the result has on others, where these follow from
    /// nothing else. The kernel of windows has none.
    pub fn relabelled(&self) -> Option<Vec<(DimId, DimId)>> {
        match self {
            Self::Rename(pairs) => Some(pairs.clone()),
            Self::Part { from, to, .. } | Self::Join { from, to } => Some(vec![(*from, *to)]),
            Self::Windows(Windows { whole, places, .. }) => Some(vec![(*whole, *places)]),
            Self::Overlap(Windows { whole, places, .. }) => Some(vec![(*places, *whole)]),
            Self::Reshape(_)
            | Self::Slice(_)
            | Self::Pad(_)
            | Self::Concat { .. }
            | Self::Chunk { .. }
            | Self::Stack { .. }
            | Self::Roll(_) => None,
        }
    }

    /// The windows that are taken of the operand, or added up, along a dimension of it.
    pub fn windows_along(&self, dim: DimId) -> Option<&Windows> {
        match self {
            Self::Windows(windows) if windows.whole == dim => Some(windows),
            Self::Overlap(windows) if windows.places == dim => Some(windows),
            _ => None,
        }
    }
}

/// A cyclic shift along a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Roll {
    /// Which.
    pub dim: DimId,
    /// The distance, less than the size of the dimension.
    pub by: u64,
}

/// The places at which a kernel is applied to a dimension: element `r` of the window at place `p`
/// is that at `p * stride + r - padding`, and zero where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Windows {
    /// The dimension that windows are of.
    pub whole: DimId,
    /// The dimension of the places; the same one, where it has as many elements.
    pub places: DimId,
    /// The dimension of a window.
    pub kernel: DimId,
    /// The distance between places.
    pub stride: u64,
    /// How far the first window begins before the first element.
    pub padding: u64,
}

/// The elements that a device needs of its neighbours for the windows of its own places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Halo {
    /// Of the block before its own.
    pub before: u64,
    /// Of the block after it.
    pub after: u64,
}

impl Windows {
    /// The number of places on a dimension of `whole` elements with windows of `kernel` elements;
    /// `None` where no window fits.
    pub fn count(&self, whole: u64, kernel: u64) -> Option<u64> {
        let padded = whole.checked_add(self.padding.checked_mul(2)?)?;
        Some(padded.checked_sub(kernel)?.checked_div(self.stride)? + 1)
    }

    /// The element that a window has at `within`; `None` before the first one.
    pub fn element(&self, place: usize, within: usize) -> Option<usize> {
        let (stride, padding) =
            (usize::try_from(self.stride).ok()?, usize::try_from(self.padding).ok()?);
        place.checked_mul(stride)?.checked_add(within)?.checked_sub(padding)
    }

    /// What a device needs of the blocks next to its own where the dimension, and with it its
    /// places, is split into `parts`. `None` where they cannot be split so: blocks of places do not
    /// lie in blocks of elements, or a window goes further than the next block.
    pub fn halo(&self, sizes: impl Fn(DimId) -> u64, parts: u64) -> Option<Halo> {
        let [whole, places, kernel] = [self.whole, self.places, self.kernel].map(sizes);
        let block = whole.checked_div(parts)?;
        let is_even = whole.is_multiple_of(parts) && places.is_multiple_of(parts);
        let after = kernel.saturating_sub(self.padding.saturating_add(self.stride));
        let halo = Halo { before: self.padding.min(whole), after };
        (is_even
            && places.checked_mul(self.stride) == Some(whole)
            && halo.before.max(halo.after) <= block)
            .then_some(halo)
    }
}

/// A dimension and a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// The operand's dimension.
    pub from: DimId,
    /// The result's.
    pub to: DimId,
    /// The start of the shorter one in the longer one.
    pub start: u64,
}

/// Tokens sent to experts: each to those with its largest scores (the first of equal ones), where
/// it gets the next free slot; none, if all are taken. The result is one where a token has a slot,
/// else zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// The dimension of the tokens.
    pub tokens: DimId,
    /// The experts.
    pub experts: DimId,
    /// The slots of an expert.
    pub capacity: DimId,
    /// The number of experts per token.
    pub choices: u64,
    /// How many times the mean of all devices the busiest one has, in thousandths: tokens, where
    /// experts are split.
    pub busiest: u64,
}

impl Route {
    /// Every device has the same number of tokens.
    pub const EVEN: u64 = 1000;

    /// How many times the mean the busiest device has, if not all have the same.
    pub fn stated_imbalance(self) -> Option<f64> {
        (self.busiest != Self::EVEN).then(|| self.busiest as f64 / Self::EVEN as f64)
    }

    /// How many times their share of tokens experts have slots for; none where each has one for
    /// every token, so that none is dropped.
    pub fn capacity_factor(self, dims: &IndexVec<DimId, Dim>) -> Option<f64> {
        let size = |dim: DimId| dims[dim].size as f64;
        let shares = self.choices as f64 * size(self.tokens);
        let factor = size(self.experts) * size(self.capacity) / shares;
        (size(self.capacity) < size(self.tokens)).then_some(factor)
    }

    /// The same of so many devices, one of which has all tokens at most.
    pub fn imbalance(self, devices: u64) -> f64 {
        self.stated_imbalance().unwrap_or(1.0).min(devices as f64)
    }
}

/// Dimensions that become others: their factors, major to minor, are the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Regroup {
    /// Of the operand, major to minor.
    pub from: Vec<DimId>,
    /// Of the result, major to minor.
    pub to: Vec<DimId>,
}

/// The limit of factors; declarations that square each other would have 2^n.
const MOST_FACTORS: usize = 64;

/// The factors of a dimension that have none themselves, major to minor; itself, if it is no
/// product.
pub fn atoms(dims: &IndexVec<DimId, Dim>, dim: DimId) -> Vec<DimId> {
    let mut found = Vec::new();
    let mut left = vec![dim];
    while let Some(next) = left.pop() {
        let factors = &dims[next].factors;
        if factors.is_empty() {
            found.push(next);
        } else {
            left.extend(factors.iter().rev());
        }
        if found.len() + left.len() > MOST_FACTORS {
            return vec![dim];
        }
    }
    found
}

/// The groups of a reshape from one list of dimensions to another: each product with the factors
/// that it is split into or merged from. `None` where their factors are not the same.
pub fn regroup(dims: &IndexVec<DimId, Dim>, from: &[DimId], to: &[DimId]) -> Option<Vec<Regroup>> {
    let changed = |here: &[DimId], there: &[DimId]| {
        here.iter().copied().filter(|dim| !there.contains(dim)).collect::<Vec<_>>()
    };
    let (mut from, mut to) = (changed(from, to), changed(to, from));
    let mut groups = Vec::new();
    while let Some(&first) = from.first() {
        let here = atoms(dims, first);
        let product = to.iter().copied().find(|&dim| atoms(dims, dim).contains(&here[0]))?;
        let there = atoms(dims, product);
        let group = if there.len() >= here.len() {
            Regroup { from: parts(dims, &from, &there)?, to: vec![product] }
        } else {
            Regroup { from: vec![first], to: parts(dims, &to, &here)? }
        };
        from.retain(|dim| !group.from.contains(dim));
        to.retain(|dim| !group.to.contains(dim));
        groups.push(group);
    }
    to.is_empty().then_some(groups)
}

/// The factors that lie between two lists of dimensions, and the groups of the reshapes to them and
/// from them: `[P, C]` with `P=A*B` becomes `[A, Q]` with `Q=B*C` by way of `[A, B, C]`. `None`
/// where their factors are not the same, or one would stand twice.
pub fn regroup_by_factors(
    dims: &IndexVec<DimId, Dim>,
    from: &[DimId],
    to: &[DimId],
) -> Option<(Vec<DimId>, [Vec<Regroup>; 2])> {
    let parts = |&dim: &DimId| if to.contains(&dim) { vec![dim] } else { atoms(dims, dim) };
    let factors: Vec<DimId> = from.iter().flat_map(parts).collect();
    let once = (1..factors.len()).all(|place| !factors[..place].contains(&factors[place]));
    let groups = once.then(|| [regroup(dims, from, &factors), regroup(dims, &factors, to)])?;
    let [Some(split), Some(merged)] = groups else { return None };
    Some((factors, [split, merged]))
}

/// Those of `among` whose factors are `whole`, in its order.
fn parts(dims: &IndexVec<DimId, Dim>, among: &[DimId], whole: &[DimId]) -> Option<Vec<DimId>> {
    let mut left = whole;
    let mut parts = Vec::new();
    while !left.is_empty() {
        let next = among
            .iter()
            .copied()
            .find(|&dim| !parts.contains(&dim) && left.starts_with(&atoms(dims, dim)))?;
        left = &left[atoms(dims, next).len()..];
        parts.push(next);
    }
    Some(parts)
}
