//! Plans between the best one and others.
//!
//! The plans that attain bounds are each good at what has the largest share, and the shortest
//! schedule takes some decisions of one and some of another. So the best plan takes over what
//! another one decides otherwise: the operations that lie together, and each operation alone. What
//! makes it better stays, until nothing does. The busiest resource is minimised like that, too.
//!
//! Alternatives: *other choices of every operation* are many more, and most of them are in no good
//! plan; *more shares* lead to the same few plans again.

use crate::insert_collectives::plan;
use crate::problem::{Problem, Variable};
use crate::search::counterparts;
use crate::search::known_plans::Known;
use crate::solver::dreyfus_wagner::Trees;

/// The part of the steps that may be scheduled which are scheduled here, at most: the others are
/// for branch and bound.
const SHARE: usize = 4;

/// Adds plans between the best one and others, given by their choices.
pub(super) fn cross<'t>(known: &mut Known<'t>, problem: &Problem<'t>, others: &[Vec<usize>]) {
    let least_steps = known.steps - known.steps / SHARE;
    let trees = problem.tables.trees();
    let mut crossing = Crossing { problem, trees, others, least_steps };
    while let Some(own) = known.best.as_ref().map(|best| &best.plan) {
        let Some(own) = counterparts::assignment(problem, own) else { return };
        if !crossing.improves(known, &own) {
            return;
        }
    }
}

struct Crossing<'c, 't> {
    problem: &'c Problem<'t>,
    trees: Vec<Trees<'t>>,
    others: &'c [Vec<usize>],
    /// How many steps of plans may be left to be scheduled.
    least_steps: usize,
}

impl Crossing<'_, '_> {
    /// Whether a plan is found that is better than that with these choices.
    fn improves(&mut self, known: &mut Known<'_>, own: &[usize]) -> bool {
        for other in self.others {
            for taken in self.differences(own, other) {
                if known.steps <= self.least_steps || known.request.interrupt.is_due() {
                    return false;
                }
                let mut crossed = own.to_vec();
                for variable in taken {
                    crossed[variable] = other[variable];
                }
                if !self.problem.is_realisable(&crossed, &mut self.trees) {
                    continue;
                }
                let best_s = known.best_s();
                known.add(plan::plan(self.problem, &crossed, &mut self.trees));
                if known.best_s() < best_s {
                    return true;
                }
            }
        }
        false
    }

    /// The variables that another plan decides otherwise: those that lie together, then each alone.
    fn differences(&self, own: &[usize], other: &[usize]) -> Vec<Vec<usize>> {
        let differ: Vec<usize> = (0..own.len()).filter(|&it| own[it] != other[it]).collect();
        let mut together: Vec<Vec<usize>> = Vec::new();
        for &variable in &differ {
            let (joined, apart): (Vec<_>, Vec<_>) = together
                .into_iter()
                .partition(|group| group.iter().any(|&it| self.are_joined(it, variable)));
            let mut group: Vec<usize> = joined.into_iter().flatten().collect();
            group.push(variable);
            together = apart;
            together.push(group);
        }
        let alone = differ.into_iter().map(|variable| vec![variable]);
        together.into_iter().chain(alone).collect()
    }

    /// Whether one of two variables reads what the other one gives.
    fn are_joined(&self, one: usize, other: usize) -> bool {
        let [a, b] = [one, other].map(|it| &self.problem.variables[it]);
        let reads = |reader: &Variable, definition| reader.operands.contains(&definition);
        reads(a, b.result) || reads(b, a.result)
    }
}
