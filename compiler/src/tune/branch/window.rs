//! Expands a few candidates at once, on all cores.
//!
//! What is known of others decides whether a candidate is expanded, and what its plan has to reach.
//! So that the result is the same on every machine, outcomes are taken in the order in which the
//! runs began, and after each of them another run begins: with what is known of all before it but
//! the [`AT_ONCE`] less one that are still running. Where one of these takes much longer than those
//! after it, their outcomes wait for it.
//!
//! Alternatives: *rounds* of a few runs wait for the slowest of each round, which leaves a fifth of
//! two cores idle; outcomes *as they come* keep all cores busy, and have another result on each
//! machine; more runs at once, or runs that count by their stage, keep two cores hardly busier and
//! know less of each other.

use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

use rayon::{ScopeFifo, Yield};
use shardwise_passes::Goal;

use super::{Open, Search};
use crate::tune::leaf::{Outcome, Stage};

/// Candidates that are expanded at once. More keep more cores busy, and know less of each other.
pub(super) const AT_ONCE: usize = 5;

/// A candidate that is expanded.
pub(super) struct Running {
    open: Open,
    goal: Goal,
    outcome: Receiver<Outcome>,
}

impl Running {
    /// Waits for the outcome; none if the run panicked.
    fn outcome(&self) -> Option<Outcome> {
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
                self.close(open, &goal, outcome);
                self.raise_bounds();
                self.progress();
            }
        }
    }

    /// The next to be expanded, if there is one.
    fn chosen(&mut self) -> Option<Open> {
        self.cut();
        if self.open.is_empty() && self.are_last() {
            self.reopen();
        }
        self.next()
    }

    /// Whether what is still running was opened again: then the best are mostly known.
    fn are_last(&self) -> bool {
        let mut stages = self.running().map(|open| open.stage);
        self.running.is_empty()
            || !self.found.is_empty() && stages.all(|stage| stage == Stage::Full)
    }

    fn begin<'scope>(&mut self, open: Open, scope: &ScopeFifo<'scope>) -> Running
    where
        Self: 'scope,
    {
        self.begun += 1;
        let goal = self.goal(&open);
        let (send, outcome) = sync_channel(1);
        let (leaves, candidate) = (self.leaves, self.candidates[open.candidate].clone());
        let of_run = goal.clone();
        scope.spawn_fifo(move |_| {
            // Nobody waits for it where the search was stopped.
            let _ = send.send(leaves.expand(&candidate, open.stage, &of_run));
        });
        Running { open, goal, outcome }
    }

    /// What is expanded now.
    pub(super) fn running(&self) -> impl Iterator<Item = &Open> {
        self.running.iter().map(|running| &running.open)
    }
}
