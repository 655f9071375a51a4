//! What a value's reshards cost at least for every state that one of its ends may be in.
//!
//! The ends are the root (where the value comes to be) and the uses; each has a price for every state. The cheapest tree over all choices of states is
//! the dynamic programme of Dreyfus and Wagner (see [`crate::reshard`]) with priced ends; run outwards again from the root it gives, for each end and
//! state, the least total with that end there (*min-marginals*; the two passes are the inside and outside passes of parsing). No table over
//! combinations of ends is made, which is what [`crate::factor`] has to do: `2^k·n² + 3^k·n` for `k` ends and `n` states, instead of `n^k`.
//!
//! Prices are seconds in `f64`: they steer and bound; what is exact is decided by [`crate::eliminate`] on whole numbers.

use crate::reshard::Reshards;
use crate::weight::Weight;

/// What cannot be.
pub(crate) const NEVER: f64 = f64::INFINITY;

/// The seconds of a weight.
pub(crate) fn seconds(weight: Weight) -> f64 {
    if weight.is_finite() { weight.as_seconds() } else { NEVER }
}

/// Distances in seconds, laid out for going both ways along rows.
pub(crate) struct Metric {
    states: usize,
    /// `from_row[from * states + to]`.
    from_row: Vec<f64>,
    /// `to_row[to * states + from]`.
    to_row: Vec<f64>,
}

impl Metric {
    /// The distances of a table.
    pub(crate) fn new(reshards: &Reshards) -> Self {
        let states = reshards.space.len();
        let pairs = |turned: bool| {
            let at = move |i: usize, j: usize| if turned { (j, i) } else { (i, j) };
            let row = move |i: usize| (0..states).map(move |j| at(i, j));
            (0..states).flat_map(row).map(|(from, to)| seconds(reshards.distance(from, to))).collect()
        };
        Self { states, from_row: pairs(false), to_row: pairs(true) }
    }

    /// How many states there are.
    pub(crate) fn states(&self) -> usize {
        self.states
    }

    /// For every state, the least of the way from any state and the price there.
    pub(crate) fn onwards(&self, times: f64, prices: &[f64]) -> Vec<f64> {
        self.closed(&self.from_row, times, prices)
    }

    /// For every state, the least of the way to any state and the price there.
    pub(crate) fn backwards(&self, times: f64, prices: &[f64]) -> Vec<f64> {
        self.closed(&self.to_row, times, prices)
    }

    fn closed(&self, rows: &[f64], times: f64, prices: &[f64]) -> Vec<f64> {
        let mut least = vec![NEVER; self.states];
        for (&price, row) in prices.iter().zip(rows.chunks_exact(self.states)).filter(|(price, _)| **price < NEVER) {
            for (least, &way) in least.iter_mut().zip(row) {
                *least = lesser(*least, price + way * times);
            }
        }
        least
    }
}

/// The smaller of two numbers that are none of them NaN, in the form that is vectorised.
fn lesser(a: f64, b: f64) -> f64 {
    if b < a { b } else { a }
}

/// A tree's least price, by every end.
pub(crate) struct Marginals {
    /// Over all choices of states.
    pub(crate) least: f64,
    /// From each state on, if the tree starts there: without the root's own price.
    pub(crate) beyond: Vec<f64>,
    /// For each use and state, with that use there.
    pub(crate) of_use: Vec<Vec<f64>>,
}

/// The cheapest trees from `root` to `uses`, each given by the prices of its states; every step counts `times`.
pub(crate) fn marginals(metric: &Metric, times: f64, root: &[f64], uses: &[&[f64]]) -> Marginals {
    let inside = inside(metric, times, uses);
    let beyond = inside.last().cloned().unwrap_or_default();
    let least = root.iter().zip(&beyond).map(|(at, on)| at + on).fold(NEVER, lesser);
    let of_use = outside(metric, times, root, uses, &inside);
    Marginals { least, beyond, of_use }
}

/// For every set of uses (a bit each), the cheapest tree from every state that serves it.
fn inside(metric: &Metric, times: f64, uses: &[&[f64]]) -> Vec<Vec<f64>> {
    let mut trees: Vec<Vec<f64>> = vec![Vec::new(); 1 << uses.len()];
    for set in 1..trees.len() {
        let at_fork = match set.is_power_of_two() {
            true => metric.backwards(times, uses[set.trailing_zeros() as usize]),
            false => {
                let mut fork = vec![NEVER; metric.states];
                for (part, rest) in forks(set) {
                    for (fork, (a, b)) in fork.iter_mut().zip(trees[part].iter().zip(&trees[rest])) {
                        *fork = lesser(*fork, a + b);
                    }
                }
                metric.backwards(times, &fork)
            }
        };
        trees[set] = at_fork;
    }
    trees
}

/// For every use and state, the least of all trees with the use there.
fn outside(metric: &Metric, times: f64, root: &[f64], uses: &[&[f64]], inside: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut around: Vec<Vec<f64>> = vec![vec![NEVER; metric.states]; inside.len()];
    let mut of_use = vec![Vec::new(); uses.len()];
    if let Some(whole) = around.last_mut() {
        *whole = root.to_vec();
    }
    for set in (1..inside.len()).rev() {
        let reached = metric.onwards(times, &around[set]);
        if set.is_power_of_two() {
            let number = set.trailing_zeros() as usize;
            of_use[number] = reached.iter().zip(uses[number]).map(|(way, price)| way + price).collect();
            continue;
        }
        for (part, rest) in forks(set) {
            for (one, other) in [(part, rest), (rest, part)] {
                for (around, (way, beside)) in around[one].iter_mut().zip(reached.iter().zip(&inside[other])) {
                    *around = lesser(*around, way + beside);
                }
            }
        }
    }
    of_use
}

/// Every way to cut a set in two, each once.
fn forks(set: usize) -> impl Iterator<Item = (usize, usize)> {
    let movable = set & (set - 1);
    let next = move |rest: &usize| Some((rest - 1) & movable).filter(|&rest| rest != 0);
    std::iter::successors(Some(movable), next).map(move |rest| (set ^ rest, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_cut_in_two_in_every_way_once() {
        assert_eq!(forks(0b111).collect::<Vec<_>>(), [(0b001, 0b110), (0b011, 0b100), (0b101, 0b010)]);
        assert_eq!(forks(0b11_1111).count(), (1 << 5) - 1);
    }

    /// Three states in a row, a second apart, going up only.
    fn row() -> Metric {
        let way = |from: usize, to: usize| if to >= from { (to - from) as f64 } else { NEVER };
        let all = |turned: bool| (0..9).map(|i| if turned { way(i % 3, i / 3) } else { way(i / 3, i % 3) }).collect();
        Metric { states: 3, from_row: all(false), to_row: all(true) }
    }

    #[test]
    fn steps_that_serve_two_uses_are_paid_once() {
        let (at_0, at_2) = ([0.0, NEVER, NEVER], [NEVER, NEVER, 0.0]);
        let found = marginals(&row(), 1.0, &at_0, &[&at_2, &[NEVER, 5.0, 0.0]]);
        assert_eq!(found.least, 2.0);
        assert_eq!(found.of_use[1], [NEVER, 7.0, 2.0]);
        assert_eq!(found.beyond, [2.0, 1.0, 0.0]);
    }
}
