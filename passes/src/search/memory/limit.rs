//! The search under a memory limit.
//!
//! Small programs are mostly closed by two searches over what is in memory: one for the smallest
//! peak of any plan, which refuses what cannot fit and says what is needed
//! ([`crate::search::memory::live_blocks::smallest_peak`]), and one for the cheapest plan that fits
//! ([`crate::search::memory::live_blocks`]). Others have three searches that differ in the values
//! they keep, and the cheapest plan of these that fits.
//!
//! A gathered value can be kept for its next use, or dropped and gathered again (rematerialised).
//! The first search keeps all values ([`crate::search::memory::feasible`]); the second
//! rematerialises all of them at the end of each region of the program, which mostly fits; the
//! third keeps some, at a price per byte ([`crate::search::memory::rematerialize`]). The first and
//! the last bound all plans, since rematerialisation never saves time; so does the search without
//! a limit. In a pipeline there is no single step at which kept values are all live; there, and in
//! short programs whose gap is still wide, the largest values are kept one after another, each
//! time with a search of its own, or, with little effort, with one plan. Where the time is limited,
//! the plan that rematerialises all comes first, since the others may not end.
//!
//! Where plans have to be below some time, the bound of what is kept comes first: mostly it says
//! that none is, in a tenth of the time of the searches, and ends as soon as it does.
//!
//! None of these three finds every plan that fits, and what one finds depends on the limit: what
//! choices demand one by one is less than the real peak, so that a limit may be met in the model
//! and not in any plan. So that a looser limit has no costlier plan than a tighter one, or none,
//! tighter limits are searched as well where nothing is proven
//! ([`crate::search::memory::ladder`]). Plans between those that all of these find are mostly
//! better than each ([`crate::search::memory::relink`]), and take a tenth of the time.

use std::cell::Cell;
use std::rc::Rc;

use indexmap::IndexSet;
use shardwise_ir::ids::ValueId;
use shardwise_ir::plan::Plan;

use crate::problem::{Problem, Rematerialized};
use crate::reshard::tables::Tables;
use crate::search::memory::blocks;
use crate::search::memory::drop_candidates::drop_candidates;
use crate::search::memory::feasible::{self, FeasiblePlan};
use crate::search::memory::fill::Filling;
use crate::search::memory::live_blocks::smallest_peak::{self, Between};
use crate::search::memory::live_blocks::{self, Wanted};
use crate::search::memory::measures::Measures;
use crate::search::memory::relink;
use crate::search::memory::rematerialize::{CutRequest, Retention, retain_across};
use crate::search::outcome::{Effort, Request};
use crate::search::serial::{Solved, solve_near};
use crate::search::tie_break::prefer;
use crate::solver::interrupt::Interrupt;
use crate::solver::lagrangian::{MOST_SOLUTIONS, RowLimits};

/// Bisection steps between a capacity that is too small and one that is enough.
const HALVINGS: usize = 8;

/// A plan within this ratio of the smallest capacity that may be enough counts as minimal.
const TOLERANCE: f64 = 1.01;

/// Solutions of each search within tighter limits.
const FEW_SOLUTIONS: usize = 80;

/// Combinations that the searches within a limit evaluate together: some five seconds.
const MOST_EVALUATIONS: usize = 1_500_000_000;

/// Solutions of each search with one value more kept: there are many of these.
const SOLUTIONS_OF_ONE_MORE: usize = 16;

/// The operations of programs for which a step of the bisection has all searches of a limit.
const MOST_IN_FULL: usize = 24;

/// Solutions for each step of the bisection.
const BISECTED_SOLUTIONS: usize = 40;

/// Solutions of a quick search.
const QUICK_SOLUTIONS: usize = 8;

/// The share of the work of a search over what is live, within tighter limits.
const FOR_QUICK: f64 = 0.25;

/// The limit of values that are kept one after another.
const MOST_RETAINED: usize = 8;

/// The share of the work for the plan in which nothing is kept; and for those within tighter limits
/// and in which one value more is kept, of which there are many.
const FOR_START: f64 = 0.25;
const FOR_ONE_MORE: f64 = 0.02;

