//! The order of a sequence that is split over devices, and what masks leave of the work of each.
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

/// The pairs of a query and a key that masks leave: a band of keys around each query. A causal mask
/// leaves those until the query; a window, those less than so many places before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BandMask {
    /// The dimension of queries.
    pub query: DimId,
    /// That of keys.
    pub key: DimId,
    /// How many places after the query the first key is that it sees; before it, if negative.
    from: Option<i64>,
    /// The same of the last key.
    until: Option<i64>,
}

impl BandMask {
    /// The keys until so many places after each query.
    pub(crate) fn until(query: DimId, key: DimId, until: i64) -> Self {
        Self { query, key, from: None, until: Some(until) }
    }

    /// Whether it is a causal mask, also one with a window: of keys on one side of each query.
    pub fn is_causal(self) -> bool {
        let has_one = |end: Option<i64>, is_past: fn(i64) -> bool| end.is_none_or(is_past);
        has_one(self.from, |from| from >= 0) || has_one(self.until, |until| until <= 0)
    }

    /// The same, where the queries of the one are the keys of the other; `None` if it is along
    /// other dimensions.
    fn along(self, query: DimId, key: DimId) -> Option<Self> {
        if (self.query, self.key) == (query, key) {
            return Some(self);
        }
        let back = |place: Option<i64>| place.map(i64::saturating_neg);
        let turned = Self { query, key, from: back(self.until), until: back(self.from) };
        Some(turned).filter(|_| (self.query, self.key) == (key, query))
    }

    /// The same with the name of queries for those that see none after them; else for the shorter
    /// of both, of equally long ones for those that see fewer: two bands that leave the same are
    /// priced alike.
    fn named(self, dims: &IndexVec<DimId, Dim>) -> Self {
        let far = |place: Option<i64>| place.map_or(u64::MAX, i64::unsigned_abs);
        let first = |of: Self| (of.until != Some(0), dims[of.query].size, far(of.until), of.query);
        let turned = self.along(self.key, self.query).unwrap_or(self);
        if first(turned) < first(self) { turned } else { self }
    }

    /// What both leave, if they are along the same dimensions.
    pub(crate) fn and(self, other: Self) -> Option<Self> {
        let other = other.along(self.query, self.key)?;
        let from = self.from.into_iter().chain(other.from).max();
        let until = self.until.into_iter().chain(other.until).min();
        Some(Self { from, until, ..self })
    }

    /// A band that leaves all that one of both does; `None` if that is everything, or they are
    /// along other dimensions.
    pub(crate) fn or(self, other: Self) -> Option<Self> {
        let other = other.along(self.query, self.key)?;
        let from = self.from.zip(other.from).map(|(a, b)| a.min(b));
        let until = self.until.zip(other.until).map(|(a, b)| a.max(b));
        let either = Self { from, until, ..self };
        Some(either).filter(|_| from.is_some() || until.is_some())
    }

    /// The share of all pairs that it leaves.
    pub(crate) fn share(self, dims: &IndexVec<DimId, Dim>) -> f64 {
        let pairs = self.named(dims).pairs(dims);
        (pairs.seen_by_queries(1.0) / pairs.keys).max(0.0)
    }

    fn pairs(self, dims: &IndexVec<DimId, Dim>) -> Pairs {
        let [queries, keys] = [self.query, self.key].map(|dim| dims[dim].size as f64);
        let places = |place: i64| place as f64 / queries;
        // Without the place of the query itself, of which a continuous sequence has half at either
        // end of the band.
        let before = self.from.map(|from| 1_i64.saturating_sub(from));
        Pairs {
            keys: keys / queries,
            before: before.map_or(f64::INFINITY, places),
            after: self.until.map_or(f64::INFINITY, places),
        }
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
            _ if self.from.is_none() && self.until == Some(0) && are_even => self.share(dims),
            (_, keys) => {
                let width = pairs.before + pairs.after;
                (width * keys as f64 / pairs.keys).clamp(0.0, 1.0)
            }
        }
    }
}

/// Queries and keys of a band, in lengths of the queries.
#[derive(Clone, Copy)]
struct Pairs {
    keys: f64,
    /// How far the band reaches before a query, and after it.
    before: f64,
    after: f64,
}

