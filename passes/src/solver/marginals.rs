//! What a value's reshards cost at least for every state that one of its ends may be in.
//!
//! The ends are the root (where the value comes to be) and the uses; each has a price for every
//! state. The cheapest tree over all choices of states is the dynamic programme of Dreyfus and
//! Wagner (see [`crate::solver::dreyfus_wagner`]) with priced ends; run outwards again from the root it gives, for
//! each end and state, the least total with that end there (*min-marginals*; the two passes are the
//! inside and outside passes of parsing). No table over combinations of ends is made, which is what
//! [`crate::solver::factor`] has to do: `2^k` shortest-path searches and `3^k·n` sums for `k` ends and `n`
//! states, instead of `n^k`.
//!
//! Prices are seconds in `f64`: they steer and bound; what is exact is decided by
//! [`crate::solver::eliminate`] on whole numbers.

use crate::solver::graph::{Adjacency, Graph};
use crate::solver::weight::Weight;

/// What cannot be.
pub(crate) const NEVER: f64 = f64::INFINITY;

/// The seconds of a weight.
pub(crate) fn seconds(weight: Weight) -> f64 {
    if weight.is_finite() { weight.as_seconds() } else { NEVER }
}

/// The steps between the states of a space, in seconds: a few for each state, where a table of
/// distances would be millions on four axes.
#[derive(Debug)]
pub struct Metric {
    out: Adjacency<f64>,
    into: Adjacency<f64>,
}

impl Metric {
    /// The edges of a graph.
    pub fn new(graph: &Graph) -> Self {
        Self { out: graph.out.map(seconds), into: graph.into.map(seconds) }
    }

    /// How many states there are.
    pub(crate) fn states(&self) -> usize {
        self.out.nodes()
    }

    /// What one walk over all states and steps looks at.
    pub(crate) fn size(&self) -> usize {
        8 * self.states() + self.out.len()
    }

    /// For every state, the least of the way from any state and the price there.
    pub(crate) fn onwards(&self, times: f64, prices: &[f64]) -> Vec<f64> {
        closed(&self.out, times, prices)
    }

    /// For every state, the least of the way to any state and the price there.
    pub(crate) fn backwards(&self, times: f64, prices: &[f64]) -> Vec<f64> {
        closed(&self.into, times, prices)
    }
}

fn closed(steps: &Adjacency<f64>, times: f64, prices: &[f64]) -> Vec<f64> {
    let mut least = prices.to_vec();
    steps.relax(&mut least, NEVER, |step| step * times);
    least
}

/// The smaller of two numbers that are none of them NaN, in the form that is vectorised.
pub(crate) fn lesser(a: f64, b: f64) -> f64 {
    if b < a { b } else { a }
}

/// A tree's least price, by every end.
#[derive(Default)]
pub(crate) struct Marginals {
    /// Over all choices of states.
    pub(crate) least: f64,
    /// From each state on, if the tree starts there: without the root's own price.
    pub(crate) beyond: Vec<f64>,
    /// For each use and state, with that use there; empty if that was not asked for.
    pub(crate) of_use: Vec<Vec<f64>>,
}

/// For every set of uses, the cheapest trees from all states: see [`inside`].
pub(crate) type Inside = Vec<Vec<f64>>;

/// The cheapest trees from `root` to `uses`, each given by the prices of its states and all sets of
/// them by their trees; every step counts `times`.
pub(crate) fn marginals(
    metric: &Metric,
    times: f64,
    root: &[f64],
    (uses, inside): (&[&[f64]], &Inside),
    with_uses: bool,
) -> Marginals {
    let beyond = inside.last().cloned().unwrap_or_default();
    let least = root.iter().zip(&beyond).map(|(at, on)| at + on).fold(NEVER, lesser);
    let of_use = if with_uses { outside(metric, times, root, uses, inside) } else { Vec::new() };
    Marginals { least, beyond, of_use }
}

/// From each state, the cheapest tree to `uses`.
pub(crate) fn of_root(metric: &Metric, times: f64, uses: &[&[f64]]) -> Vec<f64> {
    inside(metric, times, uses)
        .pop()
        .filter(|_| !uses.is_empty())
        .unwrap_or_else(|| vec![0.0; metric.states()])
}

/// To each state, the cheapest tree from `root` that reaches it and serves `others`: the way to it,
/// from which trees to all sets of others branch off.
pub(crate) fn of_one(metric: &Metric, times: f64, root: &[f64], others: &[&[f64]]) -> Vec<f64> {
    let inside = inside(metric, times, others);
    // For every set of others that are still to be served, what has been paid on the way to each
    // state.
    let mut around: Vec<Vec<f64>> = vec![vec![NEVER; metric.states()]; inside.len()];
    if let Some(whole) = around.last_mut() {
        *whole = root.to_vec();
    }
    for set in (0..inside.len()).rev() {
        let reached = metric.onwards(times, &around[set]);
        for branch in subsets(set) {
            for (around, (way, beside)) in
                around[set ^ branch].iter_mut().zip(reached.iter().zip(&inside[branch]))
            {
                *around = lesser(*around, way + beside);
            }
        }
        around[set] = reached;
    }
    around.swap_remove(0)
}

