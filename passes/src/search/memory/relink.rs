//! Plans between those that were found: path relinking within the capacity.
//!
//! Searches within different limits end with plans that differ in a few places: one shards the
//! weights of a layer, another what layers hand from one to the next. A plan with the choices of
//! one here and of the other there often fits where the first does not and is faster than the
//! second, and no search at one price of a byte finds it. So plans that are faster and do not fit
//! take over choices of smaller ones until they fit, those that cost the least time per byte first;
//! and all that fit take over choices of others, and keep values, while the capacity allows
//! ([`Filling`]).
//!
//! Alternatives: a search over the choices in which the plans differ, others fixed, is exact in
//! what choices demand one by one, which is less than the peak; what is measured here are plans.
//! Single choices, each with all its alternatives, are many more than those in which good plans
//! differ, and most cost a collective on both sides.

use std::sync::Arc;

use indexmap::IndexSet;
use shardwise_ir::ids::ValueId;
use shardwise_ir::plan::Plan;

use crate::problem::Problem;
use crate::search::counterparts::Counterparts;
use crate::search::memory::fill::{Candidate, Change, Filling};
use crate::search::memory::measures::Measures;

/// Plans that are measured, times the operations of the program: a second or two.
const MOST_MEASURED: usize = 60_000;

/// How often a plan takes over choices, each time from where it then is.
const ROUNDS: usize = 3;

/// Plans of the front on either side of the capacity.
const NEAREST: usize = 8;

/// The plans between those on the front that was measured; the values of `all` are rematerialised
/// at first.
pub(super) fn plans(
    filling: &Filling<'_, '_>,
    all: &IndexSet<ValueId>,
    measures: &Measures<'_, '_>,
) -> Vec<Plan> {
    let (exceeding, fitting) = measures.near(filling.capacity, NEAREST);
    let found = || fitting.iter().chain(&exceeding);
    let Some(first) = found().find_map(|plan| assignment(filling.problem, plan, None)) else {
        return Vec::new();
    };
    let assigned = |plan: &Arc<Plan>| assignment(filling.problem, plan, Some(&first));
    let pool: IndexSet<Vec<usize>> = found().filter_map(assigned).collect();
    let relinking = Relinking {
        filling,
        pool: pool.into_iter().collect(),
        most: MOST_MEASURED / filling.problem.program.ops.len().max(1),
    };
    relinking.plans(all)
}

/// The choices of a plan, with those of another where the problem does not have them.
fn assignment(problem: &Problem<'_>, plan: &Plan, other: Option<&[usize]>) -> Option<Vec<usize>> {
    let mut counterparts = Counterparts::new(plan, problem.program);
    let choice = |(number, variable)| {
        counterparts.choice(problem, variable).or_else(|| Some(other?[number]))
    };
    problem.variables.iter().enumerate().map(choice).collect()
}

struct Relinking<'r, 'f, 'a> {
    filling: &'r Filling<'f, 'a>,
    /// What choices are taken over from.
    pool: Vec<Vec<usize>>,
    /// Plans that are measured at most.
    most: usize,
}

impl Relinking<'_, '_, '_> {
    fn plans(&self, all: &IndexSet<ValueId>) -> Vec<Plan> {
        let mut plans = Vec::new();
        for start in &self.pool {
            let Some(start) = self.filling.below(start.clone(), all.clone(), f64::INFINITY) else {
                continue;
            };
            for fitting in self.fitting(start) {
                if self.is_over() {
                    return plans;
                }
                let filled = self.filled(fitting);
                plans.extend(self.filling.plan(&filled.assignment, &filled.rematerialized));
            }
        }
        plans
    }

    fn is_over(&self) -> bool {
        self.filling.interrupt.is_due() || self.filling.measured_plans() > self.most
    }

    /// The candidate, if it fits; else those that it becomes with choices of each of the pool.
    fn fitting(&self, start: Candidate) -> Vec<Candidate> {
        if start.bytes <= self.filling.capacity {
            return vec![start];
        }
        let smaller = |other: &Vec<usize>| self.made_smaller(&start, other);
        self.pool.iter().take_while(|_| !self.is_over()).filter_map(smaller).collect()
    }

    /// Takes over choices of another assignment until the candidate fits, those first that cost the
    /// least time per byte.
    fn made_smaller(&self, start: &Candidate, other: &[usize]) -> Option<Candidate> {
        let rate = |change: Change| {
            let changed = self.filling.applied(start, &change, f64::INFINITY)?;
            let saved_bytes = start.bytes - changed.bytes;
            (saved_bytes > 0.0).then(|| (change, (changed.seconds - start.seconds) / saved_bytes))
        };
        let differences = self.filling.differences(start, other).into_iter();
        let mut changes: Vec<(Change, f64)> =
            differences.map(Change::TakeOver).filter_map(rate).collect();
        changes.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        let mut candidate = start.clone();
        for (change, _) in &changes {
            let changed = self.filling.applied(&candidate, change, f64::INFINITY);
            candidate = changed.filter(|of| of.bytes < candidate.bytes).unwrap_or(candidate);
            if candidate.bytes <= self.filling.capacity {
                return Some(candidate);
            }
        }
        None
    }

    /// Keeps values and takes over choices of the pool while that saves time and fits.
    fn filled(&self, start: Candidate) -> Candidate {
        let mut candidate = start;
        for _ in 0..ROUNDS {
            let keep = candidate.rematerialized.iter().copied().map(Change::Keep);
            let differences =
                self.pool.iter().flat_map(|other| self.filling.differences(&candidate, other));
            let changes = keep.chain(differences.map(Change::TakeOver));
            let changes = self.filling.worthwhile(&candidate, changes);
            let filled = self.filling.filled(&candidate, &changes);
            if filled.seconds >= candidate.seconds || self.is_over() {
                return filled;
            }
            candidate = filled;
        }
        candidate
    }
}
