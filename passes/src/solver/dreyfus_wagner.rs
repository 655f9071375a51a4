//! The cheapest tree from a root to several terminals, exactly: the dynamic programme of Dreyfus
//! and Wagner (1971).
//!
//! The weight of an edge that serves several terminals counts once: the tree is a Steiner
//! arborescence. Given the table of distances, the algorithm takes `3^k·n + 2^k·n²` for `k`
//! terminals and `n` nodes. Alternatives: a sum of shortest paths counts shared edges twice;
//! integer programming over edges is exact too but a hundred times slower at these sizes.
//! [`crate::solver::marginals`] does the same in floating point, with a price on every node that a
//! terminal may be at.

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use crate::solver::graph::{Graph, Node};
use crate::solver::weight::Weight;

/// A group of nodes, one of which a tree must reach.
pub type Terminal = Vec<Node>;

/// The largest number of different terminals for which the cheapest tree is tabulated: the table
/// doubles with each.
pub(crate) const MOST_TERMINALS: usize = 10;

/// An edge, from its tail to its head.
pub(crate) type TreeEdge = (Node, Node);

/// The table of Dreyfus and Wagner, filled on demand: for a set of terminals, the
/// cost of the cheapest tree from every node.
#[derive(Debug)]
pub struct Trees<'g> {
    graph: &'g Graph,
    rows: IndexMap<Vec<Terminal>, Vec<Weight>, FxBuildHasher>,
}

impl<'g> Trees<'g> {
    /// An empty table over `graph`.
    pub fn new(graph: &'g Graph) -> Self {
        Self { graph, rows: IndexMap::default() }
    }

