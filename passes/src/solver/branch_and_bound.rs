//! Branch and bound over choices: best-first, the subproblem with the least bound next.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::solver::model::UnaryCosts;
use crate::solver::weight::Weight;

/// A part of the space: for each variable that was branched on, the remaining choices.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subproblem {
    left: Vec<(usize, Vec<bool>)>,
}

impl Subproblem {
    /// Of the `choices` of a variable, those that remain in this subproblem and are `wanted`.
    pub(crate) fn choices(
        &self,
        variable: usize,
        choices: usize,
        wanted: impl Fn(usize) -> bool,
    ) -> Vec<bool> {
        let left = self.left.iter().find(|(v, _)| *v == variable).map(|(_, left)| left);
        (0..choices).map(|choice| left.is_none_or(|left| left[choice]) && wanted(choice)).collect()
    }

    /// This subproblem in two: with only the `first` choices of a variable, and with only the
    /// others.
    pub(crate) fn branch(&self, variable: usize, first: Vec<bool>) -> [Self; 2] {
        let rest = self.choices(variable, first.len(), |choice| !first[choice]);
        let with = |choices: Vec<bool>| {
            let others = self.left.iter().filter(|(v, _)| *v != variable).cloned();
            Self { left: others.chain([(variable, choices)]).collect() }
        };
        [with(first), with(rest)]
    }

    /// The unary costs, infinite for choices that were removed.
    pub(crate) fn allowed(&self, unary: &UnaryCosts) -> UnaryCosts {
        let mut allowed = unary.clone();
        for (variable, left) in &self.left {
            for (weight, _) in allowed[*variable].iter_mut().zip(left).filter(|(_, left)| !**left) {
                *weight = Weight::INFINITE;
            }
        }
        allowed
    }
}

/// A node of the search tree. Of two, the one with the lesser bound is first, then the older one.
pub(crate) struct OpenNode<P = Subproblem> {
    /// The lower bound of the subproblem, in seconds.
    pub(crate) bound_s: f64,
    /// The number of the node in the order of creation; the root is 0.
    pub(crate) number: usize,
    pub(crate) subproblem: P,
}

impl<P> Ord for OpenNode<P> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.bound_s.total_cmp(&self.bound_s).then(other.number.cmp(&self.number))
    }
}

impl<P> PartialOrd for OpenNode<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> PartialEq for OpenNode<P> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<P> Eq for OpenNode<P> {}

/// The result of evaluating a node.
pub(crate) enum Outcome {
    /// A lower bound; the node is not branched on.
    Closed(f64),
    /// A lower bound, and the two subproblems that the node is branched into.
    Branched(f64, [Subproblem; 2]),
    /// The node has no feasible assignment.
    Empty,
}

/// Evaluates nodes, least bound first, until none can improve on `best_s` or `stop` is true;
/// returns the least bound of the nodes that were not pruned.
pub(crate) fn best_first<S>(
    search: &mut S,
    best_s: impl Fn(&S) -> f64,
    stop: impl Fn(&S) -> bool,
    evaluate: impl Fn(&mut S, &OpenNode) -> Outcome,
) -> f64 {
    let root = OpenNode { bound_s: 0.0, number: 0, subproblem: Subproblem::default() };
    let mut queue = BinaryHeap::from([root]);
    let mut made = 1;
    let mut closed_s = f64::INFINITY;
    while let Some(node) = queue.pop() {
        if can_prune(node.bound_s, best_s(search)) || (node.number > 0 && stop(search)) {
            // No other node has a smaller bound.
            return closed_s.min(node.bound_s);
        }
        match evaluate(search, &node) {
            Outcome::Empty => {}
            Outcome::Closed(bound_s) => closed_s = closed_s.min(bound_s),
            Outcome::Branched(bound_s, subproblems) => {
                for subproblem in subproblems {
                    queue.push(OpenNode { bound_s, number: made, subproblem });
                    made += 1;
                }
            }
        }
    }
    closed_s
}

/// Relative differences below this are rounding errors.
const ROUNDING: f64 = 1e-9;

/// Whether a bound proves that the node cannot improve on a known solution.
pub(crate) fn can_prune(bound_s: f64, best_s: f64) -> bool {
    bound_s >= best_s * (1.0 - ROUNDING)
}
