//! Branch and bound over candidates; the bounds are those that [`crate::tune`] lists.
//!
//! A candidate is expanded in runs of the planner ([`super::leaf`]): without a memory limit, which
//! is fast and bounds it, and within memory, if that plan does not fit. In a small space the best
//! so far only excludes candidates, by their bounds; the others are planned without it, so that no
//! plan depends on those before it. Where all effort takes minutes, as for schedules, one of them
//! is planned with little effort before, so that there is a plan soon; little effort for all of
//! them would be work that is done again. A large space is planned with little effort, until
//! nothing is open; then those that could be the best, with all effort ([`again`]). A few
//! candidates are expanded at once ([`window`]), those with the least bounds first.
//!
//! Candidates with batches of several sizes are compared by their time an element of the batch:
//! bounds of open candidates are in this unit, *rank*, which is seconds where there is one batch.

mod again;
mod answer;
mod fewer;
mod floor;
mod order;
mod window;

use std::collections::VecDeque;
use std::time::Instant;

use indexmap::{IndexMap, IndexSet};
use shardwise_passes::Goal;

use self::again::Again;
use self::fewer::Families;
use self::floor::{Floor, Group, group};
use self::order::Attempts;
use self::window::Running;
use super::candidate::Candidate;
use super::leaf::{Leaves, Outcome, Refusal, SHARES, Stage};
use super::strategy::Strategy;
use super::template::Template;
use super::{Progress, Refused, Report, Request, Space, Tuned};
use crate::Planned;
use crate::display::units;
use crate::options::Options;

/// Spaces of so many candidates are planned with all effort.
const FEW_CANDIDATES: usize = 64;

/// The same for what is no sum, for which all effort is many times as much as little.
const FEW_SCHEDULES: usize = 16;

/// A plan within this ratio of its bound is not planned again.
const PROVEN: f64 = 0.01;

/// Plans of schedules within this ratio of the best are planned again with all effort: that gains
/// little, and bounds of schedules exclude few.
const NEAR: f64 = 0.05;

/// Relative differences below this are rounding.
const ROUNDING: f64 = 1e-9;

/// A candidate that is not done.
#[derive(Clone, Copy, Debug)]
struct Open {
    candidate: usize,
    /// No plan of it has a lower rank.
    bound: f64,
    stage: Stage,
}

/// Why a candidate does not fit.
struct OverMemory {
    is_planned: bool,
    /// The bytes of a device in its floor.
    floor_bytes: f64,
    reason: String,
}

/// A search, and what it knows.
pub(super) struct Search<'a, 's> {
    template: &'a Template<'s>,
    candidates: Vec<Candidate>,
    request: &'a Request,
    leaves: Leaves<'a, 's>,
    report: Report<'a>,
    floors: IndexMap<Group, Result<Floor, String>>,
    /// Candidates that differ in microbatches, which bound each other.
    families: Families,
    open: Vec<Open>,
    /// What is expanded now, in the order in which it began.
    running: VecDeque<Running>,
    /// How many expansions began.
    begun: usize,
    /// The same for each number of stages.
    begun_on: IndexMap<u64, usize>,
    attempts: Attempts,
    found: Vec<(usize, Strategy)>,
    /// Found with little effort, and not proven.
    quick: IndexSet<usize>,
    /// What has no plan yet, and may be tried again.
    again: Again,
    /// What had too little time.
    late: Vec<Open>,
    /// The stage in which candidates are planned first.
    first: Stage,
    /// The stage after a plan without a memory limit.
    limited: Stage,
    /// The best candidate and its plan.
    best: Option<(usize, Box<Planned>)>,
    /// The least bound of what was cut, or was not planned fast enough.
    least_cut: f64,
    space: Space,
    illegal: IndexMap<String, usize>,
    /// The reason of the refused candidate with the least floor; of those that were planned, if any
    /// were: what they need is more than their floor.
    over_memory: Option<OverMemory>,
    /// Seconds of the fastest of those over the latency.
    fastest_s: f64,
}

