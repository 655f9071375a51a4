//! Branch and bound over candidates; the bounds are those that [`crate::tune`] lists.
//!
//! A candidate is expanded in runs of the planner ([`super::leaf`]): without a memory limit, which
//! is fast and bounds it, and within memory, if that plan does not fit. A large space is planned
//! with little effort, until nothing is open; then the best that are not proven, with all effort.
//! Each round expands the few open candidates with the least bounds, in parallel; their number does
//! not depend on the machine.

use std::time::Instant;

use indexmap::{IndexMap, IndexSet};
use rayon::prelude::*;
use shardwise_ir::{Diag, codes};

use super::leaf::{Leaves, Outcome, Refusal, Stage};
use super::machine::Shape;
use super::strategy::{Key, Strategy};
use super::template::{Candidate, Recompute, Template};
use super::{Progress, Refused, Report, Request, Space, Tuned};
use crate::Planned;
use crate::display::units;
use crate::options::{Effort, Options};

/// Candidates that a round expands.
const ROUND: usize = 4;

/// Spaces of so many candidates are planned with all effort.
const FEW_CANDIDATES: usize = 64;

/// A plan within this ratio of its bound is not planned again.
const PROVEN: f64 = 0.01;

/// Relative differences below this are rounding.
const ROUNDING: f64 = 1e-9;

/// What no candidate with this recomputation and number of microbatches is below.
#[derive(Clone, Copy, Debug, Default)]
struct Floor {
    seconds: f64,
    /// Bytes of a device at the peak.
    peak_bytes: f64,
    /// Bytes of parameters and state.
    resident_bytes: f64,
}

/// Candidates with equal floors.
type Group = (Recompute, Option<u64>);

/// A candidate that is not done.
#[derive(Clone, Copy, Debug)]
struct Open {
    candidate: usize,
    bound_s: f64,
    stage: Stage,
}

