//! Min-marginals of a Steiner tree: its least cost for each node that one of its ends may be at.
//!
//! The ends are the root and the terminals; each has a price for every node. The cheapest tree over
//! all choices of nodes is the dynamic programme of Dreyfus and Wagner (see
//! [`crate::solver::dreyfus_wagner`]) with priced ends; a second pass outwards from the root
//! computes, for each end and node, the least total with that end there (*min-marginals*; the two
//! passes are the inside and outside passes of parsing). No table over combinations of ends is
//! needed, unlike in [`crate::solver::factor`]: `2^k` shortest-path searches and `3^k·n` sums for
//! `k` ends and `n` nodes, instead of `n^k`.
//!
//! Prices are seconds in `f64`, which is enough for bounds and heuristics; exact minima are
//! computed by [`crate::solver::eliminate`] on integers.

use std::sync::OnceLock;

use crate::solver::graph::{Adjacency, Graph, Node};
use crate::solver::weight::Weight;

/// The distance of unreachable nodes, and the cost of infeasible choices.
pub(crate) const UNREACHABLE: f64 = f64::INFINITY;

/// The seconds of a weight.
pub(crate) fn seconds(weight: Weight) -> f64 {
    if weight.is_finite() { weight.as_seconds() } else { UNREACHABLE }
}

/// The edges of a graph in seconds: a few for each node, where a table of distances may have
/// millions of entries.
#[derive(Debug)]
pub(crate) struct Metric {
    out: Adjacency<f64>,
    into: Adjacency<f64>,
    /// For each edge out of a node, its place among those into nodes.
    places: OnceLock<Vec<u32>>,
}

impl Metric {
    /// The edges of a graph.
    pub(crate) fn new(graph: &Graph) -> Self {
        let (out, into) = (graph.out.map(seconds), graph.into.map(seconds));
        Self { out, into, places: OnceLock::new() }
    }

    /// How many nodes there are.
    pub(crate) fn nodes(&self) -> usize {
        self.out.nodes()
    }

    /// The numbers that one pass over all nodes and edges evaluates.
    pub(crate) fn size(&self) -> usize {
        8 * self.nodes() + self.out.len()
    }

    /// How many edges there are.
    pub(crate) fn edges(&self) -> usize {
        self.into.len()
    }

    /// The weights of all edges, in the order of the edges into nodes.
    pub(crate) fn weights_into(&self) -> impl Iterator<Item = f64> + '_ {
        self.into.all().map(|(_, _, weight)| weight)
    }

    /// The ends of all edges, from and to, in the order of the edges into nodes.
    pub(crate) fn edges_into(&self) -> impl Iterator<Item = (Node, Node)> + '_ {
        self.into.all().map(|(to, from, _)| (from, to))
    }

    /// The same graph with other weights, in the order of the edges into nodes.
    pub(crate) fn with_weights(&self, weights: &[f64]) -> Self {
        let places = self.places.get_or_init(|| self.places_into());
        Self {
            out: self.out.reweighted(places.iter().map(|&place| weights[place as usize])),
            into: self.into.reweighted(weights.iter().copied()),
            places: OnceLock::new(),
        }
    }

    /// For each edge out of a node, its place among those into nodes; parallel edges are in the
    /// same order in both.
    fn places_into(&self) -> Vec<u32> {
        let mut left: Vec<Vec<(Node, u32)>> = vec![Vec::new(); self.nodes()];
        for (place, (to, from, _)) in self.into.all().enumerate() {
            left[from].push((to, place as u32));
        }
        let mut taken = |(from, to, _)| {
            let of: &mut Vec<(Node, u32)> = &mut left[from];
            let first = of.iter().position(|&(other, _)| other == to);
            of.remove(first.expect("an edge out of a node leads into one")).1
        };
        self.out.all().map(|edge: (Node, Node, f64)| taken(edge)).collect()
    }

    /// The same nodes with some of the edges, in the order of the edges into nodes.
    pub(crate) fn with_edges(&self, is_kept: &[bool]) -> Self {
        let mut out = vec![Vec::new(); self.nodes()];
        let mut into = out.clone();
        for ((to, from, weight), _) in self.into.all().zip(is_kept).filter(|(_, kept)| **kept) {
            out[from].push((to, weight));
            into[to].push((from, weight));
        }
        let (out, into) = (Adjacency::new(&out), Adjacency::new(&into));
        Self { out, into, places: OnceLock::new() }
    }

    /// For every node, the least of the distance from any node plus the price there.
    pub(crate) fn forward_distances(&self, times: f64, prices: &[f64]) -> Vec<f64> {
        let mut least = prices.to_vec();
        self.relax_forward(times, &mut least);
        least
    }

    /// For every node, the least of the distance to any node plus the price there.
    pub(crate) fn backward_distances(&self, times: f64, prices: &[f64]) -> Vec<f64> {
        let mut least = prices.to_vec();
        self.relax_backward(times, &mut least);
        least
    }

    /// The same in place of the prices.
    fn relax_forward(&self, times: f64, prices: &mut [f64]) {
        self.out.relax(prices, UNREACHABLE, |weight| weight * times);
    }

    fn relax_backward(&self, times: f64, prices: &mut [f64]) {
        self.into.relax(prices, UNREACHABLE, |weight| weight * times);
    }
}

