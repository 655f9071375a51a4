//! Bounds of candidates from those of fewer microbatches, and of fewer chunks on a stage.
//!
//! Candidates that differ in these alone are a *family*. A plan with more microbatches is one with
//! fewer, in which every step runs less often on larger blocks, and takes no longer. So where
//! memory is no limit, one takes no less than those of its family whose microbatches are several of
//! its own put together.
//!
//! On stages more microbatches have a shorter bubble, and so have more chunks. A step in the sum of
//! steps counts as often as a stage runs it, bubble included, which follows from the numbers of
//! stages, chunks, microbatches and layers alone. So the plan with fewer takes at most as many
//! times what the one with more takes as the largest of three ratios says: that of the steps of
//! layers for a microbatch, of sends between stages, and of the steps of layers that run once. A
//! bound divided by it is one of the other. Chunks make more sends, so that a bound of more of them
//! says little of fewer; and nothing follows for blocks of several kinds of layers or of layers in
//! layers, in which steps count in other ways, nor for other objectives than the sum of all steps.
//!
//! So a family is expanded from the fewest on, and what is known of these bounds the others before
//! a plan is made for them. In large spaces the first are bounded beyond the last of the best, as
//! far as that excludes all others. Bounds within memory hold for their candidate alone, since more
//! microbatches may fit. The alternative, from the most on, leaves the others to their own plans:
//! weights are gathered for each microbatch, so that fewer may take any part of what more take.

use indexmap::IndexMap;
use shardwise_ir::stages::{Schedule, Stages};

use super::{Open, ROUNDING, Search};
use crate::options::Objective;
use crate::tune::candidate::{Candidate, Recompute};
use crate::tune::dtypes::Dtypes;
use crate::tune::leaf::Stage;
use crate::tune::machine::Shape;
use crate::tune::template::Template;

/// The families of candidates, and the bounds that are known.
#[derive(Default)]
pub(super) struct Families {
    /// The place of each candidate in its family.
    members: Vec<Option<Member>>,
    /// For each family, the members whose bounds are known.
    bounds: Vec<Vec<(Member, f64)>>,
}

/// A candidate in its family.
#[derive(Clone, Copy, Debug)]
struct Member {
    family: usize,
    microbatches: u64,
    /// Runs of layers on a stage.
    chunks: u64,
    turns: Turns,
}

/// How often steps count in the sum of steps, by when they run.
#[derive(Clone, Copy, Debug)]
struct Turns {
    /// In a layer, for each microbatch.
    layers: u64,
    /// Between stages, for each microbatch.
    sends: u64,
    /// In a layer, once for all microbatches.
    once: u64,
}

impl Turns {
    /// Without stages, where layers count no less often for more microbatches than they run.
    fn unstaged(microbatches: u64) -> Self {
        Self { layers: microbatches, sends: microbatches, once: 1 }
    }

    fn of(stages: &Stages, microbatches: u64, trains: bool) -> Self {
        Self {
            layers: stages.trip_count(microbatches, 1, trains).including_bubble,
            sends: stages.receives(microbatches, trains).including_bubble,
            once: stages.once_count(1).including_bubble,
        }
    }
}

impl Member {
    /// Whether a bound of this one says something of another of its family.
    fn bounds(&self, other: &Self) -> bool {
        self.family == other.family
            && self.chunks <= other.chunks
            && other.microbatches.is_multiple_of(self.microbatches)
            && (self.microbatches, self.chunks) != (other.microbatches, other.chunks)
    }

    /// How many times what the other takes this one takes at most. A step of the other runs as
    /// part of one of this, on so many times the rows.
    fn most_of(&self, other: &Self) -> f64 {
        let rows = (other.microbatches / self.microbatches) as f64;
        let ratio = |own: u64, others: u64| own as f64 / others.max(1) as f64;
        let by_microbatch = ratio(self.turns.layers, other.turns.layers)
            .max(ratio(self.turns.sends, other.turns.sends));
        // Steps beside the layers are the same in both.
        (rows * by_microbatch).max(ratio(self.turns.once, other.turns.once)).max(1.0)
    }
}

/// What the members of a family have in common.
type Unsplit<'c> = (&'c Shape, Recompute, Option<u64>, Dtypes, Option<Schedule>);

