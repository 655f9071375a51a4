//! Bounds of candidates from those of fewer microbatches.
//!
//! Candidates that differ in microbatches alone are a *family*. Where memory is no limit, one takes
//! no less than those of its family whose microbatches are several of its own put together: a plan
//! with more of them is one with fewer, in which every step runs less often on larger blocks, and
//! takes no longer. So a family is expanded from the fewest microbatches on, and what is known of
//! these bounds the others before a plan is made for them. Stages are no family: more microbatches
//! have a shorter bubble. Bounds within memory hold for their candidate alone, since more
//! microbatches may fit.

use std::collections::BTreeMap;

use indexmap::{IndexMap, IndexSet};

use super::{Open, ROUNDING, Search};
use crate::tune::candidate::{Candidate, Recompute};
use crate::tune::dtypes::Dtypes;
use crate::tune::leaf::Stage;
use crate::tune::machine::Shape;

/// The families of candidates, and the bounds that are known.
#[derive(Default)]
pub(super) struct Families {
    /// The family of each candidate, and its microbatches.
    members: Vec<Option<(usize, u64)>>,
    /// For each family, bounds by the number of microbatches.
    bounds: Vec<BTreeMap<u64, f64>>,
}

/// What the members of a family have in common.
type Unsplit<'c> = (&'c Shape, Recompute, Option<u64>, Dtypes);

impl Families {
    pub(super) fn new(candidates: &[Candidate]) -> Self {
        let mut known: IndexMap<Unsplit<'_>, usize> = IndexMap::new();
        let mut members = Vec::with_capacity(candidates.len());
        for of in candidates {
            let next = known.len();
            let member = of.microbatches.filter(|_| of.staging.is_none()).map(|count| {
                let family = (&of.shape, of.recompute, of.batch, of.dtypes);
                (*known.entry(family).or_insert(next), count)
            });
            members.push(member);
        }
        Self { members, bounds: vec![BTreeMap::new(); known.len()] }
    }

    /// Remembers the bound of a candidate where memory is no limit.
    fn note(&mut self, candidate: usize, bound: f64) {
        if let Some((family, count)) = self.members[candidate] {
            self.bounds[family].insert(count, bound);
        }
    }

    /// What is known of a candidate from fewer microbatches.
    fn bound(&self, candidate: usize) -> f64 {
        let Some((family, count)) = self.members[candidate] else { return 0.0 };
        let fewer = self.bounds[family].range(..count);
        let fewer = fewer.filter(|(fewer, _)| count.is_multiple_of(**fewer));
        fewer.map(|(_, bound)| bound * (1.0 - ROUNDING)).fold(0.0, f64::max)
    }
}

impl Search<'_, '_> {
    /// Remembers a bound, if memory is no limit to it.
    pub(super) fn note_bound(&mut self, open: &Open, bound: f64) {
        // The links of a step that waits for others are idle; other microbatches may use them.
        if open.stage == Stage::Unlimited && self.leaves.options.objective.is_sum() {
            self.families.note(open.candidate, bound);
        }
    }

    /// Raises bounds to those of fewer microbatches.
    pub(super) fn raise_bounds(&mut self) {
        for open in self.open.iter_mut().chain(self.again.open_mut()) {
            open.bound = open.bound.max(self.families.bound(open.candidate));
        }
    }

    /// Whether each open candidate is worth a plan before others of its family: none of them has
    /// fewer microbatches, and no plan without a limit.
    pub(super) fn are_ready(&self) -> Vec<bool> {
        let member = |open: &Open| {
            let member = self.families.members[open.candidate];
            member.filter(|_| open.stage == Stage::Unlimited)
        };
        let waiting: IndexSet<(usize, u64)> =
            self.open.iter().chain(self.running()).filter_map(member).collect();
        let is_ready = |open: &Open| {
            member(open).is_none_or(|(family, count)| {
                let divides = |fewer: &u64| count.is_multiple_of(*fewer);
                !(1..count).filter(divides).any(|fewer| waiting.contains(&(family, fewer)))
            })
        };
        self.open.iter().map(is_ready).collect()
    }
}