/// The smaller of two numbers, neither of them NaN, in a form that is vectorised.
pub(crate) fn lesser(a: f64, b: f64) -> f64 {
    if b < a { b } else { a }
}

/// The min-marginals of a tree, for every end.
#[derive(Default)]
pub(crate) struct Marginals {
    /// Over all choices of nodes.
    pub(crate) least: f64,
    /// For each node, if the tree starts there: without the root's own price.
    pub(crate) from_root: Vec<f64>,
    /// For each terminal and node, with that terminal there; empty if not requested.
    pub(crate) of_terminal: Vec<Vec<f64>>,
    /// For each set of terminals and node, the cost of all but a tree from the node to the set,
    /// where one begins there; empty if terminals are not requested.
    pub(crate) around: OfSets,
}

impl Marginals {
    /// Adds those of a part of the terminals, as what they are above its least: the root's at a
    /// node is the least of what each part can spare there at its share of the price.
    pub(crate) fn add(&mut self, part: Self, share: f64) {
        self.least += part.least;
        let spared = part.from_root.iter().map(|from_root| (from_root - part.least) / share);
        self.from_root
            .iter_mut()
            .zip(spared)
            .for_each(|(least, spared)| *least = lesser(*least, spared));
        self.of_terminal.extend(part.of_terminal.into_iter().map(|of_terminal| {
            of_terminal.iter().map(|marginal| marginal - part.least).collect::<Vec<f64>>()
        }));
    }

    /// Which edges a tree may use that costs at most `gap` more than the least one, in the order of
    /// the edges into nodes; `inside` has the trees to the terminals of this tree.
    pub(crate) fn edges_within(
        &self,
        metric: &Metric,
        times: f64,
        inside: &Inside,
        gap: f64,
    ) -> Vec<bool> {
        let mut within = vec![false; metric.edges()];
        for set in 1..inside.len() {
            let (around, inside) = (self.around.of(set), inside.of(set));
            for (within, (to, from, weight)) in within.iter_mut().zip(metric.into.all()) {
                *within |= around[from] + weight * times + inside[to] <= self.least + gap;
            }
        }
        within
    }

    /// The sum of parts: all marginals above the sum of the least.
    pub(crate) fn above_least(mut self) -> Self {
        let least = self.least;
        self.from_root
            .iter_mut()
            .chain(self.of_terminal.iter_mut().flatten())
            .for_each(|marginal| *marginal += least);
        self
    }
}

/// A number for every node and every set of terminals (a bit each), in one block of memory: passes
/// make and drop thousands of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct OfSets {
    nodes: usize,
    numbers: Vec<f64>,
}

impl OfSets {
    fn new(nodes: usize, terminals: usize) -> Self {
        Self { nodes, numbers: vec![UNREACHABLE; nodes << terminals] }
    }

    /// How many sets there are, the empty one among them.
    fn len(&self) -> usize {
        self.numbers.len().checked_div(self.nodes).unwrap_or(0)
    }

    /// The numbers of a set.
    fn of(&self, set: usize) -> &[f64] {
        &self.numbers[set * self.nodes..][..self.nodes]
    }

    /// Those of all terminals together.
    fn of_all(&self) -> &[f64] {
        self.of(self.len() - 1)
    }

    /// The numbers of each set but the empty one.
    pub(crate) fn of_each(&self) -> impl Iterator<Item = &[f64]> {
        (1..self.len()).map(|set| self.of(set))
    }

    /// The numbers of the sets before one, and its own.
    fn until(&mut self, set: usize) -> (BeforeSet<'_>, &mut [f64]) {
        let (before, from) = self.numbers.split_at_mut(set * self.nodes);
        (BeforeSet { nodes: self.nodes, numbers: before }, &mut from[..self.nodes])
    }
}

