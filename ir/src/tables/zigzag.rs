//! The order of a sequence that is split over devices, and what a causal mask leaves of the work of
//! each.
//!
//! A causal mask leaves the last of `n` devices `1 - 1/2n` of its terms, but half of all: 1.9 times
//! the average of 8 devices. Where the sequence is cut into `2n` blocks and device `i` has block
//! `i` and the `i`-th from the end (`zigzag n`), every device has half of its terms.
//!
//! The order belongs to the dimension, not to the masks: positions, masks and windows of one
//! sequence then agree, and one word of the program changes them all. An option of each masking
//! function would have to be repeated in the gradients, and could be forgotten in one of them.

use crate::ids::DimId;
use crate::program::Dim;
use crate::rearrange::Route;
use index_vec::IndexVec;

/// An order in which the `i`-th of so many pairs of blocks is the `i`-th block of the sequence and
/// the `i`-th from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Zigzag {
    /// The number of pairs, at least 1; the size of the dimension is a multiple of twice that.
    pub pairs: u64,
}

impl Zigzag {
    /// Whether a dimension of `size` can be cut into twice as many blocks.
    pub fn fits(self, size: u64) -> bool {
        self.pairs.checked_mul(2).is_some_and(|blocks| size.is_multiple_of(blocks))
    }

    /// The order of the most pairs, a divisor of these, that a dimension of `size` can have; `None`
    /// where it is odd.
    pub(crate) fn fitting(self, size: u64) -> Option<Self> {
        let (mut divisor, mut rest) = (size / 2, self.pairs);
        while rest > 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        Some(Self { pairs: divisor }).filter(|order| order.fits(size))
    }

    /// The position in the sequence of the element that stands at `index` of `size`, which the
    /// order [fits](Self::fits).
    ///
    /// ```
    /// use shardwise_ir::program::Zigzag;
    /// let of = |index| Zigzag { pairs: 2 }.position(index, 8);
    /// assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(of), [0, 1, 6, 7, 2, 3, 4, 5]);
    /// ```
    pub fn position(self, index: u64, size: u64) -> u64 {
        let block = size / (2 * self.pairs);
        let (number, within) = (index / block, index % block);
        let pair = number / 2;
        let stands = if number.is_multiple_of(2) { pair } else { 2 * self.pairs - 1 - pair };
        stands * block + within
    }
}

impl Dim {
    /// The position in the sequence of the element that stands at `index`.
    pub fn position(&self, index: u64) -> u64 {
        self.zigzag.map_or(index, |order| order.position(index, self.size))
    }
}

/// The pairs of a query and a key that a causal mask leaves: those of no later key, and with a
/// window only of keys less than so many places before the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CausalMask {
    /// The dimension of queries.
    pub query: DimId,
    /// That of keys.
    pub key: DimId,
    /// The number of keys that a query sees at most.
    pub window: Option<u64>,
}

impl CausalMask {
    /// Whether it is along the dimensions of another.
    pub(crate) fn is_along(self, other: Self) -> bool {
        (self.query, self.key) == (other.query, other.key)
    }

    /// The share of all pairs that it leaves.
    pub(crate) fn share(self, dims: &IndexVec<DimId, Dim>) -> f64 {
        let pairs = self.pairs(dims);
        pairs.seen_by_queries(1.0) / pairs.keys
    }

    fn pairs(self, dims: &IndexVec<DimId, Dim>) -> Pairs {
        let [queries, keys] = [self.query, self.key].map(|dim| dims[dim].size as f64);
        let window = self.window.map_or(f64::INFINITY, |window| window as f64 / queries);
        Pairs { keys: keys / queries, window }
    }

