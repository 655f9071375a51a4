//! Which candidates are expanded next, and what their plans have to reach.

use indexmap::IndexSet;
use shardwise_passes::Goal;

use super::floor::group;
use super::{Open, ROUNDING, Search};
use crate::tune::leaf::Stage;

/// Candidates that a round expands.
const ROUND: usize = 4;

impl Search<'_, '_> {
    /// What makes a plan of a candidate worth anything: it takes less than the last of the best,
    /// and than the plan that the candidate has.
    pub(super) fn goal(&self, &Open { candidate, bound, stage }: &Open) -> Goal {
        let own = self.found.iter().find(|(number, _)| *number == candidate);
        let own_s = own.map_or(f64::INFINITY, |(_, strategy)| strategy.objective_s);
        // Of equally fast ones, the schedule decides: they are wanted, too.
        let limit = self.limit() * (1.0 + 3.0 * ROUNDING);
        let below_s = own_s.min(self.seconds(candidate, limit));
        // A refusal says what the smallest plan needs, for which that without a limit is searched.
        let is_known = self.first == Stage::Unlimited && stage != Stage::Unlimited;
        let unlimited_s = (is_known && below_s.is_finite()).then(|| self.seconds(candidate, bound));
        Goal { below_s, unlimited_s, rival: None }
    }

    /// Takes the candidates with the least bounds, and as many of those that have a low bound and
    /// need little memory, so that there is a solution early.
    pub(super) fn next_round(&mut self) -> Vec<Open> {
        self.open.sort_by(|a, b| a.bound.total_cmp(&b.bound).then(a.candidate.cmp(&b.candidate)));
        let promise: Vec<f64> = self.open.iter().map(|open| self.promise(open)).collect();
        let mut promising: Vec<usize> = (0..self.open.len()).collect();
        promising.sort_by(|&a, &b| promise[a].total_cmp(&promise[b]).then(a.cmp(&b)));
        // What needs little memory gathers weights often, so it has a long schedule.
        let has_solution = self.first != Stage::Unlimited && !self.found.is_empty();
        let early = if has_solution { 0 } else { ROUND / 2 };
        let mut chosen: IndexSet<usize> = promising.into_iter().take(early).collect();
        chosen.extend(0..self.open.len());
        let mut chosen: Vec<usize> = chosen.into_iter().take(ROUND).collect();
        chosen.sort_unstable_by(|a, b| b.cmp(a));
        chosen.into_iter().map(|i| self.open.remove(i)).collect()
    }

    /// The bound, more where even the least memory is a large part of the capacity.
    fn promise(&self, open: &Open) -> f64 {
        let floor = self.floors[&group(&self.candidates[open.candidate])].as_ref();
        let bytes = floor.map_or(0.0, |floor| floor.peak_bytes);
        open.bound * (1.0 + self.leaves.capacity.map_or(0.0, |capacity| bytes / capacity))
    }
}