/// The numbers of the sets before one.
struct BeforeSet<'s> {
    nodes: usize,
    numbers: &'s mut [f64],
}

impl BeforeSet<'_> {
    fn of(&self, set: usize) -> &[f64] {
        &self.numbers[set * self.nodes..][..self.nodes]
    }

    fn of_mut(&mut self, set: usize) -> &mut [f64] {
        &mut self.numbers[set * self.nodes..][..self.nodes]
    }
}

/// For every set of terminals, the cheapest trees from all nodes: see [`inside`].
pub(crate) type Inside = OfSets;

/// The cheapest trees from `root` to `terminals`, both given by the prices of their nodes; the
/// weight of every edge counts `times` times.
pub(crate) fn marginals(
    metric: &Metric,
    times: f64,
    root: &[f64],
    (terminals, inside): (&[&[f64]], &Inside),
    with_terminals: bool,
) -> Marginals {
    let from_root = inside.of_all().to_vec();
    let least = root.iter().zip(&from_root).map(|(at, on)| at + on).fold(UNREACHABLE, lesser);
    let (around, of_terminal) = if with_terminals {
        outside(metric, times, root, terminals, inside)
    } else {
        Default::default()
    };
    Marginals { least, from_root, of_terminal, around }
}

/// From each node, the cheapest tree to `terminals`.
pub(crate) fn of_root(metric: &Metric, times: f64, terminals: &[&[f64]]) -> Vec<f64> {
    if terminals.is_empty() {
        return vec![0.0; metric.nodes()];
    }
    inside(metric, times, terminals).of_all().to_vec()
}

/// To each node, the cheapest tree from `root` that reaches it and `others`: the path to it, from
/// which trees to all sets of others branch off.
pub(crate) fn of_one(metric: &Metric, times: f64, root: &[f64], others: &[&[f64]]) -> Vec<f64> {
    let inside = inside(metric, times, others);
    // For every set of others that are still to be reached, what has been paid on the path to each
    // node.
    let mut around = OfSets::new(metric.nodes(), others.len());
    let last = (1 << others.len()) - 1;
    around.until(last).1.copy_from_slice(root);
    for set in (0..=last).rev() {
        let (mut before, reached) = around.until(set);
        metric.relax_forward(times, reached);
        for branch in subsets(set) {
            beside(before.of_mut(set ^ branch), reached, inside.of(branch));
        }
    }
    around.numbers.truncate(metric.nodes());
    around.numbers
}

/// The least so far, or the sum of a path and the trees beside it.
fn beside(least: &mut [f64], path: &[f64], trees: &[f64]) {
    for (least, (path, beside)) in least.iter_mut().zip(path.iter().zip(trees)) {
        *least = lesser(*least, path + beside);
    }
}

/// Every subset but the empty one.
fn subsets(set: usize) -> impl Iterator<Item = usize> {
    let next = move |part: &usize| Some((part - 1) & set).filter(|&part| part != 0);
    std::iter::successors(Some(set).filter(|&set| set != 0), next)
}

/// For every set of terminals (a bit each), the cheapest tree from every node that reaches it.
pub(crate) fn inside(metric: &Metric, times: f64, terminals: &[&[f64]]) -> Inside {
    let mut trees = OfSets::new(metric.nodes(), terminals.len());
    for set in 1..1 << terminals.len() {
        let (before, at_fork) = trees.until(set);
        if set.is_power_of_two() {
            at_fork.copy_from_slice(terminals[set.trailing_zeros() as usize]);
        } else {
            for (part, rest) in forks(set) {
                beside(at_fork, before.of(part), before.of(rest));
            }
        }
        metric.relax_backward(times, at_fork);
    }
    trees
}

/// For every set of terminals and node, what is around a tree from there to the set; and for every
/// terminal and node, the least of all trees with the terminal there.
fn outside(
    metric: &Metric,
    times: f64,
    root: &[f64],
    terminals: &[&[f64]],
    inside: &Inside,
) -> (OfSets, Vec<Vec<f64>>) {
    let mut around = OfSets::new(metric.nodes(), terminals.len());
    let mut of_terminal = vec![Vec::new(); terminals.len()];
    let last = (1 << terminals.len()) - 1;
    around.until(last).1.copy_from_slice(root);
    for set in (1..=last).rev() {
        let (mut before, reached) = around.until(set);
        metric.relax_forward(times, reached);
        if set.is_power_of_two() {
            let number = set.trailing_zeros() as usize;
            of_terminal[number] =
                reached.iter().zip(terminals[number]).map(|(path, price)| path + price).collect();
            continue;
        }
        for (part, rest) in forks(set) {
            for (one, other) in [(part, rest), (rest, part)] {
                beside(before.of_mut(one), reached, inside.of(other));
            }
        }
    }
    (around, of_terminal)
}