impl<'a, 's> Search<'a, 's> {
    pub(super) fn new(
        template: &'a Template<'s>,
        candidates: Vec<Candidate>,
        request: &'a Request,
        options: &'a Options,
        report: Report<'a>,
    ) -> Self {
        let space = Space { candidates: candidates.len(), ..Space::default() };
        let families = Families::new(&candidates, template, options.objective);
        let timeout = request.timeout.map(|timeout| (timeout, Instant::now() + timeout));
        let few = if options.objective.is_sum() { FEW_CANDIDATES } else { FEW_SCHEDULES };
        let is_small = candidates.len() <= few || request.exhaustive;
        let limited = if is_small { Stage::Bound } else { Stage::Quick };
        // What a search for what is no sum starts from is within memory.
        let first = if options.objective.is_sum() { Stage::Unlimited } else { limited };
        Self {
            template,
            candidates,
            request,
            leaves: Leaves { template, options, timeout, shares: SHARES, capacity: None, is_small },
            report,
            floors: IndexMap::new(),
            families,
            open: Vec::new(),
            running: VecDeque::new(),
            begun: 0,
            begun_on: IndexMap::new(),
            attempts: Attempts::default(),
            found: Vec::new(),
            quick: IndexSet::new(),
            again: Again::default(),
            late: Vec::new(),
            first,
            limited,
            best: None,
            least_cut: f64::INFINITY,
            space,
            illegal: IndexMap::new(),
            over_memory: None,
            fastest_s: f64::INFINITY,
        }
    }

    /// Searches, until nothing is open or the time is over.
    pub(super) fn run(mut self) -> Result<Tuned, Refused> {
        self.leaves.capacity = self.template.capacity_bytes()?;
        self.say(0);
        self.floors = self.all_floors();
        self.open_candidates();
        self.progress();
        let is_done = self.expand_all();
        self.count_rest(is_done);
        self.space.left = self.left();
        self.space.stopped = self.is_stopped();
        self.answer()
    }

    /// Opens every candidate that its floor does not refuse.
    fn open_candidates(&mut self) {
        for number in 0..self.candidates.len() {
            let candidate = &self.candidates[number];
            let floor = match self.floors[&group(candidate)].clone() {
                Ok(floor) => floor,
                Err(reason) => {
                    self.illegal(reason);
                    continue;
                }
            };
            let is_staged = candidate.staging.is_some();
            let bytes = if is_staged { floor.resident_bytes } else { floor.peak_bytes };
            match self.leaves.capacity.filter(|&capacity| bytes > capacity) {
                Some(capacity) => {
                    let reason = format!(
                        "a device needs {} even if everything is split evenly over all of them, \
                            and has {}",
                        units::bytes(bytes),
                        units::bytes(capacity)
                    );
                    self.over_memory(OverMemory { is_planned: false, floor_bytes: bytes, reason });
                }
                None => self.open.push(Open {
                    candidate: number,
                    bound: self
                        .rank(number, floor.seconds_of(candidate, self.template.layer_count)),
                    stage: self.first,
                }),
            }
        }
    }

    /// Removes what cannot be among the best.
    fn cut(&mut self) {
        let (limit, longest_s) = (self.limit(), self.request.latency_s.unwrap_or(f64::INFINITY));
        let all = std::mem::take(&mut self.open).into_iter();
        let (open, late): (Vec<Open>, Vec<Open>) =
            all.partition(|open| self.seconds(open.candidate, open.bound) <= longest_s);
        for open in late {
            self.over_latency(self.seconds(open.candidate, open.bound));
        }
        let (left, cut): (Vec<Open>, Vec<Open>) =
            open.into_iter().partition(|open| open.bound < limit);
        self.open = left;
        self.least_cut = cut.iter().map(|open| open.bound).fold(self.least_cut, f64::min);
        self.space.cut += cut.iter().filter(|open| !self.is_found(open.candidate)).count();
    }