/// The share of the time for plans in which everything is kept, where values may be dropped.
const FOR_ALL_KEPT: f64 = 0.5;

/// The gap at which that search ends where the bound of what is kept is known before.
const NEAR_START: f64 = 0.01;

/// The ratio of a plan to the bound above which values are kept one after another where
/// [`retain_across`] applies, too.
const WIDE: f64 = 1.01;

/// How often plans are made between those that were found, each time with the new ones.
const MOST_RELINKED: usize = 5;

/// The operations of programs for which they are.
const MOST_ONE_BY_ONE: usize = 100;

/// A memory limit, and the searches under it.
pub(crate) struct Limit<'a, 't> {
    pub(super) tables: &'t Tables<'a>,
    pub(super) measures: Rc<Measures<'a, 't>>,
    /// The tables of the paths on which every block fits into the capacity.
    within: Tables<'a>,
    pub(super) textbook: &'t Plan,
    pub(super) request: &'t Request,
    pub(super) capacity: f64,
    /// The lower bound of all plans, in seconds, whether or not they fit.
    pub(super) unlimited_s: f64,
    /// Solutions of each search.
    solutions: usize,
    /// Combinations that its searches may still evaluate, all together; and those within tighter
    /// limits.
    pub(super) evaluations: Cell<usize>,
    pub(super) evaluations_of_others: Cell<usize>,
    /// Whether the weaker of two bounds is enough.
    is_quick: bool,
}

impl<'a, 't> Limit<'a, 't> {
    /// A limit of `capacity` bytes per device; no plan takes less than `unlimited_s` seconds.
    pub(crate) fn new(
        tables: &'t Tables<'a>,
        textbook: &'t Plan,
        request: &'t Request,
        (capacity, unlimited_s): (f64, f64),
    ) -> Self {
        let within = tables.limited(&blocks::limits(tables, capacity));
        let solutions = match request.effort {
            Effort::Normal | Effort::High => MOST_SOLUTIONS,
            Effort::Quick => QUICK_SOLUTIONS,
        };
        let measures = Measures::new(tables, request.objective, capacity).into();
        let evaluations = request.interrupt.allowed(MOST_EVALUATIONS);
        Self {
            tables,
            measures,
            within,
            textbook,
            request,
            capacity,
            unlimited_s,
            solutions,
            evaluations: Cell::new(evaluations),
            evaluations_of_others: Cell::new(evaluations),
            is_quick: request.effort == Effort::Quick,
        }
    }

    /// Another capacity, with shorter searches.
    fn at(&self, capacity: f64) -> Self {
        let limits = (capacity, self.unlimited_s);
        let limit = Self::new(self.tables, self.textbook, self.request, limits);
        limit.with_measures(Rc::clone(&self.measures)).shorter()
    }

    /// The same with the measures of another limit.
    pub(super) fn with_measures(self, measures: Rc<Measures<'a, 't>>) -> Self {
        Self { measures, ..self }
    }

    /// The same with shorter searches.
    pub(super) fn shorter(self) -> Self {
        Self { solutions: self.solutions.min(FEW_SOLUTIONS), is_quick: true, ..self }
    }

