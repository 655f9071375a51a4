//! A lower bound of a tree to many terminals: a tree to each group of them, with shares of the
//! weight of every edge.
//!
//! A tree pays for an edge once, however many terminals are reached over it. If each group pays a
//! share of every edge, and the shares of an edge add up to one, the cheapest trees at these shares
//! bound the whole: for groups of one terminal the dual of the multicommodity-flow relaxation of
//! the Steiner tree problem (Wong 1984), for larger ones a tighter bound. Even shares are far too
//! small for an edge that few terminals need. So a group gives away what it does not need: at
//! *potentials* `b`, the cost of its cheapest tree from each node to a set of its terminals, an
//! edge `u → v` needs no more than the largest `b(u) − b(v)` of all sets, and no tree becomes
//! cheaper. What all have given away goes to those that need all they have. Each such step raises
//! the bound or leaves it.

use crate::solver::marginals::{Inside, Marginals, Metric, UNREACHABLE, inside, lesser, marginals};

/// Shares kept for one tree, at most: 32 MB.
const MOST_SHARES: usize = 1 << 22;

/// A share below which an edge is not needed: rounding.
const ROUNDING: f64 = 1e-12;

/// The shares of one tree: those of groups of terminals, which bound it, and those of each terminal
/// alone, by which solutions are rounded.
#[derive(Clone, Default)]
pub(crate) struct TreeShares {
    pub(crate) of_groups: EdgeShares,
    pub(crate) of_paths: EdgeShares,
}

/// The weights of the edges that each group of terminals pays, in the order of the edges into
/// nodes.
#[derive(Clone, Default)]
pub(crate) struct EdgeShares {
    of_group: Vec<Vec<f64>>,
    /// Terminals in each group, but for the last.
    together: usize,
}

impl EdgeShares {
    /// Whether the shares of so many terminals are kept.
    pub(crate) fn fit(metric: &Metric, terminals: usize, together: usize) -> bool {
        metric.edges().saturating_mul(terminals.div_ceil(together)) <= MOST_SHARES
    }

    /// Whether there are any yet.
    pub(crate) fn is_set(&self) -> bool {
        !self.of_group.is_empty()
    }

    /// For every node, the cost of a terminal's path to it from `root` at its shares, where each
    /// terminal is a group.
    pub(crate) fn to_terminal(
        &self,
        metric: &Metric,
        times: f64,
        root: &[f64],
        terminal: usize,
    ) -> Vec<f64> {
        metric.with_weights(&self.of_group[terminal]).forward_distances(times, root)
    }

    /// The bound and the marginals of a tree from `root` to `ends`, both given by the prices of
    /// their nodes, in groups of so many; and better shares for the next time.
    pub(crate) fn marginals(
        &mut self,
        metric: &Metric,
        times: f64,
        root: &[f64],
        (ends, together): (&[&[f64]], usize),
        with_terminals: bool,
    ) -> Marginals {
        let share = |group: &[&[f64]]| group.len() as f64 / ends.len() as f64;
        if !self.is_set() {
            self.together = together;
            let even = |group| metric.weights_into().map(|weight| weight * share(group)).collect();
            self.of_group = ends.chunks(together).map(even).collect();
        }
        let mut all =
            Marginals { from_root: vec![UNREACHABLE; root.len()], ..Marginals::default() };
        for (group, weights) in ends.chunks(self.together).zip(&mut self.of_group) {
            let (own, share) = (metric.with_weights(weights), share(group));
            let trees = inside(&own, times, group);
            let own_root: Vec<f64> = root.iter().map(|price| price * share).collect();
            let part = marginals(&own, times, &own_root, (group, &trees), with_terminals);
            if !with_terminals {
                lower_to_potentials(metric, times, weights, &trees);
            }
            all.add(part, share);
        }
        if !with_terminals {
            self.hand_out(metric);
        }
        all.above_least()
    }

    /// Divides what is left of each edge among the groups that need it, or evenly.
    fn hand_out(&mut self, metric: &Metric) {
        let even = 1.0 / self.of_group.len() as f64;
        for (edge, weight) in metric.weights_into().enumerate() {
            let shares = || self.of_group.iter().map(|weights| weights[edge]);
            let left = weight - shares().sum::<f64>();
            if !(left > 0.0 && left.is_finite()) {
                continue;
            }
            let needed = shares().filter(|share| *share > ROUNDING * weight).count();
            for weights in &mut self.of_group {
                let needs = weights[edge] > ROUNDING * weight;
                weights[edge] += match needed {
                    0 => left * even,
                    _ if needs => left / needed as f64,
                    _ => 0.0,
                };
            }
        }
    }
}

