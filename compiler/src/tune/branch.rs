//! Branch and bound over candidates; the bounds are those that [`crate::tune`] lists.
//!
//! A candidate is expanded in two runs of the planner: without a memory limit, which is fast and
//! bounds it, and within memory, if that plan does not fit. Each round expands the few open
//! candidates with the least bounds, in parallel; their number does not depend on the machine.

use std::time::{Duration, Instant};

use indexmap::{IndexMap, IndexSet};
use rayon::prelude::*;
use shardwise_ir::{Diag, codes};

use super::machine::Shape;
use super::strategy::{Key, Strategy};
use super::template::{Candidate, Recompute, Template};
use super::{Progress, Refused, Report, Request, Space, Tuned};
use crate::Planned;
use crate::diagnostics::Findings;
use crate::display::units;
use crate::driver::plan;
use crate::options::Options;

/// Candidates that a round expands.
const ROUND: usize = 4;

/// The part of a time limit that one run of the planner has.
const SHARES: u32 = 32;

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
    /// Whether it was planned without a memory limit already.
    is_limited: bool,
}

/// What a run of the planner says of a candidate.
enum Outcome {
    /// Its plan.
    Planned(Box<Planned>),
    /// The plan without a memory limit does not fit; nothing takes less than these seconds.
    TooLarge(f64),
    /// No plan fits, for this reason.
    OverMemory(String),
    /// A rule of the language.
    Illegal(String),
}

/// Why a plan was refused.
enum Refusal {
    OverMemory(String),
    Illegal(String),
}