/// A search, and what it knows.
pub(super) struct Search<'a, 's> {
    template: &'a Template<'s>,
    candidates: Vec<Candidate>,
    request: &'a Request,
    leaves: Leaves<'a, 's>,
    report: Report<'a>,
    floors: IndexMap<Group, Result<Floor, String>>,
    /// The bounds of shapes without microbatches, which hold with any number of them.
    of_shapes: IndexMap<(Shape, Recompute), f64>,
    open: Vec<Open>,
    found: Vec<(usize, Strategy)>,
    /// Found with little effort, and not proven.
    quick: IndexSet<usize>,
    /// What fits nowhere with little effort, with the bytes of its floor.
    refused: Vec<(f64, Open)>,
    /// The stage after a plan without a memory limit.
    limited: Stage,
    /// The best candidate and its plan.
    best: Option<(usize, Box<Planned>)>,
    /// The least bound of what was cut.
    cut_s: f64,
    space: Space,
    illegal: IndexMap<String, usize>,
    /// The reason of the refused candidate with the least floor.
    over_memory: Option<(f64, String)>,
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
        let timeout = request.timeout.map(|timeout| (timeout, Instant::now() + timeout));
        let is_small = candidates.len() <= FEW_CANDIDATES || request.exhaustive;
        let limited = if is_small { Stage::Full } else { Stage::Quick };
        Self {
            template,
            candidates,
            request,
            leaves: Leaves { template, options, timeout, capacity: None },
            report,
            floors: IndexMap::new(),
            of_shapes: IndexMap::new(),
            open: Vec::new(),
            found: Vec::new(),
            quick: IndexSet::new(),
            refused: Vec::new(),
            limited,
            best: None,
            cut_s: f64::INFINITY,
            space,
            illegal: IndexMap::new(),
            over_memory: None,
        }
    }

    /// Searches, until nothing is open or the time is over.
    pub(super) fn run(mut self) -> Result<Tuned, Refused> {
        self.leaves.capacity = self.memory()?;
        self.floors = self.all_floors();
        self.open_candidates();
        while !self.is_late() {
            self.cut();
            if self.open.is_empty() {
                self.reopen();
            }
            let round = self.next_round();
            if round.is_empty() {
                break;
            }
            let outcomes: Vec<Outcome> = round
                .par_iter()
                .map(|open| self.leaves.expand(&self.candidates[open.candidate], open.stage))
                .collect();
            if self.is_stopped() {
                self.open.extend(round);
                break;
            }
            self.space.runs += round.len();
            for (open, outcome) in round.into_iter().zip(outcomes) {
                self.close(open, outcome);
            }
            self.raise_bounds();
            self.progress();
        }
        self.space.left = self.left();
        self.space.stopped = self.is_stopped();
        self.answer()
    }

    /// Bytes of a device, where there is a limit.
    fn memory(&self) -> Result<Option<f64>, Refused> {
        let own = self.template.hardware()?.hbm_bytes;
        Ok(self.leaves.options.memory.or(own).filter(|bytes| bytes.is_finite()))
    }

    /// The floors of all groups; the error is the rule that refuses the group.
    fn all_floors(&mut self) -> IndexMap<Group, Result<Floor, String>> {
        let groups: IndexSet<Group> = self.candidates.iter().map(group).collect();
        let groups: Vec<Group> = groups.into_iter().collect();
        self.space.runs += groups.len();
        let floor = |&(recompute, microbatches): &Group| {
            let shape = Shape::of_one_device(&self.template.named_axes);
            let alone = Candidate { shape, microbatches, recompute };
            let floor = match self.leaves.planned(&alone, Some(f64::INFINITY), Effort::Full) {
                Ok(planned) => Ok(self.floor_of(&planned)),
                Err(Refusal::OverMemory(reason) | Refusal::Illegal(reason)) => Err(reason),
            };
            ((recompute, microbatches), floor)
        };
        groups.par_iter().map(floor).collect::<Vec<_>>().into_iter().collect()
    }

    fn floor_of(&self, planned: &Planned) -> Floor {
        let share = 1.0 / self.request.chips as f64;
        let memory = &planned.report.memory;
        Floor {
            seconds: share * planned.lower_bound_s() * (1.0 - ROUNDING),
            peak_bytes: share * memory.peak_bytes,
            resident_bytes: share * memory.resident_bytes,
        }
    }

    /// Opens every candidate that its floor does not refuse.
    fn open_candidates(&mut self) {
        for number in 0..self.candidates.len() {
            let floor = match self.floors[&group(&self.candidates[number])].clone() {
                Ok(floor) => floor,
                Err(reason) => {
                    self.illegal(reason);
                    continue;
                }
            };
            let is_staged = self.candidates[number].shape.stages > 1;
            let bytes = if is_staged { floor.resident_bytes } else { floor.peak_bytes };
            match self.leaves.capacity.filter(|&capacity| bytes > capacity) {
                Some(capacity) => {
                    let reason = format!(
                        "a device needs {} even if everything is split evenly over all of them, \
                            and has {}",
                        units::bytes(bytes),
                        units::bytes(capacity)
                    );
                    self.over_memory(bytes, reason);
                }
                None => self.open.push(Open {
                    candidate: number,
                    bound_s: floor.seconds,
                    stage: Stage::Unlimited,
                }),
            }
        }
    }

    /// Removes what cannot be among the best.
    fn cut(&mut self) {
        let limit_s = self.limit_s();
        let (left, cut): (Vec<Open>, Vec<Open>) =
            std::mem::take(&mut self.open).into_iter().partition(|open| open.bound_s < limit_s);
        self.open = left;
        self.cut_s = cut.iter().map(|open| open.bound_s).fold(self.cut_s, f64::min);
        self.space.cut += cut.iter().filter(|open| !self.is_found(open.candidate)).count();
    }

    /// What a candidate must be below to be worth a plan.
    fn limit_s(&self) -> f64 {
        if self.request.exhaustive {
            return f64::INFINITY;
        }
        let best = self.distinct();
        let last = best.get(self.request.best.max(1) - 1);
        last.map_or(f64::INFINITY, |last| {
            last.objective_s * (1.0 - self.request.within.max(ROUNDING))
        })
    }

    /// Takes the candidates with the least bounds, and as many of those that have a low bound and
    /// need little memory, so that there is a solution early.
    fn next_round(&mut self) -> Vec<Open> {
        self.open
            .sort_by(|a, b| a.bound_s.total_cmp(&b.bound_s).then(a.candidate.cmp(&b.candidate)));
        let promise: Vec<f64> = self.open.iter().map(|open| self.promise(open)).collect();
        let mut promising: Vec<usize> = (0..self.open.len()).collect();
        promising.sort_by(|&a, &b| promise[a].total_cmp(&promise[b]).then(a.cmp(&b)));
        let mut chosen: IndexSet<usize> = promising.into_iter().take(ROUND / 2).collect();
        chosen.extend(0..self.open.len());
        let mut chosen: Vec<usize> = chosen.into_iter().take(ROUND).collect();
        chosen.sort_unstable_by(|a, b| b.cmp(a));
        chosen.into_iter().map(|i| self.open.remove(i)).collect()
    }

    fn close(&mut self, open: Open, outcome: Outcome) {
        match outcome {
            Outcome::Planned(planned) => self.keep(open, planned),
            Outcome::TooLarge(bound_s) => {
                self.note_bound(open.candidate, bound_s);
                let bound_s = bound_s.max(open.bound_s);
                self.open.push(Open { bound_s, stage: self.limited, ..open });
            }
            // It has a plan already, made with less effort.
            Outcome::Refused(_) if self.is_found(open.candidate) => {}
            Outcome::Refused(Refusal::OverMemory(reason)) => {
                let floor = self.floors[&group(&self.candidates[open.candidate])].as_ref();
                let bytes = floor.map_or(0.0, |floor| floor.peak_bytes);
                self.over_memory(bytes, reason);
                if open.stage == Stage::Quick {
                    self.refused.push((bytes, open));
                }
            }
            Outcome::Refused(Refusal::Illegal(reason)) => self.illegal(reason),
        }
    }

    fn keep(&mut self, open: Open, planned: Box<Planned>) {
        let number = open.candidate;
        let mut strategy = Strategy::new(&self.candidates[number], &planned);
        strategy.lower_bound_s = strategy.lower_bound_s.max(open.bound_s).min(strategy.objective_s);
        self.note_bound(number, strategy.lower_bound_s);
        let is_proven = strategy.lower_bound_s >= strategy.objective_s * (1.0 - PROVEN);
        if open.stage == Stage::Quick && !is_proven {
            self.quick.insert(number);
        }
        let is_best = self
            .found
            .iter()
            .all(|(other, of)| strategy.compare(of).then(number.cmp(other)).is_lt());
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
                if strategy.compare(known).is_lt() {
                    *known = strategy;
                }
                known.lower_bound_s = lower_bound_s.min(known.objective_s);
            }
        }
    }

    /// The bound, more where even the least memory is a large part of the capacity.
    fn promise(&self, open: &Open) -> f64 {
        let floor = self.floors[&group(&self.candidates[open.candidate])].as_ref();
        let bytes = floor.map_or(0.0, |floor| floor.peak_bytes);
        open.bound_s * (1.0 + self.leaves.capacity.map_or(0.0, |capacity| bytes / capacity))
    }

    fn is_found(&self, candidate: usize) -> bool {
        self.found.iter().any(|(number, _)| *number == candidate)
    }

    /// Candidates without a plan that are not done.
    fn left(&self) -> usize {
        self.open.iter().filter(|open| !self.is_found(open.candidate)).count()
    }

    /// Opens those of the best again that were planned with little effort and are not proven; where
    /// nothing fits with little effort, the one that needs least.
    fn reopen(&mut self) {
        self.refused.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        if self.found.is_empty()
            && let Some((_, open)) = self.refused.pop()
        {
            self.refused.clear();
            self.over_memory = None;
            self.space.over_memory -= 1;
            self.open.push(Open { stage: Stage::Full, ..open });
        }
        let best = self.request.best.max(1);
        let again: Vec<(usize, f64)> = self
            .distinct_candidates()
            .take(best)
            .filter(|(number, _)| self.quick.contains(number))
            .map(|(number, strategy)| (*number, strategy.lower_bound_s))
            .collect();
        for (candidate, bound_s) in again {
            self.quick.shift_remove(&candidate);
            self.open.push(Open { candidate, bound_s, stage: Stage::Full });
        }
    }

    /// Remembers the bound of a shape without microbatches.
    fn note_bound(&mut self, number: usize, bound_s: f64) {
        let candidate = &self.candidates[number];
        if candidate.shape.stages == 1 && candidate.microbatches == Some(1) {
            let of = (candidate.shape.clone(), candidate.recompute);
            let known = self.of_shapes.entry(of).or_insert(bound_s);
            // A plan within memory bounds less: more microbatches may fit otherwise.
            *known = known.min(bound_s);
        }
    }

    /// Raises bounds to those of the same shapes without microbatches.
    fn raise_bounds(&mut self) {
        for open in &mut self.open {
            let candidate = &self.candidates[open.candidate];
            if candidate.shape.stages == 1 {
                let of = (candidate.shape.clone(), candidate.recompute);
                let known = self.of_shapes.get(&of).copied().unwrap_or(0.0);
                open.bound_s = open.bound_s.max(known * (1.0 - ROUNDING));
            }
        }
    }

    fn illegal(&mut self, reason: String) {
        self.space.illegal += 1;
        *self.illegal.entry(reason).or_default() += 1;
    }

    fn over_memory(&mut self, bytes: f64, reason: String) {
        self.space.over_memory += 1;
        if self.over_memory.as_ref().is_none_or(|(least, _)| bytes < *least) {
            self.over_memory = Some((bytes, reason));
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
        let best_s = self.best.as_ref().map(|(_, best)| best.objective_s(&best.report));
        (self.report)(Progress {
            done: self.candidates.len() - self.left(),
            all: self.candidates.len(),
            best_s,
            bound_s: self.lower_bound_s(),
        });
    }

    /// Nothing takes less: the least of what is open, was cut, or was planned.
    fn lower_bound_s(&self) -> f64 {
        let open = self.open.iter().map(|open| open.bound_s);
        let found = self.found.iter().map(|(_, strategy)| strategy.lower_bound_s);
        let least = open.chain(found).fold(self.cut_s, f64::min);
        if least.is_finite() { least } else { 0.0 }
    }

    /// The best of each strategy, best first.
    fn distinct(&self) -> Vec<&Strategy> {
        self.distinct_candidates().map(|(_, strategy)| strategy).collect()
    }

    fn distinct_candidates(&self) -> impl Iterator<Item = &(usize, Strategy)> {
        let mut sorted: Vec<&(usize, Strategy)> = self.found.iter().collect();
        sorted.sort_by(|(i, a), (j, b)| a.compare(b).then(i.cmp(j)));
        let mut seen: IndexSet<Key> = IndexSet::new();
        sorted.into_iter().filter(move |(_, strategy)| seen.insert(strategy.key()))
    }

    fn answer(mut self) -> Result<Tuned, Refused> {
        let Some((number, planned)) = self.best.take() else { return Err(self.nothing()) };
        let lower_bound_s = self.lower_bound_s();
        let distinct = self.distinct();
        let mut pareto: Vec<Strategy> = distinct
            .iter()
            .filter(|strategy| !distinct.iter().any(|other| other.dominates(strategy)))
            .map(|strategy| (*strategy).clone())
            .collect();
        pareto.dedup_by_key(|strategy| {
            (strategy.objective_s.to_bits(), strategy.peak_bytes.to_bits())
        });
        let strategies: Vec<Strategy> =
            distinct.into_iter().take(self.request.best.max(1)).cloned().collect();
        let illegal_because =
            self.illegal.iter().max_by_key(|(_, count)| **count).map(|(reason, _)| reason.clone());
        Ok(Tuned {
            schema: "shardwise.tune/1",
            program: self.template.name.to_owned(),
            batch: self.template.batch_of(&planned.plan.program),
            hardware: planned.plan.program.hardware.name.clone(),
            chips: self.request.chips,
            objective: self.leaves.options.objective.name(),
            lower_bound_s: lower_bound_s.min(strategies[0].objective_s),
            strategies,
            pareto,
            winner: self.template.text(&self.candidates[number]),
            plan: planned.to_string(),
            space: Space { illegal_because, ..self.space },
        })
    }

    /// Why no candidate has a plan.
    fn nothing(&self) -> Refused {
        let left = self.space.left;
        if left > 0 {
            return Refused::Options(format!(
                "the search ended before any of {left} candidates had a plan; give it more time, \
                    with a longer --timeout or without one"
            ));
        }
        let chips = self.request.chips;
        let error = |code, message: String, help: &str| {
            let diag = Diag::error(code, message, self.template.start(), "this program");
            Refused::Program(self.template.findings(diag.help(help)))
        };
        match (&self.over_memory, self.illegal.iter().max_by_key(|(_, count)| **count)) {
            (Some((_, reason)), _) => error(
                codes::budget::NO_ROOM,
                format!("no strategy on {chips} chips fits: in the smallest, {reason}"),
                "use more --chips, allow more --microbatches or --axes, or raise --memory to what \
                    a chip has",
            ),
            (None, Some((reason, count))) => error(
                codes::sharding::NO_LAYOUT,
                format!(
                    "none of {} candidates on {chips} chips is legal: {reason} (in {count} of \
                        them)",
                    self.space.candidates
                ),
                "change what is pinned there, or release everything with --free",
            ),
            (None, None) => Refused::Options("there is nothing to plan".to_owned()),
        }
    }
}

fn group(candidate: &Candidate) -> Group {
    let count = candidate.microbatches.filter(|_| candidate.shape.stages == 1);
    (candidate.recompute, count)
}
