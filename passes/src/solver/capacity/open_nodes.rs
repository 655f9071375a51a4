//! The nodes that are still to be branched, within a limit of memory: every one has a network and
//! messages of its own, and there may be a hundred thousand of them.
//!
//! Where they take too much, those with the highest bounds are given up: the least bound, which is
//! that of the whole, can rise up to theirs. To give up those with the least would end its rise at
//! once; depth first needs less memory, and raises it only at the end.

use crate::solver::capacity::network::INFINITE;
use crate::solver::capacity::node::Node;

/// Open nodes, each with the numbers that it holds.
#[derive(Default)]
pub(crate) struct OpenNodes {
    nodes: Vec<(Node, usize)>,
    /// The numbers of all.
    held: usize,
}

impl OpenNodes {
    /// The least bound.
    pub(crate) fn bound(&self) -> f64 {
        self.nodes.iter().map(|(node, _)| node.bound).fold(INFINITE, f64::min)
    }

    /// Removes the nodes that contain nothing below a cutoff.
    pub(crate) fn close(&mut self, cutoff: f64) {
        self.nodes.retain(|(node, _)| node.bound < cutoff);
        self.held = self.nodes.iter().map(|(_, numbers)| numbers).sum();
    }

    /// Removes the node with the least bound.
    pub(crate) fn pop(&mut self) -> Option<Node> {
        let bounds = self.nodes.iter().enumerate();
        let least = bounds.min_by(|(_, (a, _)), (_, (b, _))| a.bound.total_cmp(&b.bound))?.0;
        Some(self.take(least))
    }

    /// Adds nodes, and gives up those with the highest bounds until all hold at most so many
    /// numbers; returns the least bound given up.
    pub(crate) fn extend(&mut self, nodes: Vec<Node>, most: usize) -> f64 {
        for node in nodes {
            let numbers = node.numbers();
            self.held += numbers;
            self.nodes.push((node, numbers));
        }
        let mut given_up = INFINITE;
        while self.held > most {
            let bounds = self.nodes.iter().enumerate();
            let highest = bounds.max_by(|(_, (a, _)), (_, (b, _))| a.bound.total_cmp(&b.bound));
            let Some((highest, _)) = highest else { break };
            given_up = given_up.min(self.take(highest).bound);
        }
        given_up
    }

    fn take(&mut self, place: usize) -> Node {
        let (node, numbers) = self.nodes.swap_remove(place);
        self.held -= numbers;
        node
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::float_cmp, reason = "bounds stay as they are")]

    use super::*;
    use crate::solver::capacity::message_passing::Sent;
    use crate::solver::capacity::network::Network;

    fn node(bound: f64) -> Node {
        let network = Network::new(vec![vec![0.0, 1.0]], Vec::new(), 0.0);
        let mut node = Node::root(network, Vec::new(), &Sent::default(), &[]);
        node.bound = bound;
        node
    }

    #[test]
    fn those_with_the_highest_bounds_are_given_up_and_bound_the_rest() {
        let bounds = [3.0, 1.0, 4.0, 2.0];
        let two = 2 * node(0.0).numbers();
        let mut open = OpenNodes::default();
        assert_eq!(open.extend(bounds.map(node).into(), two), 3.0);
        assert_eq!(open.bound(), 1.0);
        assert_eq!(open.extend(vec![node(5.0)], usize::MAX), INFINITE, "all fit");
        let kept: Vec<f64> = std::iter::from_fn(|| open.pop()).map(|node| node.bound).collect();
        assert_eq!(kept, [1.0, 2.0, 5.0]);
        assert_eq!(open.held, 0);
    }

    #[test]
    fn closed_nodes_hold_nothing() {
        let mut open = OpenNodes::default();
        open.extend(vec![node(1.0), node(2.0)], usize::MAX);
        open.close(2.0);
        assert_eq!((open.held, open.bound()), (node(1.0).numbers(), 1.0));
    }
}
