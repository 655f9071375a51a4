//! Uses the memory that a plan leaves: one change after another while the capacity allows, those
//! that save most time per byte first.
//!
//! The searches at prices of a byte ([`crate::search::memory::rematerialize`]) end with assignments
//! on either side of the capacity: at a lower price they are faster and do not fit, at a higher one
//! they leave bytes. Good plans are mostly between: they start from one that fits, keep values for
//! their next use, and take over some of the choices of the fastest that does not fit, as in path
//! relinking. Choices that differ and share a definition change together, since one of them alone
//! would only add reshards between them.
//!
//! Alternatives: branching on these choices would prove more, and solves the whole problem again
//! for each; a knapsack of all changes is exact where their seconds and bytes add up, and they do
//! not, since a value that is kept at one moment takes the place of what is live at another.

use std::cell::{Cell, RefCell};

use indexmap::{IndexMap, IndexSet};
use petgraph::unionfind::UnionFind;
use rustc_hash::FxBuildHasher;
use shardwise_ir::ids::ValueId;
use shardwise_ir::plan::Plan;

use crate::insert_collectives::plan;
use crate::problem::{Definition, Demand, Problem, Rematerialized, Root};
use crate::search::memory::measures::Measures;
use crate::search::memory::rematerialize::Solution;
use crate::solver::interrupt::Interrupt;

/// Assignments from which plans start: so many of the fastest with nothing kept, and as many of the
/// others that fit with what they keep.
const STARTS: usize = 3;

/// What plans are made with.
pub(super) struct Filling<'f, 'a> {
    /// The problem with all values rematerialised that could be kept.
    pub(super) problem: &'f Problem<'a>,
    /// The capacity of a device, in bytes.
    pub(super) capacity: f64,
    /// The time and the memory of plans.
    pub(super) measures: &'f Measures<'a, 'f>,
    /// The end of the search.
    pub(super) interrupt: &'f Interrupt,
    /// The candidates of one start that were looked at: its first changes come again when they are
    /// applied, and once more with others.
    known: RefCell<Known>,
    /// How many plans were measured.
    measured: Cell<usize>,
}

/// Layouts of all operations, with some values kept from region to region and others
/// rematerialised.
#[derive(Clone)]
pub(super) struct Candidate {
    pub(super) assignment: Vec<usize>,
    pub(super) rematerialized: IndexSet<ValueId>,
    pub(super) bytes: f64,
    pub(super) seconds: f64,
}

/// What a candidate is made of: the values in the order in which all are listed.
type Key = (Vec<usize>, Vec<ValueId>);

/// The seconds of candidates, infinite for what cannot be realised, and their bytes, where they
/// were fast enough for these to matter.
type Known = IndexMap<Key, (f64, Option<f64>), FxBuildHasher>;

/// A way to use more memory, or less.
pub(super) enum Change {
    /// Keeps a value for its next use.
    Keep(ValueId),
    /// Takes over the choices of some variables from a faster assignment.
    TakeOver(Vec<(usize, usize)>),
}

impl<'f, 'a> Filling<'f, 'a> {
    pub(super) fn new(
        problem: &'f Problem<'a>,
        capacity: f64,
        measures: &'f Measures<'a, 'f>,
        interrupt: &'f Interrupt,
    ) -> Self {
        Self {
            problem,
            capacity,
            measures,
            interrupt,
            known: RefCell::default(),
            measured: Cell::default(),
        }
    }

    /// Plans that fit, made from `solutions`; the values of `all` are rematerialised at first.
    pub(super) fn plans(&self, solutions: &[Solution], all: &IndexSet<ValueId>) -> Vec<Plan> {
        let starts = self.starts(solutions, all);
        let faster = solutions.iter().find(|solution| !solution.fits);
        let filled = starts.iter().flat_map(|start| self.filled_from(start, faster));
        filled
            .filter_map(|candidate| self.plan(&candidate.assignment, &candidate.rematerialized))
            .collect()
    }

    /// The candidates that fit with nothing kept: those of the solutions that would be the fastest
    /// that fit, and the fastest as they are. Of those with the same time and memory one stands for
    /// all.
    fn starts(&self, solutions: &[Solution], all: &IndexSet<ValueId>) -> Vec<Candidate> {
        let start = |of: &Solution| {
            let candidate = self.below(of.assignment.clone(), all.clone(), f64::INFINITY)?;
            let promised_s = if of.fits { of.seconds } else { f64::INFINITY };
            (candidate.bytes <= self.capacity).then_some((promised_s, candidate))
        };
        let in_time = solutions.iter().take_while(|_| !self.interrupt.is_due());
        let mut starts: Vec<(f64, Candidate)> = in_time.filter_map(start).collect();
        starts.sort_by(|(_, a), (_, b)| {
            a.seconds.total_cmp(&b.seconds).then(a.bytes.total_cmp(&b.bytes))
        });
        starts.dedup_by(|(_, a), (_, b)| (a.seconds, a.bytes) == (b.seconds, b.bytes));
        let slower = starts.split_off(STARTS.min(starts.len()));
        let mut promising: Vec<(f64, Candidate)> =
            slower.into_iter().filter(|(promised_s, _)| promised_s.is_finite()).collect();
        promising.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        starts.extend(promising.into_iter().take(STARTS));
        starts.into_iter().map(|(_, candidate)| candidate).collect()
    }

    /// The plan in which further values are kept, and that in which choices of a faster assignment
    /// are taken over as well.
    fn filled_from(&self, start: &Candidate, faster: Option<&Solution>) -> Vec<Candidate> {
        self.known.borrow_mut().clear();
        let keep = start.rematerialized.iter().copied().map(Change::Keep);
        let mut changes = self.worthwhile(start, keep);
        let mut plans = vec![self.filled(start, &changes)];
        if let Some(faster) = faster {
            let choices =
                self.differences(start, &faster.assignment).into_iter().map(Change::TakeOver);
            changes.extend(self.worthwhile(start, choices));
            plans.push(self.filled(start, &changes));
        }
        plans
    }