impl Families {
    /// The families of these candidates of a template, pipelines among them where it is known how
    /// often their steps count.
    pub(super) fn new(
        candidates: &[Candidate],
        template: &Template<'_>,
        objective: Objective,
    ) -> Self {
        let layers = template.layers_alike().filter(|_| objective == Objective::Serial);
        let turns = |of: &Candidate, microbatches: u64| match of.staging {
            None => Some(Turns::unstaged(microbatches)),
            Some(staging) => layers.filter(|_| staging.longest.is_none()).map(|layers| {
                let (stages, chunks) = (of.shape.stages, staging.chunks);
                let stages = Stages::spread(staging.schedule, stages, chunks, layers);
                Turns::of(&stages, microbatches, template.has_gradients())
            }),
        };
        let mut known: IndexMap<Unsplit<'_>, usize> = IndexMap::new();
        let mut members = Vec::with_capacity(candidates.len());
        for of in candidates {
            let counted = of.microbatches.and_then(|count| Some((count, turns(of, count)?)));
            members.push(counted.map(|(microbatches, turns)| {
                let schedule = of.staging.map(|staging| staging.schedule);
                let next = known.len();
                let key = (&of.shape, of.recompute, of.batch, of.dtypes, schedule);
                let family = *known.entry(key).or_insert(next);
                let chunks = of.staging.map_or(1, |staging| staging.chunks);
                Member { family, microbatches, chunks, turns }
            }));
        }
        Self { members, bounds: vec![Vec::new(); known.len()] }
    }

    /// Remembers the bound of a candidate where memory is no limit.
    fn note(&mut self, candidate: usize, bound: f64) {
        if let Some(member) = self.members[candidate] {
            self.bounds[member.family].push((member, bound));
        }
    }

    /// What is known of a candidate from others of its family.
    fn bound(&self, candidate: usize) -> f64 {
        let Some(member) = &self.members[candidate] else { return 0.0 };
        let others = self.bounds[member.family].iter().filter(|(other, _)| other.bounds(member));
        let bounds = others.map(|(other, bound)| bound / other.most_of(member));
        bounds.map(|bound| bound * (1.0 - ROUNDING)).fold(0.0, f64::max)
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

    /// Whether each open candidate is worth a plan before others of its family: none of them that
    /// says something of it is without a plan where memory is no limit.
    pub(super) fn are_ready(&self) -> Vec<bool> {
        let mut waiting: Vec<Vec<&Member>> = vec![Vec::new(); self.families.bounds.len()];
        for member in self.open.iter().chain(self.running()).filter_map(|of| self.waiting(of)) {
            waiting[member.family].push(member);
        }
        let is_ready = |open: &Open| {
            let own = self.waiting(open);
            own.is_none_or(|own| !waiting[own.family].iter().any(|other| other.bounds(own)))
        };
        self.open.iter().map(is_ready).collect()
    }

    /// The place in its family of a candidate without a plan yet.
    fn waiting(&self, open: &Open) -> Option<&Member> {
        let member = self.families.members[open.candidate].as_ref();
        member.filter(|_| open.stage == Stage::Unlimited)
    }

    /// How many times what others of its family take a candidate takes at most, of those that are
    /// open without a plan yet: a bound so far above the last of the best excludes them, too.
    pub(super) fn most_of_family(&self, open: &Open) -> f64 {
        let Some(own) = &self.families.members[open.candidate] else { return 1.0 };
        let others = self.open.iter().filter_map(|of| self.waiting(of));
        let others = others.filter(|other| own.bounds(other));
        others.map(|other| own.most_of(other)).fold(1.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight layers on two stages, forward and backward.
    fn staged(microbatches: u64, chunks: u64) -> Member {
        let stages = Stages::spread(Schedule::OneForwardOneBackward, 2, chunks, 8);
        Member { family: 0, microbatches, chunks, turns: Turns::of(&stages, microbatches, true) }
    }

    #[test]
    fn the_shorter_bubble_is_what_more_microbatches_save() {
        let (few, many) = (staged(4, 1), staged(8, 1));
        assert!(few.bounds(&many) && !many.bounds(&few) && !few.bounds(&few));
        // Five turns of a stage on twice the rows, where the other has nine.
        assert_eq!(few.most_of(&many).to_bits(), (10.0_f64 / 9.0).to_bits());
        assert!(!staged(6, 1).bounds(&many), "eight are no multiple of six");
    }

    #[test]
    fn more_chunks_bound_no_fewer_chunks() {
        let (few, many) = (staged(4, 1), staged(4, 2));
        assert!(few.bounds(&many) && !many.bounds(&few));
        let most = few.most_of(&many);
        assert!(1.0 < most && most <= 10.0 / 9.0, "{most}");
    }
}