/// Every part of a set but the empty one.
fn subsets(set: usize) -> impl Iterator<Item = usize> {
    let next = move |part: &usize| Some((part - 1) & set).filter(|&part| part != 0);
    std::iter::successors(Some(set).filter(|&set| set != 0), next)
}

/// For every set of uses (a bit each), the cheapest tree from every state that serves it.
pub(crate) fn inside(metric: &Metric, times: f64, uses: &[&[f64]]) -> Inside {
    let mut trees: Vec<Vec<f64>> = vec![Vec::new(); 1 << uses.len()];
    for set in 1..trees.len() {
        let at_fork = if set.is_power_of_two() {
            metric.backwards(times, uses[set.trailing_zeros() as usize])
        } else {
            let mut fork = vec![NEVER; metric.states()];
            for (part, rest) in forks(set) {
                for (fork, (a, b)) in fork.iter_mut().zip(trees[part].iter().zip(&trees[rest])) {
                    *fork = lesser(*fork, a + b);
                }
            }
            metric.backwards(times, &fork)
        };
        trees[set] = at_fork;
    }
    trees
}

/// For every use and state, the least of all trees with the use there.
fn outside(
    metric: &Metric,
    times: f64,
    root: &[f64],
    uses: &[&[f64]],
    inside: &[Vec<f64>],
) -> Vec<Vec<f64>> {
    let mut around: Vec<Vec<f64>> = vec![vec![NEVER; metric.states()]; inside.len()];
    let mut of_use = vec![Vec::new(); uses.len()];
    if let Some(whole) = around.last_mut() {
        *whole = root.to_vec();
    }
    for set in (1..inside.len()).rev() {
        let reached = metric.onwards(times, &around[set]);
        if set.is_power_of_two() {
            let number = set.trailing_zeros() as usize;
            of_use[number] =
                reached.iter().zip(uses[number]).map(|(way, price)| way + price).collect();
            continue;
        }
        for (part, rest) in forks(set) {
            for (one, other) in [(part, rest), (rest, part)] {
                for (around, (way, beside)) in
                    around[one].iter_mut().zip(reached.iter().zip(&inside[other]))
                {
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
    #![expect(clippy::float_cmp, reason = "small whole numbers are exact")]

    use super::*;

    #[test]
    fn a_set_is_cut_in_two_in_every_way_once() {
        assert_eq!(
            forks(0b111).collect::<Vec<_>>(),
            [(0b001, 0b110), (0b011, 0b100), (0b101, 0b010)]
        );
        assert_eq!(forks(0b11_1111).count(), (1 << 5) - 1);
    }

    /// Three states in a row, a second apart, going up only.
    fn row() -> Metric {
        let out = Adjacency::new(&[vec![(1, 1.0)], vec![(2, 1.0)], Vec::new()]);
        Metric { out, into: Adjacency::new(&[Vec::new(), vec![(0, 1.0)], vec![(1, 1.0)]]) }
    }

    #[test]
    fn steps_that_serve_two_uses_are_paid_once() {
        let (at_0, at_2) = ([0.0, NEVER, NEVER], [NEVER, NEVER, 0.0]);
        let uses: [&[f64]; 2] = [&at_2, &[NEVER, 5.0, 0.0]];
        let found = marginals(&row(), 1.0, &at_0, (&uses, &inside(&row(), 1.0, &uses)), true);
        assert_eq!(found.least, 2.0);
        assert_eq!(found.of_use[1], [NEVER, 7.0, 2.0]);
        assert_eq!(found.beyond, [2.0, 1.0, 0.0]);
    }

    #[test]
    fn one_end_is_judged_in_every_state_beside_the_others() {
        let (at_0, at_1) = ([0.0, NEVER, NEVER], [NEVER, 0.0, NEVER]);
        assert_eq!(of_one(&row(), 1.0, &at_0, &[&at_1]), [1.0, 1.0, 2.0]);
        assert_eq!(of_one(&row(), 3.0, &at_0, &[]), [0.0, 3.0, 6.0]);
        assert_eq!(of_root(&row(), 1.0, &[&at_1, &[NEVER, NEVER, 0.0]]), [2.0, 1.0, NEVER]);
        assert_eq!(of_root(&row(), 1.0, &[]), [0.0, 0.0, 0.0]);
    }
}
