//! Directed graphs with step weights, and the distances in them.
//!
//! A Steiner-tree term of a model lives on such a graph. Its callers number the nodes; no name of
//! a node is known here. Edges are kept in compressed sparse rows, in both directions.
//!
//! Distances are computed by label correcting: edges are relaxed until no label decreases, in
//! passes over the nodes in ascending and descending order alternately, each from the nodes whose
//! labels decreased since. Where the numbering follows the graph, as it does where larger numbers
//! are finer shardings, two or three passes are enough. Dijkstra's algorithm relaxes every edge
//! once, but takes longer to keep its heap in order than these passes; Bellman's passes visit all
//! nodes each time, most of which have not changed.

use std::ops::Add;
use std::sync::OnceLock;

use crate::solver::marginals::Metric;
use crate::solver::weight::Weight;

/// A node's number in its graph.
pub type Node = usize;

/// Edges out of every node (or into it), contiguous in memory.
#[derive(Debug)]
pub(crate) struct Adjacency<T> {
    /// The index of each node's first edge; the last entry is the number of edges.
    starts: Vec<usize>,
    edges: Vec<(u32, T)>,
}

impl<T: Copy> Adjacency<T> {
    /// The edges of each node.
    pub(crate) fn new(of_nodes: &[Vec<(Node, T)>]) -> Self {
        let mut this = Self { starts: vec![0], edges: Vec::new() };
        for edges in of_nodes {
            this.edges.extend(edges.iter().map(|&(to, weight)| (to as u32, weight)));
            this.starts.push(this.edges.len());
        }
        this
    }

    /// The same with more edges of each node, and more nodes after the last.
    fn with(&self, more: &[Vec<(Node, T)>]) -> Self {
        let known = |node: Node| if node < self.nodes() { self.of(node) } else { &[] };
        let all = |(node, more): (Node, &Vec<(Node, T)>)| {
            known(node)
                .iter()
                .map(|&(to, weight)| (to as Node, weight))
                .chain(more.iter().copied())
                .collect()
        };
        Self::new(&more.iter().enumerate().map(all).collect::<Vec<_>>())
    }

    /// The same edges with other weights.
    pub(crate) fn map<U>(&self, weight: impl Fn(T) -> U) -> Adjacency<U> {
        Adjacency {
            starts: self.starts.clone(),
            edges: self.edges.iter().map(|&(to, old)| (to, weight(old))).collect(),
        }
    }

    /// The same edges with other weights, in the order of their places.
    pub(crate) fn reweighted(&self, weights: impl Iterator<Item = T>) -> Self {
        let edges = self.edges.iter().zip(weights).map(|(&(to, _), weight)| (to, weight));
        Self { starts: self.starts.clone(), edges: edges.collect() }
    }

    /// How many nodes there are.
    pub(crate) fn nodes(&self) -> usize {
        self.starts.len() - 1
    }

    /// How many edges there are.
    pub(crate) fn len(&self) -> usize {
        self.edges.len()
    }

    /// All edges, each with its node, in the order of their places.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Node, Node, T)> + '_ {
        (0..self.nodes()).flat_map(|node| {
            self.of(node).iter().map(move |&(other, weight)| (node, other as Node, weight))
        })
    }

    /// The edges of one node.
    pub(crate) fn of(&self, node: Node) -> &[(u32, T)] {
        &self.edges[self.starts[node]..self.starts[node + 1]]
    }

    /// Relaxes edges until no label in `least` decreases. The label `unreachable` means none;
    /// `scaled` computes the weight of an edge.
    pub(crate) fn relax(&self, least: &mut [T], unreachable: T, scaled: impl Fn(T) -> T)
    where
        T: PartialOrd + Add<Output = T>,
    {
        let mut lowered: Vec<bool> = least.iter().map(|&label| label < unreachable).collect();
        let mut left = lowered.iter().filter(|lowered| **lowered).count();
        let mut upwards = true;
        while left > 0 {
            for i in 0..least.len() {
                let at = if upwards { i } else { least.len() - 1 - i };
                if !std::mem::take(&mut lowered[at]) {
                    continue;
                }
                left -= 1;
                let so_far = least[at];
                for &(to, weight) in self.of(at) {
                    let (to, candidate) = (to as usize, so_far + scaled(weight));
                    if candidate < least[to] {
                        least[to] = candidate;
                        left += usize::from(!std::mem::replace(&mut lowered[to], true));
                    }
                }
            }
            upwards = !upwards;
        }
    }
}