    /// The cheapest plan that fits, and a bound of all that do.
    pub(crate) fn feasible(&self) -> FeasiblePlan {
        let parts = drop_candidates(self.tables.program);
        let retention = self.before_plans(&parts);
        let below_s = self.request.below_s();
        let known_s = retention.as_ref().map_or(0.0, |known| known.lower_bound_s);
        if self.request.is_out_of_reach(known_s) {
            return FeasiblePlan { plan: None, lower_bound_s: known_s.min(below_s), below_s };
        }
        let by_live_blocks = match self.by_live_blocks(Wanted::Cheapest) {
            Some(found) if found.is_proven() => return found,
            found => found,
        };
        let is_bounded = retention.is_some();
        // That in which all is dropped mostly fits: a short limit of time ends with a plan.
        let comes_first =
            self.request.interrupt.deadline.is_some() && !self.request.is_bound_enough();
        let first = comes_first.then(|| self.all_dropped(&parts, is_bounded)).flatten();
        let mut best = self.all_kept(!parts.is_empty());
        best.lower_bound_s = best.lower_bound_s.max(self.unlimited_s).max(known_s);
        if let Some(found) = by_live_blocks {
            best.add(found);
        }
        if self.request.is_bound_enough() {
            return best;
        }
        self.try_incumbent(&mut best, self.textbook.clone());
        if let Some(first) = &first {
            self.try_incumbent(&mut best, first.plan.clone());
        }
        if !best.is_proven() && !self.request.interrupt.is_due() {
            let dropped = if comes_first { first } else { self.all_dropped(&parts, is_bounded) };
            if let Some(dropped) = dropped {
                self.rematerializing(&mut best, &parts, dropped, retention);
            }
        }
        let is_rough = self.request.effort == Effort::Quick || self.request.is_rival_of_others();
        if !best.is_proven() && !is_rough {
            self.relink(&mut best);
        }
        if let Some((smallest, _)) = self.measures.smallest() {
            self.try_incumbent(&mut best, smallest);
        }
        best.lower_bound_s = best.lower_bound_s.min(best.seconds());
        best
    }

    /// The search over what is live, which closes small programs.
    fn by_live_blocks(&self, wanted: Wanted) -> Option<FeasiblePlan> {
        if !self.request.objective.is_sum() || self.request.effort == Effort::Quick {
            return None;
        }
        let problem = self.problem(&IndexSet::default());
        let limits = (self.capacity, self.request.below_s());
        let work = if self.is_quick { FOR_QUICK } else { 1.0 };
        let interrupt = self.request.interrupt.with_work(work);
        live_blocks::search(&problem, wanted, limits, &self.measures, &interrupt)
    }

    /// The bound of what is kept, where plans have to be below some time: it mostly says early that
    /// none is.
    fn before_plans(&self, parts: &[ValueId]) -> Option<Retention> {
        if !self.request.below_s().is_finite() || parts.is_empty() {
            return None;
        }
        let asked = self.cut_request(self.unlimited_s, true);
        retain_across(&self.within, parts, &asked, &self.request.interrupt)
    }

    /// What is asked of a bound of what is kept, with a time that is near that of the plan.
    fn cut_request(&self, about_s: f64, again_is_free: bool) -> CutRequest {
        CutRequest {
            compute: self.request.objective.compute(),
            capacity: self.capacity,
            about_s,
            enough_s: self.request.below_s(),
            known_s: None,
            again_is_free,
            is_quick: self.request.effort == Effort::Quick,
        }
    }

    /// The plan that rematerialises all of `parts`, if there are any: a start, of which no proof is
    /// needed.
    fn all_dropped(&self, parts: &[ValueId], is_bounded: bool) -> Option<Solved> {
        if parts.is_empty() {
            return None;
        }
        let problem = self.problem(&parts.iter().copied().collect());
        let share = if self.is_quick { FOR_ONE_MORE } else { FOR_START };
        let interrupt = self.request.interrupt.with_work(share);
        let enough = if is_bounded { NEAR_START } else { 0.0 };
        solve_near(problem, self.textbook, enough, &interrupt).ok()
    }

    /// Keeps those of `parts` that save time, from the plan in which all are rematerialised.
    fn rematerializing(
        &self,
        best: &mut FeasiblePlan,
        parts: &[ValueId],
        rematerialized: Solved,
        known: Option<Retention>,
    ) {
        let all: IndexSet<ValueId> = parts.iter().copied().collect();
        let problem = self.problem(&all);
        if !self.try_incumbent(best, rematerialized.plan)
            && let Some((plan, _)) = self.limited(&all, self.solutions).plan
        {
            self.try_incumbent(best, plan);
        }
        let about_s = rematerialized.bound.as_seconds();
        let is_open = |best: &FeasiblePlan| best.seconds() > best.lower_bound_s * WIDE;
        let asked = self.cut_request(about_s, true);
        let retain = || retain_across(&self.within, parts, &asked, &self.request.interrupt);
        let retention = known.or_else(retain);
        let Some(Retention { lower_bound_s, solutions }) = retention else {
            return self.greedy_retain(best, parts, all);
        };
        best.lower_bound_s = best.lower_bound_s.max(lower_bound_s);
        let interrupt = &self.request.interrupt;
        let filling = Filling::new(&problem, self.capacity, &self.measures, interrupt);
        for plan in filling.plans(&solutions, &all) {
            self.try_incumbent(best, plan);
        }
        if is_open(best) && !self.is_quick {
            self.retain_in_parts(best, parts, about_s, &filling, &all);
        }
        if is_open(best) && self.tables.program.ops.len() <= MOST_ONE_BY_ONE {
            self.greedy_retain(best, parts, all);
        }
    }