    /// The share that it leaves of the pairs of the busiest device, where a dimension is split into
    /// so many parts.
    fn share_of_busiest(self, dims: &IndexVec<DimId, Dim>, parts: impl Fn(DimId) -> u64) -> f64 {
        let pairs = self.pairs(dims);
        let is_even = |dim: DimId| {
            let order = dims[dim].zigzag;
            parts(dim) == 1 || order.is_some_and(|order| order.pairs.is_multiple_of(parts(dim)))
        };
        let are_even = is_even(self.query) && is_even(self.key);
        match (parts(self.query), parts(self.key)) {
            (split, 1) => busiest(
                |part| pairs.seen_by_queries(part) / pairs.keys,
                (split, are_even),
                &pairs.kinks(),
            ),
            (1, split) => busiest(
                |part| pairs.seeing_keys(part * pairs.keys) / pairs.keys,
                (split, are_even),
                &pairs.kinks().map(|kink| kink / pairs.keys),
            ),
            _ if self.window.is_none() && are_even => self.share(dims),
            (_, keys) => (pairs.window * keys as f64 / pairs.keys).min(1.0),
        }
    }
}

/// Queries and keys of a causal mask, in lengths of the queries.
#[derive(Clone, Copy)]
struct Pairs {
    keys: f64,
    window: f64,
}

impl Pairs {
    /// The pairs that the queries until one see.
    fn seen_by_queries(&self, query: f64) -> f64 {
        // A query sees the keys until it, without those until the window before it.
        let until = |query: f64| area_until(query, self.keys);
        until(query) - until(query - self.window)
    }

    /// The pairs in which the keys until one are seen.
    fn seeing_keys(&self, key: f64) -> f64 {
        // A key is seen until the window after it, or the last query, and not before it.
        let until = |key: f64| area_until(key, 1.0);
        let last = if self.window.is_finite() {
            until(key + self.window) - until(self.window)
        } else {
            key
        };
        last - until(key)
    }

    /// Where the number of pairs begins to grow or to fall in another way.
    fn kinks(&self) -> [f64; 5] {
        [self.keys, self.window, self.keys + self.window, 1.0, 1.0 - self.window]
    }
}

/// The area below a line that rises by one for one from zero until a limit, and stays there.
fn area_until(place: f64, limit: f64) -> f64 {
    let (place, rising) = (place.max(0.0), place.clamp(0.0, limit));
    rising * rising / 2.0 + (place - rising) * limit
}

/// The largest share of so many parts of a dimension, given the pairs until each place (from 0 to
/// 1), and the places where these change their growth: the busiest part is at one of them, or at an
/// end. Parts are even where each has a block and the one as far from the end.
fn busiest(until: impl Fn(f64) -> f64, (split, is_even): (u64, bool), kinks: &[f64]) -> f64 {
    let parts = split as f64;
    let between = |from: f64, to: f64| (until(to) - until(from)) * parts;
    let share = |part: f64| {
        if is_even {
            let [from, to] = [part, part + 1.0].map(|block| block / (2.0 * parts));
            between(from, to) + between(1.0 - to, 1.0 - from)
        } else {
            between(part / parts, (part + 1.0) / parts)
        }
    };
    let near = |kink: f64| {
        let place = if is_even { 2.0 * kink.min(1.0 - kink) } else { kink };
        let part = (place * parts).floor();
        [part - 1.0, part, part + 1.0]
    };
    let places =
        kinks.iter().filter(|kink| (0.0..=1.0).contains(*kink)).flat_map(|&kink| near(kink));
    let places = places.chain([0.0, parts - 1.0]).map(|part| part.clamp(0.0, parts - 1.0));
    places.map(share).fold(0.0, f64::max)
}

/// The share of an operation's terms that is not masked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Of all of them.
    pub of_all: f64,
    /// The mask that leaves it, if it is a causal one.
    pub causal: Option<CausalMask>,
    /// How tokens are sent to experts, where that leaves it.
    pub uneven: Option<Route>,
}

impl Share {
    /// Nothing is masked.
    pub const WHOLE: Self = Self { of_all: 1.0, causal: None, uneven: None };

