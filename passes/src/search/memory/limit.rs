//! The cheapest plan for a capacity that the cheapest of all outgrows: which searches are made, and
//! what they hold.
//!
//! What was gathered can be held for its next use or dropped and gathered again. Three searches
//! look at that, each from its own side: all is held as far as there is room
//! ([`crate::search::memory::lagrangian`]); all is dropped at the end of each part of the program,
//! which is the unlimited search again and mostly fits; something is held, at a price a byte
//! ([`crate::search::memory::rematerialize`]). The first and the last bound all plans, for dropping
//! never saves time. Each of them makes plans, and the cheapest that really fits is taken. What
//! stages of a pipeline hold has no one moment to be charged for; there the largest values are held
//! one after another, each time with a search of its own.

use std::time::Instant;

use indexmap::{IndexMap, IndexSet};
use shardwise_ir::ids::{RepeatId, ValueId};
use shardwise_ir::plan::Plan;
use shardwise_ir::program::{Op, Phase, Program};
use shardwise_ir::sharding::Sharding;
use shardwise_ir::unroll::is_loop_exit;

use crate::cost::collective::CostModel;
use crate::cost::liveness::memory;
use crate::insert_collectives::plan;
use crate::layouts::composite::ExpandedPlan;
use crate::layouts::local_shape;
use crate::problem::{Dropped, Problem};
use crate::reshard::tables::Tables;
use crate::search::memory::demand::fixed_bytes;
use crate::search::memory::feasible::{self, FeasiblePlan};
use crate::search::memory::rematerialize::{CutRequest, Retention, retain_across};
use crate::search::objective::objective_s;
use crate::search::outcome::Request;
use crate::search::serial::solve;
use crate::search::tie_break::prefer;
use crate::solver::branch_and_bound::can_prune;
use crate::solver::lagrangian::{MOST_SOLUTIONS, RowLimits};

/// Layouts of all operations, with some values held from part to part and others dropped.
struct Laid<'s> {
    assignment: &'s [usize],
    dropped: IndexSet<ValueId>,
    plan: Plan,
    bytes: f64,
    seconds: f64,
}

/// Halvings of the gap between what is too little and what is enough.
const HALVINGS: usize = 8;

/// What is nearly the smallest is told as that.
const NEARLY: f64 = 1.01;

/// Solutions for each of them.
const FEW_SOLUTIONS: usize = 40;

/// Values that are held again where that is tried one after another.
const MOST_HELD_AGAIN: usize = 8;

/// Solutions of [`holding`] that are filled up.
const MOST_FILLED: usize = 3;

/// A limit on memory, and what is searched under it.
pub(crate) struct Limit<'a, 't> {
    /// Of all ways, which price plans.
    tables: &'t Tables<'a>,
    /// Of the ways on which no block is larger than all that may be free.
    within: Tables<'a>,
    textbook: &'t Plan,
    request: Request,
    capacity: f64,
}

impl<'a, 't> Limit<'a, 't> {
    /// A device may hold `capacity` bytes.
    pub(crate) fn new(
        tables: &'t Tables<'a>,
        textbook: &'t Plan,
        request: Request,
        capacity: f64,
    ) -> Self {
        let most_bytes = capacity - fixed_bytes(tables.program);
        let within =
            Tables::on(tables.program, CostModel { most_bytes, ..tables.cost_model.clone() });
        Self { tables, within, textbook, request, capacity }
    }

    /// The cheapest plan that fits, and a bound of all that do.
    pub(crate) fn fitting(&self) -> FeasiblePlan {
        let mut best = self.limited(&IndexSet::default(), MOST_SOLUTIONS);
        self.offer(&mut best, self.textbook.clone());
        let parts = drop_candidates(self.tables.program);
        if !parts.is_empty() && !can_prune(best.lower_bound_s, best.seconds()) {
            self.dropping(&mut best, &parts);
        }
        best.lower_bound_s = best.lower_bound_s.min(best.seconds());
        best
    }

    /// Drops all of `parts` after use, then holds what is worth it.
    fn dropping(&self, best: &mut FeasiblePlan, parts: &[ValueId]) {
        let all: IndexSet<ValueId> = parts.iter().copied().collect();
        let problem = self.problem(&all);
        let Ok(dropped) = solve(problem.clone(), self.textbook, self.request.timeout) else {
            return;
        };
        if !self.offer(best, dropped.plan) {
            if let Some((plan, _)) = self.limited(&all, MOST_SOLUTIONS).plan {
                self.offer(best, plan);
            }
        }
        let asked = CutRequest {
            compute: self.request.objective.compute(),
            capacity: self.capacity,
            rematerialized_s: dropped.bound.as_seconds(),
        };
        let Some(Retention { lower_bound_s, assignments }) =
            retain_across(&self.within, parts, &asked, self.deadline())
        else {
            return self.hold_again(best, parts, all);
        };
        best.lower_bound_s = best.lower_bound_s.max(lower_bound_s);
        let mut laid: Vec<Laid<'_>> = assignments
            .iter()
            .filter_map(|assignment| self.lay_out(&problem, assignment, all.clone()))
            .collect();
        laid.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        for laid in laid.into_iter().filter(|laid| laid.bytes <= self.capacity).take(MOST_FILLED) {
            self.fill(best, &problem, laid);
        }
    }

    /// Holds the largest values, one after another, where a plan for that fits and is cheaper.
    fn hold_again(
        &self,
        best: &mut FeasiblePlan,
        parts: &[ValueId],
        mut dropped: IndexSet<ValueId>,
    ) {
        for &value in parts.iter().take(MOST_HELD_AGAIN) {
            let before = best.seconds();
            dropped.shift_remove(&value);
            if let Ok(solved) = solve(self.problem(&dropped), self.textbook, self.request.timeout) {
                self.offer(best, solved.plan);
            }
            if best.seconds() >= before {
                dropped.insert(value);
            }
        }
    }