/// Lowers each weight as far as no tree to a set of terminals becomes cheaper.
fn lower_to_potentials(metric: &Metric, times: f64, weights: &mut [f64], trees: &Inside) {
    for (weight, (from, to)) in weights.iter_mut().zip(metric.edges_into()) {
        // Where neither node reaches the set, the difference is no number, and nothing is needed.
        let needed = trees.of_each().map(|tree| (tree[from] - tree[to]) / times);
        *weight = lesser(
            *weight,
            needed.fold(0.0, |most, needed| if needed > most { needed } else { most }),
        );
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::solver::dreyfus_wagner::{Terminal, Trees};
    use crate::solver::graph::{Graph, Node};
    use crate::solver::weight::Weight;

    struct Draws(u64);

    impl Draws {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 33) % limit
        }
    }

    const NODES: usize = 5;
    const ENDS: usize = 3;

    /// A graph, the prices of the root's nodes, and those of each end.
    fn case(draws: &mut Draws) -> (Graph, Vec<f64>, Vec<Vec<f64>>) {
        let mut edges = vec![Vec::new(); NODES];
        for _ in 0..4 + draws.below(8) {
            let (from, to) = (draws.below(NODES as u64) as usize, draws.below(NODES as u64));
            edges[from].push((to as Node, Weight::seconds(draws.below(9) as f64)));
        }
        let mut prices = || {
            let price = |draws: &mut Draws| match draws.below(4) {
                3 => UNREACHABLE,
                _ => draws.below(12) as f64,
            };
            (0..NODES).map(|_| price(draws)).collect::<Vec<f64>>()
        };
        let ends = (0..ENDS).map(|_| prices()).collect();
        let root = (0..NODES).map(|node| if node == 0 { 0.0 } else { UNREACHABLE }).collect();
        (Graph::new(&edges), root, ends)
    }

    /// The least cost of a tree and of its ends, by enumeration of the ends, and the least with the
    /// last end at each node.
    fn least(graph: &Graph, root: &[f64], ends: &[Vec<f64>], times: f64) -> (f64, Vec<f64>) {
        let mut trees = Trees::new(graph);
        let mut of_last = vec![UNREACHABLE; NODES];
        for place in 0..NODES.pow(1 + ENDS as u32) {
            let node = |i: u32| place / NODES.pow(i) % NODES;
            let paid: f64 = (0..ENDS).map(|i| ends[i][node(i as u32 + 1)]).sum();
            let terminals: Vec<Terminal> =
                (0..ENDS).map(|i| smallvec![node(i as u32 + 1)]).collect();
            let tree = trees.cost(node(0), &terminals);
            if tree.is_finite() {
                let cost = root[node(0)] + paid + times * tree.as_seconds();
                let last = &mut of_last[node(ENDS as u32)];
                *last = lesser(*last, cost);
            }
        }
        (of_last.iter().copied().fold(UNREACHABLE, lesser), of_last)
    }

    #[test]
    fn bounds_rise_and_stay_below_every_tree() {
        let (mut draws, mut closed, mut finite) = (Draws(7), 0, 0);
        for _ in 0..400 {
            let (graph, root, ends) = case(&mut draws);
            let times = 1.0 + draws.below(3) as f64;
            let (least, of_last) = least(&graph, &root, &ends, times);
            let ends: Vec<&[f64]> = ends.iter().map(Vec::as_slice).collect();
            let (metric, mut shares) = (Metric::new(&graph), EdgeShares::default());
            let together = 1 + draws.below(2) as usize;
            let mut before = 0.0;
            for round in 0..24 {
                let with_ends = round % 2 == 1;
                let found = shares.marginals(&metric, times, &root, (&ends, together), with_ends);
                assert!(found.least >= before - 1e-9, "{} after {before}", found.least);
                assert!(found.least <= least + 1e-9, "{} above {least}", found.least);
                if let Some(of_terminal) = found.of_terminal.last() {
                    for (bound, least) in of_terminal.iter().zip(&of_last) {
                        assert!(bound.is_nan() || *bound <= least + 1e-9);
                    }
                }
                before = found.least;
            }
            finite += usize::from(least < UNREACHABLE);
            closed += usize::from(least < UNREACHABLE && before >= least - 1e-6);
        }
        assert!(finite > 100 && closed * 10 > finite * 8, "{closed} of {finite}");
    }
}