    /// The rank that a candidate must be below to be worth a plan.
    fn limit(&self) -> f64 {
        if self.request.exhaustive {
            return f64::INFINITY;
        }
        let best = self.distinct();
        let last = best.get(self.request.best.max(1) - 1);
        last.map_or(f64::INFINITY, |last| last.rank() / (1.0 + self.request.within.max(ROUNDING)))
    }

    fn close(&mut self, open: Open, goal: &Goal, outcome: Outcome) {
        let is_own = !self.leaves.is_small || goal.below_s.is_infinite();
        // Of a small space all candidates are planned with all effort in any case.
        let is_first = self.leaves.is_small && open.stage == Stage::Quick;
        match outcome {
            Outcome::Refused(Refusal::OverMemory(_) | Refusal::NotBelow(_)) if is_first => {
                self.open.push(Open { stage: Stage::Full, ..open });
            }
            Outcome::Planned(planned) if is_own => self.keep(open, planned),
            Outcome::Planned(planned) => self.may_be_wanted(open, planned.lower_bound_s()),
            Outcome::TooLarge(bound_s) => {
                let bound = self.rank(open.candidate, bound_s);
                self.note_bound(&open, bound);
                self.open.push(Open { bound: bound.max(open.bound), stage: self.limited, ..open });
            }
            Outcome::Refused(Refusal::NotBelow(bound_s)) if is_own => self.not_below(open, bound_s),
            Outcome::Refused(Refusal::NotBelow(bound_s)) => self.may_be_wanted(open, bound_s),
            Outcome::Refused(Refusal::OverMemory(_)) if !is_own => self.may_be_wanted(open, 0.0),
            // It has a plan already, made with less effort.
            Outcome::Refused(_) if self.is_found(open.candidate) => {}
            Outcome::Refused(Refusal::OverMemory(reason)) => self.refuse(open, reason),
            Outcome::Refused(Refusal::Illegal(reason)) => self.illegal(reason),
        }
    }

    /// A candidate that was planned below a goal where all are planned with all effort. That search
    /// is not the one without a goal, which alone says what the candidate takes; so what it found
    /// is but a bound, and where that excludes nothing, the other follows.
    fn may_be_wanted(&mut self, open: Open, bound_s: f64) {
        let bound = self.rank(open.candidate, bound_s).max(open.bound);
        self.note_bound(&open, bound);
        if self.again.is_tried(open.candidate) {
            self.fall_short(Open { bound, ..open });
        } else {
            self.open.push(Open { bound, stage: Stage::Full, ..open });
        }
    }

    /// A candidate without a plan that is worth anything, or without a better one than it has.
    fn not_below(&mut self, open: Open, bound_s: f64) {
        let bound = self.rank(open.candidate, bound_s).max(open.bound);
        self.note_bound(&open, bound);
        let found = self.found.iter_mut().find(|(number, _)| *number == open.candidate);
        if let Some((_, known)) = found {
            known.lower_bound_s = known.lower_bound_s.max(bound_s).min(known.objective_s);
        } else {
            self.fall_short(Open { bound, ..open });
        }
    }

    fn keep(&mut self, open: Open, planned: Box<Planned>) {
        let number = open.candidate;
        let mut strategy = Strategy::new(&self.candidates[number], &planned);
        let bound_s = self.seconds(number, open.bound);
        strategy.lower_bound_s = strategy.lower_bound_s.max(bound_s).min(strategy.objective_s);
        self.note_bound(&open, strategy.rank_bound());
        if self.request.latency_s.is_some_and(|longest_s| strategy.objective_s > longest_s) {
            return self.close_late(open, &strategy);
        }
        let is_proven = strategy.lower_bound_s >= strategy.objective_s * (1.0 - PROVEN);
        if open.stage == Stage::Quick && self.leaves.is_small {
            self.open.push(Open { bound: strategy.rank_bound(), stage: Stage::Full, ..open });
        } else if open.stage == Stage::Quick && !is_proven {
            self.quick.insert(number);
        }
        // Of equal plans of one candidate the later is that of more effort.
        let is_best = self
            .found
            .iter()
            .all(|(other, of)| strategy.compare(of).then(number.cmp(other)).is_le());
        if is_best {
            self.best = Some((number, planned));
        }
        match self.found.iter_mut().find(|(other, _)| *other == number) {
            None => {
                self.space.planned += 1;
                self.found.push((number, strategy));
            }
            Some((_, known)) => {
                let lower_bound_s = strategy.lower_bound_s.max(known.lower_bound_s);
                if strategy.compare(known).is_le() {
                    *known = strategy;
                }
                known.lower_bound_s = lower_bound_s.min(known.objective_s);
            }
        }
    }