/// A directed graph; distances are computed once they are asked for, and kept.
#[derive(Debug)]
pub struct Graph {
    pub(crate) out: Adjacency<Weight>,
    pub(crate) into: Adjacency<Weight>,
    /// For each node, the distances from it to all nodes.
    distances: Vec<OnceLock<Vec<Weight>>>,
    metric: OnceLock<Metric>,
}

impl Graph {
    /// The graph of these edges out of each node. An edge that two others of positive weight
    /// replace at no higher weight is omitted: both are lighter than it, so all distances stay the
    /// same.
    pub fn new(edges: &[Vec<(Node, Weight)>]) -> Self {
        let mut two = vec![Weight::INFINITE; edges.len()];
        let mut out = Vec::with_capacity(edges.len());
        for first in edges {
            let mut touched = Vec::new();
            for &(middle, weight) in first.iter().filter(|(_, weight)| *weight > Weight::ZERO) {
                for &(to, next) in edges[middle].iter().filter(|(_, next)| *next > Weight::ZERO) {
                    two[to] = two[to].min(weight + next);
                    touched.push(to);
                }
            }
            let kept = first.iter().copied().filter(|&(to, weight)| weight < two[to]);
            out.push(kept.collect::<Vec<_>>());
            for node in touched {
                two[node] = Weight::INFINITE;
            }
        }
        let mut into = vec![Vec::new(); edges.len()];
        for (from, out) in out.iter().enumerate() {
            for &(to, weight) in out {
                into[to].push((from, weight));
            }
        }
        Self::from_adjacency(Adjacency::new(&out), Adjacency::new(&into))
    }

    fn from_adjacency(out: Adjacency<Weight>, into: Adjacency<Weight>) -> Self {
        let distances = (0..out.nodes()).map(|_| OnceLock::new()).collect();
        Self { out, into, distances, metric: OnceLock::new() }
    }

    /// The same graph with other weights.
    pub(crate) fn reweighted(&self, weight: impl Fn(Weight) -> Weight) -> Self {
        Self::from_adjacency(self.out.map(&weight), self.into.map(&weight))
    }

    /// The same graph with one node more after the others, a *store*: every node reaches it at
    /// weight zero, and from it every node is reached at its weight in `offers`, if that is finite.
    pub(crate) fn with_store(&self, offers: &[Weight]) -> Self {
        let store = self.nodes();
        let offered = offers.iter().copied().enumerate().filter(|(_, weight)| weight.is_finite());
        let (mut more_out, mut more_into) =
            (vec![vec![(store, Weight::ZERO)]; store], vec![Vec::new(); store]);
        offered.clone().for_each(|(node, weight)| more_into[node].push((store, weight)));
        more_out.push(offered.collect());
        more_into.push((0..store).map(|node| (node, Weight::ZERO)).collect());
        Self::from_adjacency(self.out.with(&more_out), self.into.with(&more_into))
    }

    /// The same graph with a copy of each node after the others, in their order, whose edges have
    /// the weight that `copied` computes: every node leads to its copy at weight zero, and every
    /// copy back to its node at that node's weight in `offers`, if that is finite.
    pub(crate) fn with_copy(&self, copied: impl Fn(Weight) -> Weight, offers: &[Weight]) -> Self {
        let nodes = self.nodes();
        let there = (0..nodes).map(|node| (node, nodes + node, Weight::ZERO));
        let offered = offers.iter().enumerate().filter(|(_, weight)| weight.is_finite());
        let back = offered.map(|(node, &weight)| (nodes + node, node, weight));
        let among =
            self.out.all().map(|(from, to, weight)| (nodes + from, nodes + to, copied(weight)));
        let (mut more_out, mut more_into) =
            (vec![Vec::new(); 2 * nodes], vec![Vec::new(); 2 * nodes]);
        for (from, to, weight) in there.chain(back).chain(among) {
            more_out[from].push((to, weight));
            more_into[to].push((from, weight));
        }
        Self::from_adjacency(self.out.with(&more_out), self.into.with(&more_into))
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.out.nodes()
    }

    /// Its edges in floating point, for bounds.
    pub(crate) fn metric(&self) -> &Metric {
        self.metric.get_or_init(|| Metric::new(self))
    }

