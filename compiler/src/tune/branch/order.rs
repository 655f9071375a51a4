//! Which candidates are expanded next, and what their plans have to reach.

use shardwise_passes::Goal;

use super::again::FAR;
use super::{Open, ROUNDING, Search};
use crate::tune::leaf::Stage;

/// Of so many candidates one is taken for its bound alone, where plans are wanted.
const TURNS: usize = 4;

/// The ratio to a bound above which a time promises to become much less.
const MUCH: f64 = 1.3;

/// When plans are made of candidates before their bounds are the least: often as long as that
/// lowers the time that others are cut at by much, and each time half as often where it does not.
#[derive(Debug)]
pub(super) struct Attempts {
    /// So many runs after one the next may begin.
    wait: usize,
    /// The number of the run from which on one may begin.
    next: usize,
    /// What others were cut at when the last one began.
    limit: f64,
}

impl Default for Attempts {
    fn default() -> Self {
        Self { wait: TURNS, next: 0, limit: f64::INFINITY }
    }
}

impl Attempts {
    fn are_due(&self, begun: usize) -> bool {
        begun >= self.next
    }

    fn begin(&mut self, begun: usize, limit: f64) {
        let has_helped = limit * HELPED < self.limit;
        self.wait = if has_helped { TURNS } else { 2 * self.wait };
        (self.next, self.limit) = (begun + self.wait, limit);
    }
}

/// The ratio by which a time has to become less for an attempt to have helped.
const HELPED: f64 = 1.1;

impl Search<'_, '_> {
    /// What makes a plan of a candidate worth anything: it takes less than the last of the best,
    /// and than the plan that the candidate has. In a small space every plan is, once a bound has
    /// not excluded the candidate: it is the one that the planner makes of the candidate alone. So
    /// is that of the best with all effort, which `plan` makes of its program: the search below a
    /// time looks at other plans within memory.
    pub(super) fn goal(&self, open: &Open) -> Goal {
        let &Open { candidate, bound, stage } = open;
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
        let below_s = match stage {
            Stage::Unlimited if !self.leaves.is_small => below_s * self.most_of_family(open),
            _ => below_s,
        };
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
        let ready: Vec<usize> = (0..self.open.len()).filter(|&i| is_ready[i]).collect();
        let early = if self.is_early() {
            self.promising(ready.iter().copied())
        } else {
            self.may_be_much_better(&ready)
        };
        let chosen = early.or_else(|| self.least(&ready))?;
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

    /// The one with the least bound. Where one strategy is asked for, before one that is planned
    /// within memory all that say something of another with a lesser bound; where several are, such
    /// plans lower the time that others are cut at, the last of the best, more than bounds do.
    fn least(&self, ready: &[usize]) -> Option<usize> {
        let first = *ready.first()?;
        let is_less = |of: &Open| of.bound < self.open[first].bound;
        let has_less = self.request.best <= 1 && self.open.first().is_some_and(is_less);
        let mut unlimited = ready.iter().filter(|&&i| self.open[i].stage == Stage::Unlimited);
        let instead = if has_less { unlimited.next().copied() } else { None };
        Some(instead.unwrap_or(first))
    }

    /// In a large space of sums, where some plan is known, one that may lower the time that others
    /// are cut at: of those that are known not to fit without a limit the one with the least bound,
    /// if that is far below the last of the best; or one with a number of stages of which the
    /// fewest were begun.
    fn may_be_much_better(&mut self, ready: &[usize]) -> Option<usize> {
        if self.leaves.is_small || !self.leaves.options.objective.is_sum() {
            return None;
        }
        let limit = self.limit();
        let is_far = |i: usize| self.open[i].bound * MUCH < limit;
        let is_quick = |i: usize| self.open[i].stage == Stage::Quick;
        let far = ready.iter().copied().find(|&i| is_quick(i) && is_far(i));
        if let Some(far) = far.filter(|_| self.attempts.are_due(self.begun)) {
            self.attempts.begin(self.begun, limit);
            return Some(far);
        }
        let stages = |i: usize| self.candidates[self.open[i].candidate].shape.stages;
        let begun = |i: usize| self.begun_on.get(&stages(i)).copied().unwrap_or(0);
        let is_turn = self.begun % TURNS == TURNS - 1;
        let unlimited = ready.iter().copied().filter(|&i| is_turn && !is_quick(i));
        unlimited.min_by_key(|&i| begun(i))
    }

    /// The bound, more where even the least memory is a large part of the capacity.
    fn promise(&self, open: &Open) -> f64 {
        let bytes = self.floor_bytes(open.candidate);
        open.bound * (1.0 + self.leaves.capacity.map_or(0.0, |capacity| bytes / capacity))
    }
}