    fn is_found(&self, candidate: usize) -> bool {
        self.found.iter().any(|(number, _)| *number == candidate)
    }

    /// Candidates without a plan that are not done.
    fn left(&self) -> usize {
        let open = self.open.iter().chain(self.running()).chain(&self.late);
        let open = open.filter(|open| !self.is_found(open.candidate)).count();
        open + self.again.open().count()
    }

    /// What candidates are compared by: seconds, for an element where batches differ.
    fn rank(&self, candidate: usize, seconds: f64) -> f64 {
        seconds / self.candidates[candidate].elements()
    }

    /// The seconds of a step of this rank.
    fn seconds(&self, candidate: usize, rank: f64) -> f64 {
        rank * self.candidates[candidate].elements()
    }

    /// What was planned with little effort may be faster with all of it.
    fn close_late(&mut self, open: Open, strategy: &Strategy) {
        if open.stage == Stage::Quick {
            self.open.push(Open { bound: strategy.rank_bound(), stage: Stage::Full, ..open });
            return;
        }
        self.over_latency(strategy.objective_s);
        // Another plan of it may be fast enough, so its bound holds for the space.
        if self.request.latency_s.is_some_and(|longest_s| strategy.lower_bound_s <= longest_s) {
            self.least_cut = self.least_cut.min(strategy.rank_bound());
        }
    }

    fn over_latency(&mut self, seconds: f64) {
        self.space.over_latency += 1;
        self.fastest_s = self.fastest_s.min(seconds);
    }

    fn illegal(&mut self, reason: String) {
        self.space.illegal += 1;
        *self.illegal.entry(reason).or_default() += 1;
    }

    fn over_memory(&mut self, refused: OverMemory) {
        self.space.over_memory += 1;
        let key = |of: &OverMemory| (of.is_planned, -of.floor_bytes);
        if self.over_memory.as_ref().is_none_or(|known| key(&refused) > key(known)) {
            self.over_memory = Some(refused);
        }
    }

    fn is_late(&self) -> bool {
        let is_over = self.leaves.timeout.is_some_and(|(_, end)| Instant::now() >= end);
        is_over || self.is_stopped()
    }

    /// Whether somebody asked for the best so far.
    fn is_stopped(&self) -> bool {
        self.leaves.options.cancellation.is_cancelled()
    }

    fn progress(&self) {
        self.say(self.candidates.len() - self.left());
    }

    /// Reports that so many candidates are done.
    fn say(&self, done: usize) {
        let best_s = self.best.as_ref().map(|(_, best)| best.objective_s(&best.report));
        (self.report)(Progress {
            chips: self.request.chips,
            done,
            all: self.candidates.len(),
            best_s,
            bound_s: self.seconds_of_best(self.lower_bound()),
        });
    }

    /// A rank as the seconds of a step of the best candidate's batch.
    fn seconds_of_best(&self, rank: f64) -> f64 {
        self.best.as_ref().map_or(rank, |(number, _)| self.seconds(*number, rank))
    }

    /// Nothing has a lower rank: the least of what is open or aside, was cut, or was planned.
    fn lower_bound(&self) -> f64 {
        let open = self.open.iter().chain(self.running()).chain(self.again.open());
        let open = open.chain(&self.late);
        let open = open.map(|open| open.bound);
        let found = self.found.iter().map(|(_, strategy)| strategy.rank_bound());
        let least = open.chain(found).fold(self.least_cut, f64::min);
        if least.is_finite() { least } else { 0.0 }
    }
}