/// A search, and what it knows.
pub(super) struct Search<'a, 's> {
    template: &'a Template<'s>,
    candidates: Vec<Candidate>,
    request: &'a Request,
    options: &'a Options,
    report: Report<'a>,
    deadline: Option<Instant>,
    floors: IndexMap<Group, Result<Floor, String>>,
    /// The bounds of shapes without microbatches, which hold with any number of them.
    of_shapes: IndexMap<(Shape, Recompute), f64>,
    open: Vec<Open>,
    found: Vec<(usize, Strategy)>,
    /// The best candidate and its plan.
    best: Option<(usize, Box<Planned>)>,
    /// The least bound of what was cut.
    cut_s: f64,
    space: Space,
    illegal: IndexMap<String, usize>,
    /// The reason of the refused candidate with the least floor.
    over_memory: Option<(f64, String)>,
    capacity: Option<f64>,
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
        Self {
            template,
            candidates,
            request,
            options,
            report,
            deadline: request.timeout.map(|timeout| Instant::now() + timeout),
            floors: IndexMap::new(),
            of_shapes: IndexMap::new(),
            open: Vec::new(),
            found: Vec::new(),
            best: None,
            cut_s: f64::INFINITY,
            space,
            illegal: IndexMap::new(),
            over_memory: None,
            capacity: None,
        }
    }

    /// Searches, until nothing is open or the time is over.
    pub(super) fn run(mut self) -> Result<Tuned, Refused> {
        self.capacity = self.memory()?;
        self.floors = self.all_floors();
        self.open_candidates();
        while !self.is_late() {
            self.cut();
            let round = self.next_round();
            if round.is_empty() {
                break;
            }
            let outcomes: Vec<Outcome> = round.par_iter().map(|open| self.expand(open)).collect();
            self.space.runs += round.len();
            for (open, outcome) in round.into_iter().zip(outcomes) {
                self.close(open, outcome);
            }
            self.raise_bounds();
            self.progress();
        }
        self.space.left = self.open.len();
        self.answer()
    }

    /// Bytes of a device, where there is a limit.
    fn memory(&self) -> Result<Option<f64>, Refused> {
        let own = self.template.hardware()?.hbm_bytes;
        Ok(self.options.memory.or(own).filter(|bytes| bytes.is_finite()))
    }

    /// The floors of all groups; the error is the rule that refuses the group.
    fn all_floors(&mut self) -> IndexMap<Group, Result<Floor, String>> {
        let groups: IndexSet<Group> = self.candidates.iter().map(group).collect();
        let groups: Vec<Group> = groups.into_iter().collect();
        self.space.runs += groups.len();
        let floor = |&(recompute, microbatches): &Group| {
            let shape = Shape::of_one_device(&self.template.named_axes);
            let alone = Candidate { shape, microbatches, recompute };
            let floor = match self.planned(&alone, Some(f64::INFINITY)) {
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
            match self.capacity.filter(|&capacity| bytes > capacity) {
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
                    is_limited: false,
                }),
            }
        }
    }

    /// Removes what cannot be among the best.
    fn cut(&mut self) {
        let limit_s = self.limit_s();
        let before = self.open.len();
        let cut = self.open.iter().filter(|open| open.bound_s >= limit_s).map(|open| open.bound_s);
        self.cut_s = cut.fold(self.cut_s, f64::min);
        self.open.retain(|open| open.bound_s < limit_s);
        self.space.cut += before - self.open.len();
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

    /// Takes the candidates with the least bounds, and as many of those that are next planned
    /// within memory, so that there is a solution early.
    fn next_round(&mut self) -> Vec<Open> {
        self.open
            .sort_by(|a, b| a.bound_s.total_cmp(&b.bound_s).then(a.candidate.cmp(&b.candidate)));
        let limited = (0..self.open.len()).filter(|&i| self.open[i].is_limited).take(ROUND / 2);
        let mut chosen: IndexSet<usize> = limited.collect();
        chosen.extend(0..self.open.len());
        let mut chosen: Vec<usize> = chosen.into_iter().take(ROUND).collect();
        chosen.sort_unstable_by(|a, b| b.cmp(a));
        chosen.into_iter().map(|i| self.open.remove(i)).collect()
    }

    fn expand(&self, open: &Open) -> Outcome {
        let candidate = &self.candidates[open.candidate];
        let memory = if open.is_limited { self.options.memory } else { Some(f64::INFINITY) };
        let fits = |planned: &Planned| {
            self.capacity.is_none_or(|capacity| planned.report.memory.peak_bytes <= capacity)
        };
        match self.planned(candidate, memory) {
            Ok(planned) if open.is_limited || fits(&planned) => {
                let capacity_bytes = self.capacity;
                Outcome::Planned(Box::new(Planned { capacity_bytes, ..planned }))
            }
            Ok(planned) => Outcome::TooLarge(planned.lower_bound_s()),
            Err(Refusal::OverMemory(reason)) => Outcome::OverMemory(reason),
            Err(Refusal::Illegal(reason)) => Outcome::Illegal(reason),
        }
    }

    fn planned(&self, candidate: &Candidate, memory: Option<f64>) -> Result<Planned, Refusal> {
        let timeout = self.request.timeout.map(|all| self.share_of(all));
        let options = Options { memory, timeout, ..self.options.clone() };
        let text = self.template.text(candidate);
        plan(self.template.name, &text, &options).map_err(|findings| refusal(&findings))
    }

    /// The time of one run: a small part of all, so that many candidates have a plan.
    fn share_of(&self, all: Duration) -> Duration {
        let left = self
            .deadline
            .map_or(all, |deadline| deadline.saturating_duration_since(Instant::now()));
        left.min(all / SHARES).max(Duration::from_millis(1))
    }

    fn close(&mut self, open: Open, outcome: Outcome) {
        match outcome {
            Outcome::Planned(planned) => self.keep(open.candidate, planned),
            Outcome::TooLarge(bound_s) => {
                self.note_bound(open.candidate, bound_s);
                let bound_s = bound_s.max(open.bound_s);
                self.open.push(Open { bound_s, is_limited: true, ..open });
            }
            Outcome::OverMemory(reason) => {
                let floor = self.floors[&group(&self.candidates[open.candidate])].as_ref();
                let bytes = floor.map_or(0.0, |floor| floor.peak_bytes);
                self.over_memory(bytes, reason);
            }
            Outcome::Illegal(reason) => self.illegal(reason),
        }
    }

    fn keep(&mut self, number: usize, planned: Box<Planned>) {
        self.space.planned += 1;
        let strategy = Strategy::new(&self.candidates[number], &planned);
        self.note_bound(number, strategy.lower_bound_s);
        let is_best = self
            .found
            .iter()
            .all(|(other, of)| strategy.compare(of).then(number.cmp(other)).is_lt());
        if is_best {
            self.best = Some((number, planned));
        }
        self.found.push((number, strategy));
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
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn progress(&self) {
        let best_s = self.best.as_ref().map(|(_, best)| best.objective_s(&best.report));
        (self.report)(Progress {
            done: self.candidates.len() - self.open.len(),
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
        let mut sorted: Vec<&(usize, Strategy)> = self.found.iter().collect();
        sorted.sort_by(|(i, a), (j, b)| a.compare(b).then(i.cmp(j)));
        let mut seen: IndexSet<Key> = IndexSet::new();
        let strategies = sorted.into_iter().map(|(_, strategy)| strategy);
        strategies.filter(|strategy| seen.insert(strategy.key())).collect()
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
            hardware: planned.plan.program.hardware.name.clone(),
            chips: self.request.chips,
            objective: self.options.objective.name(),
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
                "the time was over before any of {left} candidates had a plan; give a longer \
                    --timeout"
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

/// The first error of a candidate.
fn refusal(findings: &Findings) -> Refusal {
    let errors =
        || findings.reports.iter().filter(|report| report.diag.severity == crate::Severity::Error);
    let message =
        errors().next().map_or("no plan".to_owned(), |report| report.diag.message.clone());
    if errors().any(|report| report.diag.code == codes::budget::NO_ROOM) {
        Refusal::OverMemory(message)
    } else {
        Refusal::Illegal(message)
    }
}
