//! The cheapest tree from a root to several terminals, exactly: the dynamic programme of Dreyfus
//! and Wagner (1971).
//!
//! The weight of an edge that serves several terminals counts once: the tree is a Steiner
//! arborescence. Given the table of distances, the algorithm takes `3^k·n + 2^k·n²` for `k`
//! terminals and `n` nodes. Alternatives: a sum of shortest paths counts shared edges twice;
//! integer programming over edges is exact too but a hundred times slower at these sizes.
//! [`crate::solver::marginals`] does the same in floating point, with a price on every node that a
//! terminal may be at.

use indexmap::{IndexMap, IndexSet};
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use crate::solver::graph::{Graph, Node};
use crate::solver::weight::Weight;

/// A group of nodes, one of which a tree must reach; mostly there is one.
pub type Terminal = SmallVec<[Node; 2]>;

/// A terminal by its number: that of its node, or one after all of those.
type TerminalId = u32;

/// Terminals, each once, in the order of their nodes.
type Set = SmallVec<[TerminalId; 4]>;

/// The largest number of different terminals for which the cheapest tree is tabulated: the table
/// doubles with each.
pub(crate) const MOST_TERMINALS: usize = 10;

/// Numbers in all rows that are kept from one table of a term to the next, and in those of one:
/// 256 MB.
pub(crate) const MOST_NUMBERS: usize = 1 << 24;

/// An edge, from its tail to its head.
pub(crate) type TreeEdge = (Node, Node);

/// The table of Dreyfus and Wagner, filled on demand: for a set of terminals, the
/// cost of the cheapest tree from every node.
#[derive(Debug)]
pub struct Trees<'g> {
    graph: &'g Graph,
    /// All nodes in order: each is a terminal of its own.
    nodes: Vec<Node>,
    /// The terminals of several nodes, or none.
    groups: IndexSet<Terminal, FxBuildHasher>,
    rows: IndexMap<Set, Vec<Weight>, FxBuildHasher>,
}

/// A row takes as long as so many of its entries do on their own.
const ENTRIES_OF_A_ROW: usize = 3;

/// A row takes as long as so many lookups of distances, for each node.
const LOOKUPS_OF_A_NODE: usize = 64;

/// Nodes of a graph above which the distances from all of them are not worth their time.
const MANY_NODES: usize = 1000;

impl<'g> Trees<'g> {
    /// An empty table over `graph`.
    pub fn new(graph: &'g Graph) -> Self {
        Self {
            graph,
            nodes: (0..graph.nodes()).collect(),
            groups: IndexSet::default(),
            rows: IndexMap::default(),
        }
    }