    /// The distances from `from` to all nodes.
    pub(crate) fn distances_from(&self, from: Node) -> &[Weight] {
        self.distances[from].get_or_init(|| {
            let mut distances = vec![Weight::INFINITE; self.nodes()];
            distances[from] = Weight::ZERO;
            self.out.relax(&mut distances, Weight::INFINITE, |weight| weight);
            distances
        })
    }

    /// The distance from `from` to `to`.
    pub fn distance(&self, from: Node, to: Node) -> Weight {
        self.distances_from(from)[to]
    }

    /// The distance from `from` to the nearest of `group`.
    pub fn distance_to_any(&self, from: Node, group: &[Node]) -> Weight {
        group.iter().map(|&to| self.distance(from, to)).min().unwrap_or(Weight::INFINITE)
    }

    /// The node of `group` that is nearest to `from`; the earliest of equals.
    pub fn nearest(&self, from: Node, group: &[Node]) -> Option<Node> {
        group
            .iter()
            .copied()
            .min_by_key(|&to| (self.distance(from, to), to))
            .filter(|&to| self.distance(from, to).is_finite())
    }

    /// For every node, the least of the distance to any node plus that node's label.
    pub(crate) fn distances_to(&self, mut labels: Vec<Weight>) -> Vec<Weight> {
        self.into.relax(&mut labels, Weight::INFINITE, |weight| weight);
        labels
    }

    /// The edges of a shortest path, in order; of equally short ones, that over the nearest nodes.
    pub fn path(&self, from: Node, to: Node) -> Vec<(Node, Node)> {
        let distances = self.distances_from(from);
        let mut edges = Vec::new();
        let mut at = to;
        while at != from {
            let on_a_path =
                self.into.of(at).iter().filter(|&&(before, weight)| {
                    distances[before as usize] + weight == distances[at]
                });
            let before = on_a_path
                .map(|&(before, _)| before as usize)
                .min_by_key(|&before| (distances[before], before))
                .expect("a node that can be reached has one before it");
            edges.push((before, at));
            at = before;
        }
        edges.reverse();
        edges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bellman's passes.
    fn slowly(edges: &Adjacency<u64>, least: &mut [u64]) {
        for _ in 0..least.len() {
            for at in 0..least.len() {
                for &(to, weight) in edges.of(at) {
                    least[to as usize] = least[to as usize].min(least[at].saturating_add(weight));
                }
            }
        }
    }

    #[test]
    fn passes_up_and_down_find_the_distances() {
        let mut random = 1_u64;
        let mut roll = |sides: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % sides
        };
        for _ in 0..200 {
            let nodes = 2 + roll(20);
            let of_nodes: Vec<Vec<(Node, u64)>> = (0..nodes)
                .map(|_| (0..roll(5)).map(|_| (roll(nodes) as Node, 1 + roll(9))).collect())
                .collect();
            let edges = Adjacency::new(&of_nodes);
            let unreachable = u64::MAX / 2;
            let mut least: Vec<u64> =
                (0..nodes).map(|_| if roll(3) == 0 { roll(30) } else { unreachable }).collect();
            let mut wanted = least.clone();
            slowly(&edges, &mut wanted);
            edges.relax(&mut least, unreachable, |weight| weight);
            assert_eq!(least, wanted);
        }
    }

    #[test]
    fn a_copy_is_cheaper_to_walk_and_costs_to_leave() {
        let seconds = Weight::from_femtoseconds;
        let graph = Graph::new(&[vec![(1, seconds(80))], vec![(2, seconds(80))], Vec::new()]);
        let offers = [seconds(0), Weight::INFINITE, seconds(50)];
        let with_copy = graph.with_copy(|weight| weight.divided(8), &offers);
        assert_eq!(with_copy.nodes(), 6);
        assert_eq!(with_copy.distance(0, 2), seconds(10 + 10 + 50));
        assert_eq!(with_copy.distance(0, 1), seconds(80));
        assert_eq!(with_copy.distance(2, 0), Weight::INFINITE);
    }

    #[test]
    fn edges_of_weight_zero_do_not_replace_each_other() {
        let (free, costly) = (Weight::ZERO, Weight::step(1.0));
        let graph = Graph::new(&[
            vec![(1, free), (2, free)],
            vec![(0, free), (2, free), (3, costly)],
            vec![(0, free), (1, free)],
            Vec::new(),
        ]);
        assert_eq!(graph.distance(0, 2), free);
        assert_eq!(graph.distance(2, 3), costly);
        assert_eq!(graph.distance(3, 0), Weight::INFINITE);
    }
}
