//! Branch and bound over choices: parts of the space, the one with the least bound first.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::search::problem::Problem;
use crate::solver::tabulate::{Unary, unary};
use crate::solver::weight::Weight;

/// A part of the space: for each variable that was split, which of its choices are left.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    left: Vec<(usize, Vec<bool>)>,
}

impl Part {
    /// The choices of a variable, of which there are `choices`, that are left here and `wanted`.
    pub(crate) fn of(
        &self,
        variable: usize,
        choices: usize,
        wanted: impl Fn(usize) -> bool,
    ) -> Vec<bool> {
        let left = self.left.iter().find(|(v, _)| *v == variable).map(|(_, left)| left);
        (0..choices).map(|choice| left.is_none_or(|left| left[choice]) && wanted(choice)).collect()
    }

    /// This part in two: with only the `first` choices of a variable, and with only the others.
    pub(crate) fn split(&self, variable: usize, first: Vec<bool>) -> [Self; 2] {
        let rest = self.of(variable, first.len(), |choice| !first[choice]);
        let with = |choices: Vec<bool>| {
            let others = self.left.iter().filter(|(v, _)| *v != variable).cloned();
            Self { left: others.chain([(variable, choices)]).collect() }
        };
        [with(first), with(rest)]
    }

    /// The choices' own prices where they are left, else infinity.
    pub(crate) fn allowed(&self, problem: &Problem<'_>) -> Unary {
        let mut allowed = unary(problem);
        for (variable, left) in &self.left {
            for (weight, _) in allowed[*variable].iter_mut().zip(left).filter(|(_, left)| !**left) {
                *weight = Weight::INFINITE;
            }
        }
        allowed
    }
}

/// A part to look at.
pub(crate) struct Node {
    /// Nothing in it is cheaper, in seconds.
    pub(crate) bound_s: f64,
    /// In the order of making; the root is 0.
    pub(crate) number: usize,
    pub(crate) part: Part,
}

impl Ord for Node {
    fn cmp(&self, other: &Self) -> Ordering {
        other.bound_s.total_cmp(&self.bound_s).then(other.number.cmp(&self.number))
    }
}

impl PartialOrd for Node {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Node {}

/// What a search does with a part.
pub(crate) enum Outcome {
    /// Nothing in it is cheaper than this, and it is not looked into further.
    Closed(f64),
    /// It was split; nothing in either is cheaper than this.
    Split(f64, [Part; 2]),
    /// Nothing is left in it.
    Empty,
}

/// Looks at parts, least bound first, until none can be cheaper than `best_s` says or `look` stops;
/// the least bound of what was not refuted.
pub(crate) fn explore<S>(
    search: &mut S,
    best_s: impl Fn(&S) -> f64,
    stop: impl Fn(&S) -> bool,
    look: impl Fn(&mut S, &Node) -> Outcome,
) -> f64 {
    let mut queue = BinaryHeap::from([Node { bound_s: 0.0, number: 0, part: Part::default() }]);
    let mut made = 1;
    let mut closed_s = f64::INFINITY;
    while let Some(node) = queue.pop() {
        if is_beaten(node.bound_s, best_s(search)) || (node.number > 0 && stop(search)) {
            // All others have no smaller bound.
            return closed_s.min(node.bound_s);
        }
        match look(search, &node) {
            Outcome::Empty => {}
            Outcome::Closed(bound_s) => closed_s = closed_s.min(bound_s),
            Outcome::Split(bound_s, parts) => {
                for part in parts {
                    queue.push(Node { bound_s, number: made, part });
                    made += 1;
                }
            }
        }
    }
    closed_s
}

/// Relative differences below this are rounding.
const ROUNDING: f64 = 1e-9;

/// Whether a bound leaves nothing to win over what is known.
pub(crate) fn is_beaten(bound_s: f64, best_s: f64) -> bool {
    bound_s >= best_s * (1.0 - ROUNDING)
}