    /// How many plans were measured.
    pub(super) fn measured_plans(&self) -> usize {
        self.measured.get()
    }

    /// The changes that save time, each with the seconds that it saves per byte.
    pub(super) fn worthwhile(
        &self,
        start: &Candidate,
        changes: impl Iterator<Item = Change>,
    ) -> Vec<(Change, f64)> {
        let rate = |change: Change| {
            let changed = self.changed(start, &change)?;
            let saved_s = start.seconds - changed.seconds;
            Some((change, saved_s / (changed.bytes - start.bytes).max(1.0)))
        };
        changes.take_while(|_| !self.interrupt.is_due()).filter_map(rate).collect()
    }

    /// Changes a candidate while the capacity allows, the changes with the most time saved per byte
    /// first.
    pub(super) fn filled(&self, start: &Candidate, changes: &[(Change, f64)]) -> Candidate {
        let mut candidate = start.clone();
        let mut by_rate: Vec<&(Change, f64)> = changes.iter().collect();
        by_rate.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        for (change, _) in by_rate {
            if self.interrupt.is_due() {
                break;
            }
            let changed = self.changed(&candidate, change);
            let changed = changed.filter(|changed| changed.bytes <= self.capacity);
            candidate = changed.unwrap_or(candidate);
        }
        candidate
    }

    /// The candidate with a change, if it is faster.
    fn changed(&self, candidate: &Candidate, change: &Change) -> Option<Candidate> {
        self.applied(candidate, change, candidate.seconds)
    }

    /// The candidate with a change, if it can be realised and takes less than `below_s` seconds.
    pub(super) fn applied(
        &self,
        candidate: &Candidate,
        change: &Change,
        below_s: f64,
    ) -> Option<Candidate> {
        let Candidate { assignment, rematerialized, .. } = candidate;
        let (mut assignment, mut rematerialized) = (assignment.clone(), rematerialized.clone());
        match change {
            Change::Keep(value) => {
                rematerialized.shift_remove(value);
            }
            Change::TakeOver(choices) => {
                for &(variable, choice) in choices {
                    assignment[variable] = choice;
                }
            }
        }
        self.below(assignment, rematerialized, below_s)
    }

    /// The choices in which another assignment differs, those together that share a definition.
    pub(super) fn differences(&self, of: &Candidate, other: &[usize]) -> Vec<Vec<(usize, usize)>> {
        let differs = |&variable: &usize| of.assignment[variable] != other[variable];
        let mut together = UnionFind::<usize>::new(of.assignment.len());
        for definition in &self.problem.definitions {
            let variables: Vec<usize> = variables(definition).filter(differs).collect();
            for pair in variables.windows(2) {
                together.union(pair[0], pair[1]);
            }
        }
        let mut groups: IndexMap<usize, Vec<(usize, usize)>> = IndexMap::new();
        for variable in (0..of.assignment.len()).filter(differs) {
            let group = groups.entry(together.find(variable)).or_default();
            group.push((variable, other[variable]));
        }
        groups.into_values().collect()
    }

    /// The candidate, if it can be realised and takes less than `below_s` seconds.
    pub(super) fn below(
        &self,
        assignment: Vec<usize>,
        rematerialized: IndexSet<ValueId>,
        below_s: f64,
    ) -> Option<Candidate> {
        let key = (assignment.clone(), rematerialized.iter().copied().collect());
        let known = self.known.borrow().get(&key).copied();
        let is_enough =
            |&(seconds, bytes): &(f64, Option<f64>)| seconds >= below_s || bytes.is_some();
        let (seconds, bytes) = known.filter(is_enough).unwrap_or_else(|| {
            let measured = self.measured(&assignment, &rematerialized, below_s);
            self.known.borrow_mut().insert(key, measured);
            measured
        });
        let bytes = bytes.filter(|_| seconds < below_s)?;
        Some(Candidate { assignment, rematerialized, bytes, seconds })
    }

    fn measured(
        &self,
        assignment: &[usize],
        rematerialized: &IndexSet<ValueId>,
        below_s: f64,
    ) -> (f64, Option<f64>) {
        self.measured.set(self.measured.get() + 1);
        let Some(plan) = self.plan(assignment, rematerialized) else {
            return (f64::INFINITY, None);
        };
        let seconds = self.measures.seconds(&plan);
        (seconds, (seconds < below_s).then(|| self.measures.peak_bytes_of(&plan, seconds)))
    }

    /// The plan of an assignment, if it can be realised.
    pub(super) fn plan(
        &self,
        assignment: &[usize],
        rematerialized: &IndexSet<ValueId>,
    ) -> Option<Plan> {
        let values = Rematerialized { values: Some(rematerialized), before: None };
        let (problem, chosen) = self.problem.of_assignment(assignment, values);
        let mut trees = problem.tables.trees();
        let is_realisable = problem.is_realisable(&chosen, &mut trees);
        is_realisable.then(|| plan::plan(&problem, &chosen, &mut trees))
    }
}

/// The variables whose choices a definition depends on.
fn variables(definition: &Definition) -> impl Iterator<Item = usize> + '_ {
    let produced = match definition.root {
        Root::Produced(variable) => Some(variable),
        Root::Fixed(_) => None,
    };
    let used = definition.demands.iter().filter_map(|demand| match demand {
        Demand::Operand(variable, _) => Some(*variable),
        Demand::Fixed(_) => None,
    });
    produced.into_iter().chain(used)
}