impl Pairs {
    /// The pairs that the queries until one see.
    fn seen_by_queries(&self, query: f64) -> f64 {
        // A query sees the keys until the end of its band, without those until its beginning.
        let until = |query: f64| area_until(query, self.keys);
        let between = |distance: f64| until(query + distance) - until(distance);
        let all = if self.after.is_finite() { between(self.after) } else { query * self.keys };
        all - between(-self.before)
    }

    /// The pairs in which the keys until one are seen.
    fn seeing_keys(&self, key: f64) -> f64 {
        // A key is seen until the last query whose band reaches back to it, and not before the
        // first whose band reaches it.
        let until = |key: f64| area_until(key, 1.0);
        let between = |distance: f64| until(key + distance) - until(distance);
        let all = if self.before.is_finite() { between(self.before) } else { key };
        all - between(-self.after)
    }

    /// Where the number of pairs begins to grow or to fall in another way.
    fn kinks(&self) -> [f64; 8] {
        let Self { keys, before, after } = *self;
        [before, keys + before, 1.0 - before, after, 1.0 + after, keys - after, -after, -before]
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
    /// The mask that leaves it, if it is of queries and keys.
    pub band: Option<BandMask>,
    /// How tokens are sent to experts, where that leaves it.
    pub uneven: Option<Route>,
}

impl Share {
    /// Nothing is masked.
    pub const WHOLE: Self = Self { of_all: 1.0, band: None, uneven: None };

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
        let busiest = self.band.map(|band| band.named(dims).share_of_busiest(dims, parts));
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
    fn counted(dims: &IndexVec<DimId, Dim>, mask: BandMask, [rows, columns]: [u64; 2]) -> f64 {
        let seen = |t: u64, s: u64| {
            let [t, s] = [dims[0_usize].position(t), dims[1_usize].position(s)];
            let after = s.cast_signed() - t.cast_signed();
            let [below, above] = [mask.from.map(|from| from - 1), mask.until];
            // What a continuous sequence has: half a place at either end of the band.
            if below == Some(after) || above == Some(after) {
                0.5
            } else {
                let is_in = below.is_none_or(|below| after > below)
                    && above.is_none_or(|above| after < above);
                f64::from(u8::from(is_in))
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
        let bands = [
            (None, Some(0)),
            (Some(-7), Some(0)),
            (Some(-19), Some(0)),
            // A window on both sides, a chunk of a prefill with and without a window, and queries
            // that stand before the keys.
            (Some(-7), Some(7)),
            (None, Some(16)),
            (Some(4), Some(16)),
            (None, Some(-8)),
            (Some(-7), None),
        ];
        for (order, sizes) in [None, Some(Zigzag { pairs: 8 })]
            .into_iter()
            .flat_map(|order| sizes.map(|sizes| (order, sizes)))
        {
            let dims = sequence(order, sizes);
            let [query, key] = [DimId::from_usize(0), DimId::from_usize(1)];
            for (from, until) in bands {
                for split in [[1, 1], [2, 1], [8, 1], [1, 4], [1, 8]] {
                    let mask = BandMask { query, key, from, until };
                    let share = mask.share_of_busiest(&dims, |dim| split[dim.index()]);
                    let counted = counted(&dims, mask, split);
                    // Where keys end, the continuous sequence has half a place more or less.
                    let is_exact = sizes[0] == sizes[1] && until == Some(0);
                    let rounding = if is_exact { 1e-9 } else { 0.03 * counted };
                    assert!(
                        (share - counted).abs() < rounding,
                        "{order:?} {sizes:?} {from:?} {until:?} {split:?}: {share} {counted}"
                    );
                }
            }
        }
    }

    #[test]
    fn bands_that_leave_the_same_are_priced_alike() {
        let [t, s] = [DimId::from_usize(0), DimId::from_usize(1)];
        let (causal, window) = (BandMask::until(t, s, 0), BandMask::until(s, t, 7));
        let [one, other] = [causal.and(window), window.and(causal)].map(Option::unwrap);
        assert!(one.is_causal() && other.is_causal());
        for sizes in [[64, 64], [16, 64], [64, 16]] {
            let dims = sequence(None, sizes);
            assert_eq!(one.named(&dims), other.named(&dims));
        }
        let dims = sequence(None, [64, 64]);
        let named = other.named(&dims);
        assert_eq!((named.query, named.key, named.from, named.until), (t, s, Some(-7), Some(0)));
        assert_eq!(causal.or(other).unwrap().named(&dims), causal);
        assert_eq!(causal.or(window), None);
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