    /// The graph.
    pub(crate) fn graph(&self) -> &'g Graph {
        self.graph
    }

    /// Removes all rows where they are too many to be kept.
    pub(crate) fn limit_rows(&mut self) {
        if self.rows.len() * self.nodes.len() > MOST_NUMBERS {
            self.rows.clear();
        }
    }

    /// The cost of the cheapest tree that starts at `root` and reaches all of `terminals`. With
    /// more than [`MOST_TERMINALS`] different ones, a lower bound: the costliest terminal alone.
    pub(crate) fn cost(&mut self, root: Node, terminals: &[Terminal]) -> Weight {
        match terminals {
            [] => Weight::ZERO,
            [one] => self.graph.distance_to_any(root, one),
            _ => {
                let set = self.distinct(Some(root), terminals);
                if set.len() > MOST_TERMINALS {
                    let alone = |&id| self.graph.distance_to_any(root, self.terminal(id));
                    return set.iter().map(alone).max().unwrap_or(Weight::ZERO);
                }
                self.row_value(set, root)
            }
        }
    }

    /// The terminals that do not contain `root`, each once, in a fixed order.
    fn distinct(&mut self, root: Option<Node>, terminals: &[Terminal]) -> Set {
        let is_there = |terminal: &Terminal| root.is_some_and(|root| terminal.contains(&root));
        let beyond = terminals.iter().filter(|terminal| !is_there(terminal));
        let mut set: Set = beyond.map(|terminal| self.id_of(terminal)).collect();
        set.sort_unstable_by(|&a, &b| self.terminal(a).cmp(self.terminal(b)));
        set.dedup();
        set
    }

    fn id_of(&mut self, terminal: &Terminal) -> TerminalId {
        let id = match terminal[..] {
            [node] => node,
            _ => match self.groups.get_index_of(terminal) {
                Some(known) => self.nodes.len() + known,
                None => self.nodes.len() + self.groups.insert_full(terminal.clone()).0,
            },
        };
        id as TerminalId
    }

    /// The nodes of a terminal.
    fn terminal(&self, id: TerminalId) -> &[Node] {
        let id = id as usize;
        let alone = self.nodes.get(id).map(std::slice::from_ref);
        alone.unwrap_or_else(|| &self.groups[id - self.nodes.len()])
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
        if matches!(terminals, [_]) && self.is_row_worthwhile(via.len(), terminals) {
            return self.costs_via(&[root], Some(via), terminals)[0];
        }
        via.iter()
            .map(|&node| self.graph.distance(root, node) + self.cost(node, terminals))
            .min()
            .unwrap_or(Weight::INFINITE)
    }

    /// The same from each of several roots.
    pub(crate) fn costs_via(
        &mut self,
        roots: &[Node],
        via: Option<&[Node]>,
        terminals: &[Terminal],
    ) -> Vec<Weight> {
        if !self.is_row_worthwhile(roots.len() * via.map_or(1, <[Node]>::len), terminals) {
            return roots.iter().map(|&root| self.cost_via(root, via, terminals)).collect();
        }
        // Of terminals at a root the row has the same value without them: they cost nothing.
        let set = self.distinct(None, terminals);
        let row = self.row_of(&set);
        let Some(via) = via else { return roots.iter().map(|&root| row[root]).collect() };
        let nodes = self.nodes.len();
        if nodes > MANY_NODES || roots.len() * via.len() > LOOKUPS_OF_A_NODE * nodes {
            let row = self.row_through(via, &row);
            return roots.iter().map(|&root| row[root]).collect();
        }
        let through = |root| via.iter().map(move |&node| (root, node));
        let cost = |(root, node)| self.graph.distance(root, node) + row[node];
        let least = |&root| through(root).map(cost).min().unwrap_or(Weight::INFINITE);
        roots.iter().map(least).collect()
    }

    /// Whether a row takes no longer than so many of its entries on their own.
    fn is_row_worthwhile(&self, entries: usize, terminals: &[Terminal]) -> bool {
        let nodes = self.nodes.len();
        match terminals {
            [] => false,
            [one] => {
                let is_long = nodes > MANY_NODES && entries >= ENTRIES_OF_A_ROW;
                is_long || entries * one.len() > LOOKUPS_OF_A_NODE * nodes
            }
            _ => terminals.len() <= MOST_TERMINALS && entries >= ENTRIES_OF_A_ROW,
        }
    }

    /// The row of trees that first go to the cheapest of the nodes `via`.
    fn row_through(&self, via: &[Node], row: &[Weight]) -> Vec<Weight> {
        let mut labels = vec![Weight::INFINITE; row.len()];
        for &node in via {
            labels[node] = row[node];
        }
        self.graph.distances_to(labels)
    }

    /// The edges of the cheapest tree, each after its predecessor. With more than
    /// [`MOST_TERMINALS`] terminals, the edges of a good tree.
    pub(crate) fn edges(&mut self, root: Node, terminals: &[Terminal]) -> Vec<TreeEdge> {
        let mut edges = Vec::new();
        let mut set = self.distinct(Some(root), terminals);
        while set.len() > MOST_TERMINALS {
            let last = set.pop().expect("the set is longer than the limit");
            let group = self.terminal(last);
            let reached: Vec<Node> =
                edges.iter().map(|&(_, head): &TreeEdge| head).chain([root]).collect();
            let from = reached
                .into_iter()
                .min_by_key(|&from| self.graph.distance_to_any(from, group))
                .unwrap_or(root);
            let to = self.graph.nearest(from, group).unwrap_or(from);
            extend_tree(&mut edges, root, self.graph.path(from, to));
        }
        self.retrace(&set, root, root, &mut edges);
        edges
    }

    fn row_value(&mut self, set: Set, node: Node) -> Weight {
        match set.len() {
            0 => Weight::ZERO,
            1 => self.graph.distance_to_any(node, self.terminal(set[0])),
            _ => self.single_value(&set, node),
        }
    }

    /// The entry of one node in the row of a set, without the row.
    fn single_value(&mut self, set: &[TerminalId], node: Node) -> Weight {
        let filled: SmallVec<[(usize, usize); 4]> =
            splits(set).map(|(part, rest)| (self.fill(part), self.fill(rest))).collect();
        let forks: SmallVec<[(&[Weight], &[Weight]); 4]> = filled
            .iter()
            .map(|&(part, rest)| (&self.rows[part][..], &self.rows[rest][..]))
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

    /// The place of the row of a set, which is made if it is not there.
    fn fill(&mut self, set: Set) -> usize {
        if let Some(place) = self.rows.get_index_of(&set) {
            return place;
        }
        let row = self.row_of(&set);
        self.rows.insert_full(set, row).0
    }

    /// The cost of the cheapest tree to all of a set from every node.
    fn row_of(&mut self, set: &[TerminalId]) -> Vec<Weight> {
        let mut labels = vec![Weight::INFINITE; self.graph.nodes()];
        if let [one] = *set {
            for &node in self.terminal(one) {
                labels[node] = Weight::ZERO;
            }
        }
        for (part, rest) in splits(set) {
            let (part, rest) = (self.fill(part), self.fill(rest));
            for ((best, &part), &rest) in
                labels.iter_mut().zip(&self.rows[part]).zip(&self.rows[rest])
            {
                *best = (*best).min(part + rest);
            }
        }
        self.graph.distances_to(labels)
    }

    /// Follows the table to the fork of the tree, then down both branches.
    fn retrace(&mut self, set: &[TerminalId], root: Node, at: Node, edges: &mut Vec<TreeEdge>) {
        if let [] | [_] = set {
            let nearest = |&id| self.graph.nearest(at, self.terminal(id));
            let target = set.first().and_then(nearest).unwrap_or(at);
            extend_tree(edges, root, self.graph.path(at, target));
            return;
        }
        let row = self.fill(set.into());
        let total = self.rows[row][at];
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

/// Every partition of `set` in two, each once.
fn splits(set: &[TerminalId]) -> impl Iterator<Item = (Set, Set)> + '_ {
    let all = (1_usize << set.len()) - 1;
    (1..all).step_by(2).map(move |part| {
        let pick = |mask: usize| {
            let picked = set.iter().enumerate().filter(|(i, _)| mask >> i & 1 == 1);
            picked.map(|(_, &id)| id).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A graph in which every node has edges to some that follow it in a circle.
    fn circle(nodes: Node) -> Graph {
        let edges = |node: Node| {
            let steps = [1, 3, 4].map(|step| (node + step * (1 + node % 3)) % nodes);
            let weight = |at: usize| Weight::seconds((1 + (node * 7 + at * 5) % 11) as f64);
            steps.into_iter().enumerate().map(|(at, to)| (to, weight(at))).collect::<Vec<_>>()
        };
        Graph::new(&(0..nodes).map(edges).collect::<Vec<_>>())
    }

    #[test]
    fn rows_through_other_nodes_are_the_cheapest_of_all_ways() {
        let nodes = 24;
        let graph = circle(nodes);
        let mut trees = Trees::new(&graph);
        let roots: Vec<Node> = (0..nodes).collect();
        for (first, every) in [(0, 1), (1, 2), (5, 2)] {
            let via: Vec<Node> = (first..nodes).step_by(every).collect();
            let group: Terminal = (0..nodes - first).step_by(every).collect();
            let terminals = [group.clone()];
            let entries = roots.len() * via.len();
            assert!(trees.is_row_worthwhile(entries, &terminals), "else nothing is compared");
            let costs = trees.costs_via(&roots, Some(&via), &terminals);
            for (&root, cost) in roots.iter().zip(costs) {
                let to =
                    |&node: &Node| graph.distance(root, node) + graph.distance_to_any(node, &group);
                assert_eq!(via.iter().map(to).min(), Some(cost), "from {root}");
            }
        }
    }
}
