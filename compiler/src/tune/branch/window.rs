//! Expands a few candidates at once, on all cores.
//!
//! What is known of others decides whether a candidate is expanded, and what its plan has to reach.
//! So that the result is the same on every machine, outcomes are taken in the order in which the
//! runs began, and after each of them another run begins: with what is known of all before it but
//! the [`AT_ONCE`] less one that are still running. Where one of these takes much longer than those
//! after it, their outcomes wait for it.
//!
//! Each run has a part of a time limit. One that uses it up says little: its plan may be far from
//! the best, and where it found none, one may fit. Such candidates wait until nothing else is open,
//! and are expanded again with a larger part, so that no limit ends a search that has time left.
//!
//! Alternatives: *rounds* of a few runs wait for the slowest of each round, which leaves a fifth of
//! two cores idle; outcomes *as they come* keep all cores busy, and have another result on each
//! machine; more runs at once, or runs that count by their stage, keep two cores hardly busier and
//! know less of each other.

use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::Instant;

use rayon::{ScopeFifo, Yield};
use shardwise_passes::Goal;

use super::{Open, Search};
use crate::tune::leaf::{Outcome, Refusal, Stage};

/// Candidates that are expanded at once. More keep more cores busy, and know less of each other.
pub(super) const AT_ONCE: usize = 5;

/// The same for those that are expanded again with all effort.
pub(super) const AGAIN_AT_ONCE: usize = 2;

/// A candidate that is expanded.
pub(super) struct Running {
    open: Open,
    goal: Goal,
    outcome: Receiver<Ended>,
}

/// How a run ended.
struct Ended {
    outcome: Outcome,
    /// Whether it used up its part of the time limit.
    is_late: bool,
}

impl Ended {
    /// Whether nothing is known of the candidate, since its time was over.
    fn says_nothing(&self) -> bool {
        let refused =
            matches!(self.outcome, Outcome::Refused(Refusal::OverMemory(_) | Refusal::NotBelow(_)));
        self.is_late && refused
    }
}

impl Running {
    /// Waits for the outcome; none if the run panicked.
    fn outcome(&self) -> Option<Ended> {
        if rayon::current_thread_index().is_none() {
            return self.outcome.recv().ok();
        }
        // The run may need this thread.
        loop {
            match self.outcome.try_recv() {
                Ok(outcome) => return Some(outcome),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => {
                    if rayon::yield_now() != Some(Yield::Executed) {
                        std::thread::yield_now();
                    }
                }
            }
        }
    }
}

impl Search<'_, '_> {
    /// Expands candidates until nothing is open or the time is over; whether nothing is open.
    pub(super) fn expand_all(&mut self) -> bool {
        let is_done = rayon::in_place_scope_fifo(|scope| self.expand_in(scope));
        let left = std::mem::take(&mut self.running).into_iter();
        self.open.extend(left.map(|running| running.open));
        is_done
    }

    fn expand_in<'scope>(&mut self, scope: &ScopeFifo<'scope>) -> bool
    where
        Self: 'scope,
    {
        loop {
            while self.running.len() < AT_ONCE && !self.is_late() {
                let Some(open) = self.chosen() else { break };
                let running = self.begin(open, scope);
                self.running.push_back(running);
            }
            let Some(first) = self.running.front() else { return !self.is_late() };
            let Some(outcome) = first.outcome() else { return false };
            if self.is_stopped() {
                return false;
            }
            if let Some(Running { open, goal, .. }) = self.running.pop_front() {
                self.space.runs += 1;
                self.end(open, &goal, outcome);
                self.raise_bounds();
                self.progress();
            }
        }
    }

    /// What a run says of its candidate, which is expanded again if its time was too short.
    fn end(&mut self, open: Open, goal: &Goal, ended: Ended) {
        let is_late = ended.is_late && self.leaves.may_have_more_time();
        if is_late && ended.says_nothing() && !self.is_found(open.candidate) {
            return self.late.push(open);
        }
        let is_planned = matches!(ended.outcome, Outcome::Planned(_));
        self.close(open, goal, ended.outcome);
        let found = self.found.iter().find(|(number, _)| *number == open.candidate);
        if let Some((_, strategy)) = found.filter(|_| is_late && is_planned) {
            let bound = strategy.rank_bound();
            self.late.retain(|of| of.candidate != open.candidate);
            self.late.push(Open { bound, ..open });
        }
    }

    /// Opens what had too little time, with more of it.
    fn open_late(&mut self) {
        if !self.late.is_empty() && !self.is_late() {
            self.leaves.give_more_time();
            self.open.append(&mut self.late);
            self.cut();
        }
    }

    /// The next to be expanded, if there is one.
    fn chosen(&mut self) -> Option<Open> {
        self.cut();
        if self.open.is_empty() && self.are_last() {
            self.reopen();
        }
        if self.open.is_empty() && self.running.is_empty() {
            self.open_late();
        }
        self.next()
    }

    /// Whether what is still running was opened again: then the best are mostly known. Few of these
    /// run at once, since each takes long, and what one finds mostly excludes others.
    fn are_last(&self) -> bool {
        let mut stages = self.running().map(|open| open.stage);
        self.running.is_empty()
            || self.running.len() < AGAIN_AT_ONCE
                && !self.found.is_empty()
                && stages.all(|stage| stage == Stage::Full)
    }

    fn begin<'scope>(&mut self, open: Open, scope: &ScopeFifo<'scope>) -> Running
    where
        Self: 'scope,
    {
        self.begun += 1;
        *self.begun_on.entry(self.candidates[open.candidate].shape.stages).or_default() += 1;
        let goal = self.goal(&open);
        let (send, outcome) = sync_channel(1);
        let (leaves, candidate) = (self.leaves, self.candidates[open.candidate].clone());
        let of_run = goal.clone();
        scope.spawn_fifo(move |_| {
            let end = leaves.end_of_run();
            let outcome = leaves.expand(&candidate, open.stage, &of_run);
            let is_late = end.is_some_and(|end| Instant::now() >= end);
            // Nobody waits for it where the search was stopped.
            let _ = send.send(Ended { outcome, is_late });
        });
        Running { open, goal, outcome }
    }

    /// What is expanded now.
    pub(super) fn running(&self) -> impl Iterator<Item = &Open> {
        self.running.iter().map(|running| &running.open)
    }
}
