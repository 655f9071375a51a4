//! Searches beside the one within a limit, mostly two at a time: with little effort, and within the
//! tighter limits on a ladder.
//!
//! Each search finds a few of the plans that fit. Without those of the others a looser limit could
//! have a costlier plan than a tighter one, or none; so could more effort, without those of less.
//! The ladder begins at the peak without a limit, so that limits share it. In large programs a few
//! of its limits are searched, where the gap is wide.
//!
//! What searches side by side find is taken in their order, and each begins with what was known
//! before both, so that the plan is the same on every machine.
//!
//! Who compares many programs has searched them with little effort before: there is no ladder for a
//! plan that has to be below those of others.
//!
//! The tighter searches are short. What they find matters less for itself than for the plans
//! between those of all searches ([`crate::search::memory::relink`]): with these, searches of more
//! effort, or more limits closer to each other, found nothing better in the programs that were
//! compared.

use std::rc::Rc;

use rayon::prelude::*;
use shardwise_ir::plan::Plan;

use crate::search::memory::feasible::FeasiblePlan;
use crate::search::memory::limit::Limit;
use crate::search::memory::measures::{Measured, Measures};
use crate::search::outcome::Effort;
use crate::solver::branch_and_bound::can_prune;

/// The ratio of each limit on the ladder to the one above it.
const RUNG: f64 = 0.85;

/// The limits on the ladder: each takes as long as the first.
const RUNGS: usize = 12;

/// The operations of programs for which all of them are tried.
const MOST_TIGHTENED: usize = 24;

/// The limits that larger programs try next below their own, and the ratio to the bound above which
/// they do.
const FEW_RUNGS: usize = 3;
const MUCH_TOO_WIDE: f64 = 1.05;

/// Searches at once, in programs with so many ways to make a step between shardings at most: those
/// of larger programs take a gigabyte each.
const AT_ONCE: usize = 2;
const MOST_WAYS: usize = 1 << 20;

/// A search for other plans that fit.
#[derive(Clone, Copy)]
enum Other {
    /// Within the same limit.
    LittleEffort,
    /// Within so many bytes, with a short search.
    Tighter(f64),
}

impl Limit<'_, '_> {
    /// The cheapest plan that fits of all these searches, and a bound of all that do; `unlimited`
    /// is the plan without a limit.
    pub(crate) fn feasible_or_tighter(&self, unlimited: &Plan) -> FeasiblePlan {
        let enough = self.measures.peak_bytes_of(unlimited, self.measures.seconds(unlimited));
        let mut best = self.feasible();
        let is_quick = self.request.effort == Effort::Quick;
        if is_quick || self.request.is_bound_enough() || self.request.is_rival_of_others() {
            return best;
        }
        let is_small = self.tables.program.ops.len() <= MOST_TIGHTENED;
        let (most, wide) = if is_small { (RUNGS, 1.0) } else { (FEW_RUNGS, MUCH_TOO_WIDE) };
        let rungs = std::iter::successors(Some(enough), |capacity| Some(capacity * RUNG));
        let tighter: Vec<f64> =
            rungs.take(RUNGS).filter(|&capacity| capacity < self.capacity).take(most).collect();
        let tighter = tighter.into_iter();
        let short = std::iter::once(Other::LittleEffort).chain(tighter.map(Other::Tighter));
        self.add_others(&mut best, short, wide);
        if !best.is_proven() {
            self.relink(&mut best);
        }
        self.add_cheapest(&mut best);
        best
    }

    /// Adds what other searches find, until the plan takes less than `wide` times the bound.
    fn add_others(&self, best: &mut FeasiblePlan, others: impl Iterator<Item = Other>, wide: f64) {
        let is_closed = |best: &FeasiblePlan| can_prune(best.lower_bound_s * wide, best.seconds());
        let others: Vec<Other> = others.collect();
        let at_once = if self.tables.ways() <= MOST_WAYS { AT_ONCE } else { 1 };
        for (number, next) in others.chunks(at_once).enumerate() {
            if is_closed(best) || self.request.interrupt.is_due() {
                return;
            }
            let share = self.evaluations_of_others.get() / (others.len() - number * at_once);
            let mut found = self.side_by_side(next, share).into_iter();
            if found.any(|(other, found)| is_closed(best) || !add(best, other, found)) {
                return;
            }
        }
    }

    /// What searches find at once, each with as many evaluations.
    fn side_by_side(&self, others: &[Other], share: usize) -> Vec<(Other, FeasiblePlan)> {
        let Self { tables, textbook, request, unlimited_s, capacity, .. } = *self;
        let known = self.measures.measured();
        let found = others.par_iter().map(|&other| {
            let (request, within) = match other {
                Other::LittleEffort => (&request.quick(), capacity),
                Other::Tighter(within) => (request, within),
            };
            let limit = Limit::new(tables, textbook, request, (within, unlimited_s));
            let measures = Measures::new(tables, request.objective, capacity);
            measures.add(known.clone());
            let limit = limit.with_measures(Rc::new(measures));
            let limit = if matches!(other, Other::Tighter(_)) { limit.shorter() } else { limit };
            limit.evaluations.set(share);
            (other, limit.feasible(), limit.measures.measured(), share - limit.evaluations.get())
        });
        let found: Vec<(Other, FeasiblePlan, Measured, usize)> = found.collect();
        let taken = found.into_iter().map(|(other, found, measured, evaluated)| {
            self.measures.add(measured);
            self.evaluations_of_others.set(self.evaluations_of_others.get() - evaluated);
            (other, found)
        });
        taken.collect()
    }

    /// Takes over the cheapest plan that fits of all that any search has measured.
    fn add_cheapest(&self, best: &mut FeasiblePlan) {
        if let Some((plan, seconds)) = self.measures.cheapest()
            && seconds < best.seconds()
        {
            best.plan = Some((plan, seconds));
        }
    }
}

/// Takes over what a search has found; whether tighter limits may have more.
fn add(best: &mut FeasiblePlan, other: Other, found: FeasiblePlan) -> bool {
    match other {
        Other::LittleEffort => best.add(found),
        Other::Tighter(_) if found.lower_bound_s >= best.seconds() => return false,
        Other::Tighter(_) if found.seconds() < best.seconds() => best.plan = found.plan,
        Other::Tighter(_) => {}
    }
    true
}
