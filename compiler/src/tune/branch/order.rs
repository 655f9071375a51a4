//! Which candidates are expanded next, and what their plans have to reach.

use indexmap::IndexSet;
use shardwise_passes::Goal;

use super::again::FAR;
use super::{Open, ROUNDING, Search};
use crate::tune::leaf::Stage;

/// Candidates that a round expands.
pub(super) const ROUND: usize = 4;

impl Search<'_, '_> {
    /// What makes a plan of a candidate worth anything: it takes less than the last of the best,
    /// and than the plan that the candidate has. In a small space every plan is, once a bound has
    /// not excluded the candidate: it is the one that the planner makes of the candidate alone.
    pub(super) fn goal(&self, &Open { candidate, bound, stage }: &Open) -> Goal {
        if stage == Stage::Full && self.leaves.is_small {
            return Goal::below(f64::INFINITY);
        }
        let own = self.found.iter().find(|(number, _)| *number == candidate);
        let own_s = own.map_or(f64::INFINITY, |(_, strategy)| strategy.objective_s);
        // Of equally fast ones, the schedule decides: they are wanted, too.
        let limit = self.limit() * (1.0 + 3.0 * ROUNDING);
        let below_s = own_s.min(self.seconds(candidate, limit));
        // A refusal says what the smallest plan needs, for which that without a limit is searched.
        let is_known = self.first == Stage::Unlimited && stage != Stage::Unlimited;
        let unlimited_s = (is_known && below_s.is_finite()).then(|| self.seconds(candidate, bound));
        // What was given up once is searched beyond the goal: the nearer it is, the fewer plans the
        // search looks at.
        let is_again = self.again.is_tried(candidate) && stage != Stage::Bound;
        let below_s = if is_again { below_s * FAR } else { below_s };
        Goal { unlimited_s, is_bound_enough: stage == Stage::Bound, ..Goal::below(below_s) }
    }

    /// Takes the candidates with the least bounds, and as many of those that promise a plan, so
    /// that there is a solution early; none of these once there is one, where they would not gain.
    pub(super) fn next_round(&mut self) -> Vec<Open> {
        self.open.sort_by(|a, b| a.bound.total_cmp(&b.bound).then(a.candidate.cmp(&b.candidate)));
        let is_ready = self.are_ready();
        let ready = (0..self.open.len()).filter(|&i| is_ready[i]);
        // In a schedule, what needs little memory gathers weights often, so it has a long one; in a
        // large space most of it has a bound above the first solution.
        let is_small_sum = self.first == Stage::Unlimited && self.leaves.is_small;
        let is_early = self.found.is_empty() || is_small_sum;
        let early = if is_early { self.promising(ready.clone()) } else { Vec::new() };
        let mut chosen: IndexSet<usize> = early.into_iter().collect();
        chosen.extend(ready);
        let mut chosen: Vec<usize> = chosen.into_iter().take(ROUND).collect();
        chosen.sort_unstable_by(|a, b| b.cmp(a));
        let chosen: Vec<Open> = chosen.into_iter().map(|i| self.open.remove(i)).collect();
        chosen.into_iter().map(|open| self.planned_at_once(open)).collect()
    }

    /// What would be bounded first, where every plan is wanted.
    fn planned_at_once(&self, open: Open) -> Open {
        let is_wanted = open.stage == Stage::Bound && self.limit().is_infinite();
        Open { stage: if is_wanted { Stage::Full } else { open.stage }, ..open }
    }

    /// Those that have a low bound and need little memory. In a large space one of what is known
    /// not to fit without a limit is among them: a plan for it takes longer than a bound, and then
    /// all bounds end at the plan. With all effort that would be a long search where nothing fits.
    fn promising(&self, ready: impl Iterator<Item = usize>) -> Vec<usize> {
        let mut promising: Vec<(f64, usize)> =
            ready.map(|i| (self.promise(&self.open[i]), i)).collect();
        promising.sort_by(|(a, i), (b, j)| a.total_cmp(b).then(i.cmp(j)));
        let all = || promising.iter().map(|&(_, i)| i);
        let limited = all().find(|&i| self.open[i].stage == Stage::Quick);
        limited.into_iter().chain(all().take(ROUND / 2)).collect()
    }

    /// The bound, more where even the least memory is a large part of the capacity.
    fn promise(&self, open: &Open) -> f64 {
        let bytes = self.floor_bytes(open.candidate);
        open.bound * (1.0 + self.leaves.capacity.map_or(0.0, |capacity| bytes / capacity))
    }
}