    /// The graph.
    pub(crate) fn graph(&self) -> &'g Graph {
        self.graph
    }

    /// The cost of the cheapest tree that starts at `root` and reaches all of `terminals`. With
    /// more than [`MOST_TERMINALS`] different ones, a lower bound: the costliest terminal alone.
    pub(crate) fn cost(&mut self, root: Node, terminals: &[Terminal]) -> Weight {
        match terminals {
            [] => Weight::ZERO,
            [one] => self.graph.distance_to_any(root, one),
            _ => {
                let set = distinct(root, terminals);
                if set.len() > MOST_TERMINALS {
                    return set
                        .iter()
                        .map(|group| self.graph.distance_to_any(root, group))
                        .max()
                        .unwrap_or(Weight::ZERO);
                }
                self.row_value(set, root)
            }
        }
    }

    /// The same where the tree first goes from `root` to the cheapest of the nodes `via`, and
    /// every terminal is reached from there.
    pub(crate) fn cost_via(
        &mut self,
        root: Node,
        via: Option<&[Node]>,
        terminals: &[Terminal],
    ) -> Weight {
        let Some(via) = via else { return self.cost(root, terminals) };
        via.iter()
            .map(|&node| self.graph.distance(root, node) + self.cost(node, terminals))
            .min()
            .unwrap_or(Weight::INFINITE)
    }

    /// The edges of the cheapest tree, each after its predecessor. With more than
    /// [`MOST_TERMINALS`] terminals, the edges of a good tree.
    pub(crate) fn edges(&mut self, root: Node, terminals: &[Terminal]) -> Vec<TreeEdge> {
        let mut edges = Vec::new();
        let mut set = distinct(root, terminals);
        while set.len() > MOST_TERMINALS {
            let group = set.pop().expect("the set is longer than the limit");
            let reached: Vec<Node> =
                edges.iter().map(|&(_, head): &TreeEdge| head).chain([root]).collect();
            let from = reached
                .into_iter()
                .min_by_key(|&from| self.graph.distance_to_any(from, &group))
                .unwrap_or(root);
            let to = self.graph.nearest(from, &group).unwrap_or(from);
            extend_tree(&mut edges, root, self.graph.path(from, to));
        }
        self.retrace(&set, root, root, &mut edges);
        edges
    }

    fn row_value(&mut self, set: Vec<Terminal>, node: Node) -> Weight {
        match set.len() {
            0 => Weight::ZERO,
            1 => self.graph.distance_to_any(node, &set[0]),
            _ if self.rows.contains_key(&set) => self.rows[&set][node],
            _ => self.single_value(&set, node),
        }
    }

    /// The entry of one node in the row of a set, without the row, which only larger sets would
    /// need. There are many sets of all terminals of a term, one for each combination of the
    /// choices in its scope, and each is read at few nodes.
    fn single_value(&mut self, set: &[Terminal], node: Node) -> Weight {
        for (part, rest) in splits(set) {
            self.fill(&part);
            self.fill(&rest);
        }
        let forks: Vec<(&[Weight], &[Weight])> = splits(set)
            .map(|(part, rest)| (&self.rows[&part][..], &self.rows[&rest][..]))
            .collect();
        let fork = |at: Node| {
            forks.iter().map(|(part, rest)| part[at] + rest[at]).min().unwrap_or(Weight::INFINITE)
        };
        // A fork further away than the cost of a known tree cannot be in a cheaper one; most are.
        let distances = self.graph.distances_from(node).iter().enumerate();
        distances.fold(fork(node), |least, (at, &distance)| {
            if distance < least { least.min(distance + fork(at)) } else { least }
        })
    }

    fn fill(&mut self, set: &[Terminal]) {
        if set.is_empty() || self.rows.contains_key(set) {
            return;
        }
        let mut labels = vec![Weight::INFINITE; self.graph.nodes()];
        if let [one] = set {
            for &node in one {
                labels[node] = Weight::ZERO;
            }
        } else {
            for (part, rest) in splits(set) {
                self.fill(&part);
                self.fill(&rest);
                let (part, rest) = (&self.rows[&part], &self.rows[&rest]);
                for ((best, &part), &rest) in labels.iter_mut().zip(part).zip(rest) {
                    *best = (*best).min(part + rest);
                }
            }
        }
        self.rows.insert(set.to_vec(), self.graph.distances_to(labels));
    }

    /// Follows the table to the fork of the tree, then down both branches.
    fn retrace(&mut self, set: &[Terminal], root: Node, at: Node, edges: &mut Vec<TreeEdge>) {
        if let [] | [_] = set {
            let target = set.first().and_then(|group| self.graph.nearest(at, group)).unwrap_or(at);
            extend_tree(edges, root, self.graph.path(at, target));
            return;
        }
        self.fill(set);
        let total = self.rows[set][at];
        let forks: Vec<(&[Weight], &[Weight])> = splits(set)
            .map(|(part, rest)| (&self.rows[&part][..], &self.rows[&rest][..]))
            .collect();
        let distances = self.graph.distances_from(at).iter().enumerate();
        let fork =
            distances.filter(|(_, distance)| **distance <= total).find_map(|(node, &distance)| {
                let is_cheapest = |(part, rest): &(&[Weight], &[Weight])| {
                    distance + part[node] + rest[node] == total
                };
                Some((node, forks.iter().position(is_cheapest)?))
            });
        let (node, fork) = fork.expect("the table holds the cost of some fork");
        let (part, rest) = splits(set).nth(fork).expect("forks are the ways to cut the set");
        extend_tree(edges, root, self.graph.path(at, node));
        self.retrace(&part, root, node, edges);
        self.retrace(&rest, root, node, edges);
    }
}

/// The terminals that do not contain `root`, each once, in a fixed order.
fn distinct(root: Node, terminals: &[Terminal]) -> Vec<Terminal> {
    let beyond = terminals.iter().filter(|group| !group.contains(&root));
    let mut set: Vec<Terminal> = beyond.cloned().collect();
    set.sort_unstable();
    set.dedup();
    set
}

/// Every partition of `set` in two, each once.
fn splits(set: &[Terminal]) -> impl Iterator<Item = (Vec<Terminal>, Vec<Terminal>)> + '_ {
    let all = (1_usize << set.len()) - 1;
    (1..all).filter(|part| part & 1 == 1).map(move |part| {
        let pick = |mask: usize| {
            let picked = set.iter().enumerate().filter(|(i, _)| mask >> i & 1 == 1);
            picked.map(|(_, terminal)| terminal.clone()).collect()
        };
        (pick(part), pick(all ^ part))
    })
}

/// Adds a path, without edges to nodes that the tree has already.
fn extend_tree(edges: &mut Vec<TreeEdge>, root: Node, path: Vec<TreeEdge>) {
    for (tail, head) in path {
        if head != root && !edges.iter().any(|&(_, old)| old == head) {
            edges.push((tail, head));
        }
    }
}