    /// Raises the bound by parts of the plans that keep different values, and fills what their
    /// solutions leave.
    fn retain_in_parts(
        &self,
        best: &mut FeasiblePlan,
        parts: &[ValueId],
        about_s: f64,
        filling: &Filling<'_, '_>,
        all: &IndexSet<ValueId>,
    ) {
        let known_s = Some(best.seconds());
        let asked = CutRequest { known_s, ..self.cut_request(about_s, false) };
        let found = retain_across(&self.within, parts, &asked, &self.request.interrupt);
        let Some(Retention { lower_bound_s, solutions }) = found else { return };
        best.lower_bound_s = best.lower_bound_s.max(lower_bound_s);
        if !best.is_proven() {
            for plan in filling.plans(&solutions, all) {
                self.try_incumbent(best, plan);
            }
        }
    }

    /// Keeps the largest values, one after another, where a plan for that fits and is cheaper.
    fn greedy_retain(
        &self,
        best: &mut FeasiblePlan,
        parts: &[ValueId],
        mut rematerialized: IndexSet<ValueId>,
    ) {
        for &value in parts.iter().take(MOST_RETAINED) {
            if self.request.interrupt.is_due() {
                break;
            }
            let before = best.seconds();
            rematerialized.shift_remove(&value);
            let problem = self.problem(&rematerialized);
            let interrupt = self.request.interrupt.with_work(FOR_ONE_MORE);
            let solved = solve_near(problem, self.textbook, NEAR_START, &interrupt);
            let fits = solved.is_ok_and(|solved| self.try_incumbent(best, solved.plan));
            if !fits
                && self.request.effort != Effort::Quick
                && self.tables.program.ops.len() <= MOST_ONE_BY_ONE
                && let Some((plan, _)) = self.limited(&rematerialized, SOLUTIONS_OF_ONE_MORE).plan
            {
                self.try_incumbent(best, plan);
            }
            if best.seconds() >= before {
                rematerialized.insert(value);
            }
        }
    }

    /// Takes over plans between those that were found, as long as these are cheaper.
    pub(super) fn relink(&self, best: &mut FeasiblePlan) {
        let all = drop_candidates(self.tables.program).into_iter().collect();
        let problem = self.problem(&all);
        for _ in 0..MOST_RELINKED {
            let before_s = best.seconds();
            let interrupt = &self.request.interrupt;
            let filling = Filling::new(&problem, self.capacity, &self.measures, interrupt);
            for plan in relink::plans(&filling, &all, &self.measures) {
                self.try_incumbent(best, plan);
            }
            if best.seconds() >= before_s || best.is_proven() {
                return;
            }
        }
    }

    /// The limited search for plans in which everything is kept, with a part of the time where
    /// values may be dropped.
    fn all_kept(&self, may_be_dropped: bool) -> FeasiblePlan {
        let whole = &self.request.interrupt;
        let part = if may_be_dropped { &whole.part(FOR_ALL_KEPT) } else { whole };
        self.limited_by(&IndexSet::default(), self.solutions, part)
    }

    /// The limited search, with these values rematerialised.
    fn limited(&self, rematerialized: &IndexSet<ValueId>, most_solutions: usize) -> FeasiblePlan {
        self.limited_by(rematerialized, most_solutions, &self.request.interrupt)
    }