    /// The smaller of two.
    #[must_use]
    pub fn smaller(self, other: Self) -> Self {
        if other.of_all < self.of_all { other } else { self }
    }

    /// The larger of two.
    #[must_use]
    pub fn larger(self, other: Self) -> Self {
        if other.of_all > self.of_all { other } else { self }
    }

    /// How many times the average the busiest device computes, where a dimension is split into so
    /// many parts.
    pub fn imbalance(self, dims: &IndexVec<DimId, Dim>, parts: impl Fn(DimId) -> u64) -> f64 {
        let experts = self.uneven.map(|route| route.imbalance(parts(route.experts)));
        let busiest = self.causal.map(|causal| causal.share_of_busiest(dims, parts));
        busiest.map(|busiest| busiest / self.of_all).or(experts).unwrap_or(1.0).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many queries and keys, in this order.
    fn sequence(zigzag: Option<Zigzag>, [queries, keys]: [u64; 2]) -> IndexVec<DimId, Dim> {
        let span = crate::Span::new(0, 0);
        let dim = |name: &str, size: u64| Dim {
            name: name.to_owned(),
            size,
            factors: Vec::new(),
            pad: false,
            zigzag,
            span,
        };
        IndexVec::from(vec![dim("T", queries), dim("S", keys)])
    }

    /// The share of pairs that the busiest device has, counted one by one.
    fn counted(dims: &IndexVec<DimId, Dim>, window: u64, [rows, columns]: [u64; 2]) -> f64 {
        let seen = |t: u64, s: u64| {
            let [t, s] = [dims[0_usize].position(t), dims[1_usize].position(s)];
            // A query sees half of its own place: what a continuous sequence has there.
            if s < t && t - s < window {
                1.0
            } else if s == t || t - s.min(t) == window {
                0.5
            } else {
                0.0
            }
        };
        let [height, width] = [dims[0_usize].size / rows, dims[1_usize].size / columns];
        let block = |i: u64, j: u64| {
            let all = (i * height..(i + 1) * height)
                .flat_map(|t| (j * width..(j + 1) * width).map(move |s| (t, s)));
            all.map(|(t, s)| seen(t, s)).sum::<f64>() / (height * width) as f64
        };
        (0..rows)
            .flat_map(|i| (0..columns).map(move |j| (i, j)))
            .map(|(i, j)| block(i, j))
            .fold(0.0, f64::max)
    }

    #[test]
    fn the_busiest_device_has_as_many_pairs_as_counted() {
        let sizes = [[64, 64], [64, 16], [64, 48], [16, 64], [32, 64]];
        for (order, sizes) in [None, Some(Zigzag { pairs: 8 })]
            .into_iter()
            .flat_map(|order| sizes.map(|sizes| (order, sizes)))
        {
            let dims = sequence(order, sizes);
            let [query, key] = [DimId::from_usize(0), DimId::from_usize(1)];
            for window in [None, Some(8), Some(20)] {
                for split in [[1, 1], [2, 1], [8, 1], [1, 4], [1, 8]] {
                    let mask = CausalMask { query, key, window };
                    let share = mask.share_of_busiest(&dims, |dim| split[dim.index()]);
                    let counted = counted(&dims, window.unwrap_or(1000), split);
                    // Where keys end, the continuous sequence has half a place more or less.
                    let rounding = if sizes[0] == sizes[1] { 1e-9 } else { 0.02 * counted };
                    assert!(
                        (share - counted).abs() < rounding,
                        "{order:?} {sizes:?} {window:?} {split:?}: {share} {counted}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_zigzag_order_has_every_position_once() {
        for pairs in [1, 2, 4, 8] {
            let mut positions: Vec<u64> =
                (0..16).map(|index| Zigzag { pairs }.position(index, 16)).collect();
            positions.sort_unstable();
            assert_eq!(positions, (0..16).collect::<Vec<_>>());
        }
    }
}
