//! Which candidates are expanded next, and what their plans have to reach.

use shardwise_passes::Goal;

use super::again::FAR;
use super::{Open, ROUNDING, Search};
use crate::tune::leaf::Stage;

/// Of so many candidates one is taken for its bound alone, where plans are wanted.
const TURNS: usize = 4;

impl Search<'_, '_> {
    /// What makes a plan of a candidate worth anything: it takes less than the last of the best,
    /// and than the plan that the candidate has. In a small space every plan is, once a bound has
    /// not excluded the candidate: it is the one that the planner makes of the candidate alone. So
    /// is that of the best with all effort, which `plan` makes of its program: the search below a
    /// time looks at other plans within memory.
    pub(super) fn goal(&self, &Open { candidate, bound, stage }: &Open) -> Goal {
        let is_best = self.best.as_ref().is_some_and(|(best, _)| *best == candidate);
        if stage == Stage::Full && (self.leaves.is_small || is_best) {
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

    /// Takes the candidate with the least bound; of equal ones that on the fewest axes, which wins
    /// where times are equal, too. While fewer plans are known than are asked for, three of four
    /// times one that promises a plan: their times are what others are cut at.
    pub(super) fn next(&mut self) -> Option<Open> {
        let axes = |open: &Open| self.candidates[open.candidate].shape.axes.len();
        let last = |open: &Open| (axes(open), open.candidate);
        self.open.sort_by(|a, b| a.bound.total_cmp(&b.bound).then(last(a).cmp(&last(b))));
        let is_ready = self.are_ready();
        let ready = (0..self.open.len()).filter(|&i| is_ready[i]);
        let early = if self.is_early() { self.promising(ready.clone()) } else { None };
        let chosen = early.or_else(|| ready.clone().next())?;
        let open = self.open.remove(chosen);
        Some(self.planned_at_once(open))
    }

    /// Whether plans are wanted more than bounds: of sums, until as many are known as are asked
    /// for, and in a small space, where all are planned with all effort, always. In a schedule,
    /// what needs little memory gathers weights often, so it has a long one; in a large space most
    /// of it has a bound above the first solution.
    fn is_early(&self) -> bool {
        let is_sum = self.leaves.options.objective.is_sum();
        match (is_sum, self.leaves.is_small) {
            (true, true) => true,
            (true, false) => self.distinct().len() < self.request.best,
            (false, _) => self.found.is_empty(),
        }
    }

    /// What would be bounded first, where every plan is wanted.
    fn planned_at_once(&self, open: Open) -> Open {
        let is_wanted = open.stage == Stage::Bound && self.limit().is_infinite();
        let stage = match open.stage {
            Stage::Bound if self.is_quick_first() => Stage::Quick,
            _ if is_wanted => Stage::Full,
            stage => stage,
        };
        Open { stage, ..open }
    }

    /// Whether the next is the first, and has a plan of little effort before that of all effort,
    /// which takes minutes for a schedule: a search that is stopped soon has that. A limit on time
    /// ends each run soon enough.
    fn is_quick_first(&self) -> bool {
        let is_sum = self.leaves.options.objective.is_sum();
        let has_time = self.leaves.timeout.is_none() && !self.request.exhaustive;
        self.begun == 0 && !is_sum && has_time
    }

    /// The one that has a low bound and needs little memory. In a large space one of four is known
    /// not to fit without a limit: a plan for it takes longer than a bound, and then all bounds end
    /// at the plan. With all effort that would be a long search where nothing fits. One of four is
    /// that with the least bound.
    fn promising(&self, ready: impl Iterator<Item = usize>) -> Option<usize> {
        let mut promising: Vec<(f64, usize)> =
            ready.map(|i| (self.promise(&self.open[i]), i)).collect();
        promising.sort_by(|(a, i), (b, j)| a.total_cmp(b).then(i.cmp(j)));
        let mut all = promising.iter().map(|&(_, i)| i);
        match self.begun % TURNS {
            0 => {
                let mut quick = all.clone().filter(|&i| self.open[i].stage == Stage::Quick);
                quick.next().or_else(|| all.next())
            }
            turn if turn < TURNS - 1 => all.next(),
            _ => None,
        }
    }

    /// The bound, more where even the least memory is a large part of the capacity.
    fn promise(&self, open: &Open) -> f64 {
        let bytes = self.floor_bytes(open.candidate);
        open.bound * (1.0 + self.leaves.capacity.map_or(0.0, |capacity| bytes / capacity))
    }
}
