//! Phases below guesses of the value.
//!
//! Reduced-cost fixing removes what the distance between bound and cutoff allows, and the value of
//! the best assignment known is often a poor cutoff. So the search first asks for assignments
//! barely above the bound: most choices go at once, and what is left is enumerated soon. If there
//! is none, that is a proof that the value is at least the guess, and the next phase starts from
//! the root with a larger one. The first phase with an assignment ends with the best one. (Such
//! *iterated cutoffs* are those of iterative deepening, Korf 1985, and of destructive lower bounds,
//! Klein and Scholl 1999.) Each phase takes a multiple of the time of the one before, so that all
//! together take little more than the last.

use crate::solver::capacity::neighbourhoods;
use crate::solver::capacity::network::INFINITE;
use crate::solver::capacity::node::Node;
use crate::solver::capacity::search::Search;

/// The first guess, as a share of the gap or of the bound; and how much further above the bound
/// later ones are.
const FIRST: (f64, f64) = (0.02, 1e-4);
const RAISE: f64 = 1.6;

/// Nodes to branch in a phase, at first, and how many more in later ones.
const NODES: usize = 2000;
const MORE_NODES: f64 = 1.6;

/// Choices left by a guess from which on enumeration is not tried.
const MANY: usize = 4000;

impl Search<'_> {
    /// Searches below guesses of the value, each larger than the one before.
    pub(crate) fn close(&mut self, root: &Node) {
        self.dive(root.clone());
        let known = if self.value.is_finite() { self.value - root.bound } else { 0.0 };
        let mut raise = (FIRST.0 * known).max(FIRST.1 * root.bound.abs()).max(1.0);
        let mut nodes = NODES as f64;
        while self.can_go_on() {
            let guess = (root.bound + raise).ceil();
            if guess >= self.value {
                break;
            }
            raise *= RAISE;
            self.guess = guess;
            if self.bound >= guess {
                continue;
            }
            let mut node = root.clone();
            if self.ascend(&mut node) && self.can_go_on() {
                if node.choices() > MANY {
                    break;
                }
                let bound = self.branch_and_bound(node, nodes as usize);
                self.bound = self.bound.max(bound);
                nodes *= MORE_NODES;
            }
        }
        self.guess = INFINITE;
        self.finish(root, MANY, nodes as usize);
        if self.can_go_on() {
            neighbourhoods::improve(self);
        }
        self.finish(root, usize::MAX, usize::MAX);
    }

    /// Branch and bound below the value, if fixing leaves no more choices than `most`.
    fn finish(&mut self, root: &Node, most: usize, nodes: usize) {
        let mut node = root.clone();
        let is_open = self.can_go_on() && self.ascend(&mut node) && self.can_go_on();
        if is_open && node.choices() <= most {
            let bound = self.branch_and_bound(node, nodes);
            self.bound = self.bound.max(bound);
        }
    }

    fn can_go_on(&self) -> bool {
        self.bound < self.value && !self.must_restart() && !self.is_over()
    }
}