    /// Holds one value after another while there is room: those first that save most for the memory
    /// they take.
    fn fill(&self, best: &mut FeasiblePlan, problem: &Problem<'_>, mut laid: Laid<'_>) {
        let rate = |&value: &ValueId| {
            let held = self.with_held(problem, &laid, value)?;
            let saved_s = laid.seconds - held.seconds;
            (saved_s > 0.0).then(|| (value, saved_s / (held.bytes - laid.bytes).max(1.0)))
        };
        let mut worth: Vec<(ValueId, f64)> = laid.dropped.iter().filter_map(rate).collect();
        worth.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        for (value, _) in worth {
            let held = self
                .with_held(problem, &laid, value)
                .filter(|held| held.bytes <= self.capacity && held.seconds < laid.seconds);
            laid = held.unwrap_or(laid);
        }
        self.offer(best, laid.plan);
    }

    /// The same with a value held.
    fn with_held<'s>(
        &self,
        problem: &Problem<'_>,
        laid: &Laid<'s>,
        value: ValueId,
    ) -> Option<Laid<'s>> {
        self.lay_out(
            problem,
            laid.assignment,
            laid.dropped.iter().copied().filter(|&other| other != value).collect(),
        )
    }

    /// The plan of an assignment, if it can be realised.
    fn lay_out<'s>(
        &self,
        problem: &Problem<'_>,
        assignment: &'s [usize],
        dropped: IndexSet<ValueId>,
    ) -> Option<Laid<'s>> {
        let problem = problem.dropping_others(Dropped { values: Some(&dropped), before: None });
        let mut trees = self.within.trees();
        let plan = problem
            .is_realisable(assignment, &mut trees)
            .then(|| plan::plan(&problem, assignment, &mut trees))?;
        Some(Laid {
            assignment,
            dropped,
            bytes: memory(&ExpandedPlan::from(&plan)).peak_bytes,
            seconds: self.seconds(&plan),
            plan,
        })
    }

    /// The limited search, with these values dropped.
    fn limited(&self, dropped: &IndexSet<ValueId>, most_solutions: usize) -> FeasiblePlan {
        let mut problem = self.problem(dropped);
        prefer(&mut problem, self.textbook);
        let limits = RowLimits { solutions: most_solutions, deadline: self.deadline() };
        feasible::search(&mut problem, self.capacity, limits, &|plan| self.seconds(plan))
    }

    fn problem(&self, dropped: &IndexSet<ValueId>) -> Problem<'_> {
        Problem::dropping(
            &self.within,
            self.request.objective.compute(),
            Dropped { values: Some(dropped), before: None },
        )
    }

    /// When a search that begins now must end.
    fn deadline(&self) -> Option<Instant> {
        self.request.timeout.map(|timeout| Instant::now() + timeout)
    }

    fn seconds(&self, plan: &Plan) -> f64 {
        objective_s(self.tables, plan, self.request.objective)
    }

    /// Takes a plan if it fits and nothing cheaper is known; whether it fits.
    fn offer(&self, best: &mut FeasiblePlan, plan: Plan) -> bool {
        let fits = memory(&ExpandedPlan::from(&plan)).peak_bytes <= self.capacity;
        let seconds = self.seconds(&plan);
        if fits && seconds < best.seconds() {
            best.plan = Some((plan, seconds));
        }
        fits
    }

    /// The plan with the smallest peak that can be found, where the capacity is too little and
    /// `enough` is not limited.
    pub(crate) fn smallest(&self, enough: &Plan) -> Plan {
        let peak = |plan: &Plan| memory(&plan.into()).peak_bytes;
        let mut best =
            if peak(self.textbook) < peak(enough) { self.textbook.clone() } else { enough.clone() };
        let mut too_little = self.capacity;
        let dropped = drop_candidates(self.tables.program).into_iter().collect();
        for _ in 0..HALVINGS {
            if peak(&best) <= too_little * NEARLY {
                break;
            }
            let middle = f64::midpoint(too_little, peak(&best));
            match Limit::new(self.tables, self.textbook, self.request, middle)
                .limited(&dropped, FEW_SOLUTIONS)
                .plan
            {
                Some((plan, _)) => best = plan,
                None => too_little = middle,
            }
        }
        best
    }
}

/// Values that more than one part of the program uses, or more than one microbatch, the largest
/// first.
fn drop_candidates(program: &Program) -> Vec<ValueId> {
    let mut parts: IndexMap<ValueId, IndexSet<(Option<RepeatId>, bool)>> = IndexMap::new();
    let part = |op: &Op| (op.repeat, op.phase == Phase::Backward);
    for op in program.ops.iter().filter(|op| !is_loop_exit(op)) {
        for operand in op.sharded_operands() {
            let value = &program.values[operand.value];
            let given = value
                .producer
                .map_or((value.repeat, false), |producer| part(&program.ops[producer]));
            parts.entry(operand.value).or_default().extend([given, part(op)]);
        }
    }
    let comes_again = |value: ValueId| {
        program.is_shared(value) && program.is_microbatched(program.values[value].repeat)
    };
    parts.retain(|&value, parts| parts.len() > 1 || comes_again(value));
    let mut values: Vec<ValueId> = parts.into_keys().collect();
    let bytes = |value: ValueId| {
        local_shape::local_bytes(
            program,
            value,
            &Sharding::replicated(program.values[value].dims.len()),
        )
    };
    values.sort_by(|&a, &b| bytes(b).total_cmp(&bytes(a)));
    values
}
