//! What a search answers: the best strategies, or why there is none.

use indexmap::IndexSet;
use shardwise_ir::{Diag, codes};

use super::{OverMemory, Search};
use crate::Planned;
use crate::display::units;
use crate::options::Objective;
use crate::tune::strategy::Key;
use crate::tune::{Recompute, Refused, Space, Strategy, Tuned};

/// The ratio of schedules above which one is shorter.
const SHORTER: f64 = 1.01;

impl Search<'_, '_> {
    pub(super) fn answer(mut self) -> Result<Tuned, Refused> {
        let Some((number, planned)) = self.best.take() else { return Err(self.nothing()) };
        let planned = self.leaves.shown(&self.candidates[number], planned);
        let lower_bound_s = self.seconds(number, self.lower_bound());
        let distinct = self.distinct();
        let time_and_memory = distinct.iter().map(|of| (of.objective_s, of.peak_bytes)).collect();
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
            batch: self.batch_of(number, &planned),
            hardware: planned.plan.program.hardware.name.clone(),
            chips: self.request.chips,
            dtypes: self.request.dtypes.iter().map(|of| of.name()).collect(),
            left_out: Vec::new(),
            objective: self.leaves.options.objective.name(),
            lower_bound_s: lower_bound_s.min(strategies[0].objective_s),
            time_and_memory,
            shorter_step: self.shorter_step(&strategies),
            shorter_unprinted: self.shorter_unprinted(&strategies),
            against: Vec::new(),
            what_if: Vec::new(),
            strategies,
            pareto,
            winner: self.template.text(&self.candidates[number]),
            plan: planned.to_string(),
            space: Space { illegal_because, ..self.space },
        })
    }

    /// The number of the strategy with the shortest schedule, if the first is not near it.
    fn shorter_step(&self, strategies: &[Strategy]) -> Option<usize> {
        let is_minimized = self.leaves.options.objective == Objective::Scheduled;
        let step_s = |number: &usize| strategies[number - 1].step_of_element_s();
        let all = 1..=strategies.len();
        let shortest = all.min_by(|a, b| step_s(a).total_cmp(&step_s(b)))?;
        let is_shorter = step_s(&1) > step_s(&shortest) * SHORTER;
        (is_shorter && !is_minimized).then_some(shortest)
    }

    /// The plan with the shortest schedule of all that were made, if that of none of the best is
    /// near it: one below them, or of one of them on another mesh.
    fn shorter_unprinted(&self, strategies: &[Strategy]) -> Option<Strategy> {
        let step_s = Strategy::step_of_element_s;
        let shortest_s = strategies.iter().map(step_s).fold(f64::INFINITY, f64::min);
        let all = self.found.iter().map(|(_, strategy)| strategy);
        let shortest = all.min_by(|a, b| step_s(a).total_cmp(&step_s(b)))?;
        let is_minimized = self.leaves.options.objective == Objective::Scheduled;
        let is_shorter = shortest_s > step_s(shortest) * SHORTER;
        (is_shorter && !is_minimized).then(|| shortest.clone())
    }

    /// The best of each strategy, best first.
    pub(super) fn distinct(&self) -> Vec<&Strategy> {
        self.distinct_candidates().map(|(_, strategy)| strategy).collect()
    }

    pub(super) fn distinct_candidates(&self) -> impl Iterator<Item = &(usize, Strategy)> {
        let mut sorted: Vec<&(usize, Strategy)> = self.found.iter().collect();
        sorted.sort_by(|(i, a), (j, b)| a.compare(b).then(i.cmp(j)));
        let mut seen: IndexSet<Key> = IndexSet::new();
        sorted.into_iter().filter(move |(_, strategy)| seen.insert(strategy.key()))
    }

    /// Why no candidate has a plan.
    fn nothing(&self) -> Refused {
        let left = self.space.left;
        if left > 0 {
            let (ended, longer) = if self.space.stopped {
                ("was stopped", "let it run for longer")
            } else {
                ("ended", "give it more time, with a longer --timeout or without one")
            };
            return Refused::Options(format!(
                "the search {ended} before any of {left} candidates had a plan; {longer}"
            ));
        }
        let chips = units::counted(self.request.chips, "chip");
        let error = |code, message: String, help: &str| {
            let diag = Diag::error(code, message, self.template.start(), "this program");
            Refused::Program(self.template.findings(diag.help(help)))
        };
        if self.fastest_s.is_finite() {
            return self.too_slow();
        }
        match (&self.over_memory, self.illegal.iter().max_by_key(|(_, count)| **count)) {
            (Some(OverMemory { reason, .. }), _) => error(
                codes::budget::NO_ROOM,
                format!("no strategy on {chips} fits: in the smallest, {reason}"),
                if self.template.has_gradients() {
                    "use more --chips, allow more --microbatches or --axes, or raise --memory to \
                        what a chip has"
                } else {
                    "use more --chips, allow more --axes or a smaller --batch, or raise --memory \
                        to what a chip has"
                },
            ),
            (None, Some((reason, count))) => error(
                codes::sharding::NO_LAYOUT,
                format!(
                    "none of {} candidates on {chips} is legal: {reason} (in {count} of \
                        them)",
                    self.space.candidates
                ),
                &self.help_for_illegal(),
            ),
            (None, None) => Refused::Options("there is nothing to plan".to_owned()),
        }
    }

    /// What to ask for where no candidate is legal.
    fn help_for_illegal(&self) -> String {
        // What these compute again, a program may not have.
        let needs = [Recompute::AllButProducts, Recompute::Attention, Recompute::Mlp];
        let asks_for_kinds = self.request.recompute.iter().all(|of| needs.contains(of));
        let recompute =
            if asks_for_kinds { "ask for another --recompute, such as layers, or " } else { "" };
        let others = if self.request.free {
            "write sizes that are multiples of the numbers of devices and of microbatches, or ask \
                for others"
        } else {
            "change what is pinned there, release everything with --free, or ask for other \
                --microbatches or --chips"
        };
        let batch = if self.request.batches.is_empty() {
            ""
        } else {
            "ask for another --batch, a multiple of the numbers of microbatches and of devices, "
        };
        format!("{recompute}{batch}{others}")
    }

    /// The batch of a candidate.
    fn batch_of(&self, number: usize, planned: &Planned) -> Option<u64> {
        let own = self.candidates[number].batch;
        own.or_else(|| self.template.batch_of(&planned.plan.program))
    }

    /// That nothing is as fast as it has to be.
    fn too_slow(&self) -> Refused {
        let longest_s = self.request.latency_s.unwrap_or_default();
        let over_memory = match self.space.over_memory {
            0 => String::new(),
            count => format!("; {count} of {} do not fit", self.space.candidates),
        };
        let text = format!(
            "no strategy on {} takes at most {}: the fastest that was looked at takes {} or \
                more{over_memory}",
            units::counted(self.request.chips, "chip"),
            units::seconds(longest_s),
            units::seconds(self.fastest_s),
        );
        Refused::TooSlow(text, self.fastest_s)
    }
}
