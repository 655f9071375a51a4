//! What is tried again with all effort when the best is known.
//!
//! A floor above the capacity proves that a candidate does not fit, and is final. That the planner
//! finds no plan within memory proves nothing, whatever the effort: its searches are not complete.
//! So what it refuses is put aside with its bound, which counts in that of the space. Where the
//! bound is below the best, the candidate is tried again with all effort, the least bound first,
//! and below the time of the best: mostly that ends with a plan, or with a bound that reaches the
//! best. Where it does neither, the candidate counts as over memory, and its bound still counts.
//! In a small space all effort was spent before, so there it has but a better bound.
//!
//! So is what little effort found no fast enough plan for, if the objective is a sum. Bounds of
//! schedules exclude few, and all effort gains little there.

use indexmap::IndexSet;

use super::floor::group;
use super::window::AGAIN_AT_ONCE;
use super::{NEAR, Open, OverMemory, ROUNDING, Search};
use crate::tune::leaf::Stage;

/// The ratio to its bound above which a plan of little effort says little of its candidate.
pub(super) const FAR: f64 = 1.25;

/// What was put aside, and what was tried again.
#[derive(Default)]
pub(super) struct Again {
    aside: Vec<Aside>,
    tried: IndexSet<usize>,
    /// What was refused as over memory before it was tried again.
    over_memory: IndexSet<usize>,
}

/// A candidate for which no plan was found, without a proof that there is none.
struct Aside {
    open: Open,
    /// Why it is over memory; none if no plan for it is fast enough.
    reason: Option<String>,
}

impl Again {
    /// Those without a plan that are not done.
    pub(super) fn open(&self) -> impl Iterator<Item = &Open> {
        self.aside.iter().map(|of| &of.open)
    }

    /// Whether a candidate was put aside, and is tried again.
    pub(super) fn is_tried(&self, candidate: usize) -> bool {
        self.tried.contains(&candidate)
    }

    pub(super) fn open_mut(&mut self) -> impl Iterator<Item = &mut Open> {
        self.aside.iter_mut().map(|of| &mut of.open)
    }
}

impl Search<'_, '_> {
    /// What no plan was found for within memory.
    pub(super) fn refuse(&mut self, open: Open, reason: String) {
        let is_last = open.stage == Stage::Full && self.request.exhaustive;
        if is_last || self.again.tried.contains(&open.candidate) {
            self.least_cut = self.least_cut.min(open.bound);
            self.planned_over_memory(open.candidate, reason);
        } else {
            self.again.aside.push(Aside { open, reason: Some(reason) });
        }
    }

    /// What has no plan that is fast enough, and a bound that may be.
    pub(super) fn fall_short(&mut self, open: Open) {
        let is_wanted = open.bound < self.limit();
        let is_sum = self.leaves.options.objective.is_sum();
        if is_wanted && open.stage == Stage::Quick && is_sum {
            self.again.aside.push(Aside { open, reason: None });
            return;
        }
        self.least_cut = self.least_cut.min(open.bound);
        if is_wanted && self.again.over_memory.contains(&open.candidate) {
            self.space.over_memory += 1;
        } else {
            self.space.cut += 1;
        }
    }

    /// Opens a few of those again that could be the best, the least bounds first: of what was put
    /// aside, and of what was planned with little effort. Where nothing fits with little effort,
    /// the one that needs least.
    pub(super) fn reopen(&mut self) {
        let first = self.distinct_candidates().next();
        let Some(least) = first.map(|(_, strategy)| strategy.rank()) else {
            return self.reopen_smallest();
        };
        let limit = least / (1.0 + self.request.within.max(ROUNDING));
        let aside = self.again.open().map(|open| (open.bound, open.candidate));
        let again = aside.chain(self.planned_quickly(least));
        let mut again: Vec<(f64, usize)> = again.filter(|(bound, _)| *bound < limit).collect();
        again.sort_by(|(a, i), (b, j)| a.total_cmp(b).then(i.cmp(j)));
        for (bound, candidate) in again.into_iter().take(AGAIN_AT_ONCE) {
            if self.quick.shift_remove(&candidate) {
                self.open.push(Open { candidate, bound, stage: Stage::Full });
            } else {
                self.open_aside(candidate);
            }
        }
    }

    /// The bounds of what was planned with little effort: of the best, and of what is far from its
    /// bound. Of schedules those near the best, which take `least`.
    fn planned_quickly(&self, least: f64) -> impl Iterator<Item = (f64, usize)> {
        let is_sum = self.leaves.options.objective.is_sum();
        let best = self.request.best.max(1);
        let found = self.distinct_candidates().enumerate();
        let found = found.filter(move |(place, (number, strategy))| {
            let is_near = is_sum || strategy.rank() <= least * (1.0 + NEAR);
            let is_far = is_sum && strategy.rank() > strategy.rank_bound() * FAR;
            (*place < best && is_near || is_far) && self.quick.contains(number)
        });
        found.map(|(_, (number, strategy))| (strategy.rank_bound(), *number))
    }

    /// Opens the one again whose floor is the least, if that has not been done.
    fn reopen_smallest(&mut self) {
        if !self.again.tried.is_empty() {
            return;
        }
        let quick = self.again.open().filter(|open| open.stage == Stage::Quick);
        let needs = quick.map(|open| (self.floor_bytes(open.candidate), open.candidate));
        // Of several, the one that was looked at last.
        let needs: Vec<(f64, usize)> = needs.collect();
        let smallest = needs.iter().rev().min_by(|(a, _), (b, _)| a.total_cmp(b));
        if let Some(&(_, candidate)) = smallest {
            self.open_aside(candidate);
        }
    }

    /// Opens a candidate that was put aside, with all effort, or for a bound where that was spent.
    fn open_aside(&mut self, candidate: usize) {
        let is_it = |of: &mut Aside| of.open.candidate == candidate;
        for of in self.again.aside.extract_if(.., is_it) {
            self.again.tried.insert(candidate);
            if of.reason.is_some() {
                self.again.over_memory.insert(candidate);
            }
            let stage = if self.leaves.is_small { Stage::Bound } else { Stage::Full };
            self.open.push(Open { stage, ..of.open });
        }
    }

    /// Counts what was put aside, when the search is over: what could be better if the time was
    /// over is left.
    pub(super) fn count_rest(&mut self, is_done: bool) {
        let limit = self.limit();
        for of in std::mem::take(&mut self.again.aside) {
            if !is_done && of.open.bound < limit {
                self.open.push(of.open);
                continue;
            }
            self.least_cut = self.least_cut.min(of.open.bound);
            match of.reason {
                Some(reason) => self.planned_over_memory(of.open.candidate, reason),
                None => self.space.cut += 1,
            }
        }
    }

    fn planned_over_memory(&mut self, candidate: usize, reason: String) {
        let floor_bytes = self.floor_bytes(candidate);
        self.over_memory(OverMemory { is_planned: true, floor_bytes, reason });
    }

    /// The bytes of a device in the floor of a candidate.
    pub(super) fn floor_bytes(&self, candidate: usize) -> f64 {
        let floor = self.floors[&group(&self.candidates[candidate])].as_ref();
        floor.map_or(0.0, |floor| floor.peak_bytes)
    }
}