    /// The same until another time.
    fn limited_by(
        &self,
        rematerialized: &IndexSet<ValueId>,
        most_solutions: usize,
        interrupt: &Interrupt,
    ) -> FeasiblePlan {
        if interrupt.is_due() {
            return FeasiblePlan::unknown(self.request.below_s());
        }
        let mut problem = self.problem(rematerialized);
        prefer(&mut problem, self.textbook);
        let solutions = most_solutions.min(self.solutions);
        let below_s = self.request.below_s();
        let evaluations = &self.evaluations;
        let limits = RowLimits { solutions, evaluations, below_s, interrupt };
        feasible::search(&mut problem, self.capacity, limits, &self.measures)
    }

    fn problem(&self, rematerialized: &IndexSet<ValueId>) -> Problem<'_> {
        self.problem_of(&self.within, rematerialized)
    }

    fn problem_of<'p>(
        &self,
        tables: &'p Tables<'a>,
        rematerialized: &IndexSet<ValueId>,
    ) -> Problem<'p> {
        Problem::rematerializing(
            tables,
            self.request.objective.compute(),
            Rematerialized { values: Some(rematerialized), before: None },
        )
    }

    /// Updates the incumbent if the plan fits and is cheaper; returns whether it fits.
    fn try_incumbent(&self, best: &mut FeasiblePlan, plan: Plan) -> bool {
        let seconds = self.measures.seconds(&plan);
        let fits = self.measures.peak_bytes_of(&plan, seconds) <= self.capacity;
        if fits && seconds < best.seconds() {
            best.plan = Some((plan, seconds));
        }
        fits
    }

    /// The bytes that every plan takes at least, as far as that is more than the capacity and a
    /// search over what is live says it, or outputs alone do; `enough` is the plan without a limit.
    pub(crate) fn least_bytes(&self, enough: &Plan) -> f64 {
        let from_bytes = self.capacity.max(blocks::least_at_the_end(self.tables.program));
        let enough_bytes = self.measures.peak_bytes(enough);
        let below_bytes = self.measures.peak_bytes(self.textbook).min(enough_bytes);
        if self.request.effort == Effort::Quick || from_bytes >= below_bytes {
            return from_bytes;
        }
        let below = &self.tables.limited(&blocks::limits(self.tables, below_bytes));
        let between = Between { from_bytes, below_bytes };
        let problem = self.problem_of(below, &IndexSet::default());
        let interrupt = &self.request.interrupt;
        smallest_peak::least_bytes(&problem, between, &self.measures, interrupt)
            .unwrap_or(from_bytes)
    }

    /// The cheapest plan that fits of those that the search for the smallest one measures, where
    /// other searches have none; else the smallest, as an error. Every plan takes `too_little`
    /// bytes at least, and `enough` is the plan without a limit.
    pub(crate) fn cheapest_or_smallest(
        &self,
        enough: &Plan,
        too_little: f64,
    ) -> Result<(Plan, f64), Box<Plan>> {
        let smallest = self.smallest(enough, too_little);
        self.measures.cheapest().ok_or_else(|| Box::new(smallest))
    }

    /// The plan with the smallest peak found.
    fn smallest(&self, enough: &Plan, mut too_little: f64) -> Plan {
        self.measures.peak_bytes(self.textbook);
        let mut best = (enough.clone(), self.measures.peak_bytes(enough));
        let rematerialized = drop_candidates(self.tables.program).into_iter().collect();
        let is_small = self.tables.program.ops.len() <= MOST_IN_FULL;
        for _ in 0..HALVINGS {
            best = self.measures.smallest().unwrap_or(best);
            let is_near = best.1 <= too_little * TOLERANCE;
            if is_near || self.request.interrupt.is_due() {
                break;
            }
            let middle = f64::midpoint(too_little, best.1);
            let limit = self.at(middle);
            let has_plan = match limit.by_live_blocks(Wanted::Any) {
                Some(found) if found.plan.is_some() || found.is_proven() => found.plan.is_some(),
                _ => {
                    limit.limited(&rematerialized, BISECTED_SOLUTIONS).plan.is_some()
                        || is_small && limit.feasible().plan.is_some()
                }
            };
            if !has_plan {
                too_little = middle;
            }
        }
        self.measures.smallest().unwrap_or(best).0
    }
}