/// Every partition of a set in two, each once.
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

    /// A path of three nodes, a second apart, going up only.
    fn path() -> Metric {
        let out = Adjacency::new(&[vec![(1, 1.0)], vec![(2, 1.0)], Vec::new()]);
        let into = Adjacency::new(&[Vec::new(), vec![(0, 1.0)], vec![(1, 1.0)]]);
        Metric { out, into, places: OnceLock::new() }
    }

    #[test]
    fn edges_to_two_terminals_are_paid_once() {
        let (at_0, at_2) = ([0.0, UNREACHABLE, UNREACHABLE], [UNREACHABLE, UNREACHABLE, 0.0]);
        let terminals: [&[f64]; 2] = [&at_2, &[UNREACHABLE, 5.0, 0.0]];
        let found =
            marginals(&path(), 1.0, &at_0, (&terminals, &inside(&path(), 1.0, &terminals)), true);
        assert_eq!(found.least, 2.0);
        assert_eq!(found.of_terminal[1], [UNREACHABLE, 7.0, 2.0]);
        assert_eq!(found.from_root, [2.0, 1.0, 0.0]);
    }

    /// The marginals of a tree from a root to two ends, and those within `gap` of the least by the
    /// edges alone that are within it.
    fn with_and_without_edges(metric: &Metric, ends: &[Vec<f64>], gap: f64) -> [Marginals; 2] {
        let [root, terminals @ ..] = ends else { return Default::default() };
        let terminals: Vec<&[f64]> = terminals.iter().map(Vec::as_slice).collect();
        let of = |metric: &Metric| {
            let trees = inside(metric, 2.0, &terminals);
            (marginals(metric, 2.0, root, (&terminals, &trees), true), trees)
        };
        let (all, trees) = of(metric);
        let used = metric.with_edges(&all.edges_within(metric, 2.0, &trees, gap));
        let fewer = of(&used).0;
        [all, fewer]
    }

    #[test]
    fn edges_beyond_the_gap_are_in_no_tree_within_it() {
        let mut random = 3_u64;
        let mut below = |limit: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % limit
        };
        let (mut same, mut beyond) = (0, 0);
        for _ in 0..300 {
            let mut edges = vec![Vec::new(); 6];
            for _ in 0..12 {
                let (from, to) = (below(6) as usize, below(6) as Node);
                edges[from].push((to, Weight::seconds(1.0 + below(9) as f64)));
            }
            let metric = Metric::new(&Graph::new(&edges));
            let ends: Vec<Vec<f64>> =
                (0..3).map(|_| (0..6).map(|_| below(12) as f64).collect()).collect();
            let gap = below(6) as f64;
            let [all, fewer] = with_and_without_edges(&metric, &ends, gap);
            assert_eq!(all.least, fewer.least);
            let both = |of: &Marginals| of.of_terminal.concat();
            for (all_s, fewer_s) in both(&all).into_iter().zip(both(&fewer)) {
                assert!(all_s > all.least + gap || all_s == fewer_s, "{all_s} became {fewer_s}");
                same += usize::from(all_s == fewer_s);
                beyond += usize::from(all_s < fewer_s);
            }
        }
        assert!(same > 1000 && beyond > 100, "{same} the same, {beyond} beyond the gap");
    }

    #[test]
    fn one_end_is_priced_at_every_node_beside_the_others() {
        let (at_0, at_1) = ([0.0, UNREACHABLE, UNREACHABLE], [UNREACHABLE, 0.0, UNREACHABLE]);
        assert_eq!(of_one(&path(), 1.0, &at_0, &[&at_1]), [1.0, 1.0, 2.0]);
        assert_eq!(of_one(&path(), 3.0, &at_0, &[]), [0.0, 3.0, 6.0]);
        assert_eq!(
            of_root(&path(), 1.0, &[&at_1, &[UNREACHABLE, UNREACHABLE, 0.0]]),
            [2.0, 1.0, UNREACHABLE]
        );
        assert_eq!(of_root(&path(), 1.0, &[]), [0.0, 0.0, 0.0]);
    }
}
