//! Minimises the time of the busiest resource of a plan: compute, or the links of one mesh axis.
//!
//! That time, `max_r T_r`, is a lower bound of every schedule of the plan; it is not a sum over
//! steps. For any shares `s` of the resources (`Σ s = 1`) `max_r T_r ≥ Σ s_r·T_r`, and the right
//! side is a sum over steps: with weight `s_c` for a second of compute, and the weights of the
//! participating axes for one of a collective, the serial search minimises it exactly. So every
//! choice of shares yields a plan and a lower bound for all plans. The shares with the best bound
//! are found by cutting planes (Kelley 1960): they maximise the least weighted time of the plans
//! known so far, a linear programme in as many variables as resources; the search under them finds
//! another plan, until none is new.
//!
//! The bound equals the best plan when one resource is the bottleneck of every plan. Where two must
//! be balanced, branch and bound over the choices continues, with the best few sets of shares as
//! bounds; the remaining gap is reported. Alternatives: carrying a time for each resource through
//! elimination (exact; tables of Pareto sets grow with the program), local search (no bound).

use std::time::{Duration, Instant};

use microlp::{ComparisonOp, OptimizationDirection, Problem as Lp};
use shardwise_ir::plan::Plan;

use crate::cost::collective::CostModel;
use crate::cost::report::report;
use crate::insert_collectives::plan;
use crate::layouts::composite::ExpandedPlan;
use crate::problem::Problem;
use crate::propagate::textbook::Infeasible;
use crate::reshard::tables::Tables;
use crate::search::objective::Objective;
use crate::search::outcome::{Found, Optimality};
use crate::search::serial::solve;
use crate::search::tie_break::prefer;
use crate::solver::branch_and_bound::{OpenNode, Outcome, best_first, can_prune};
use crate::solver::dreyfus_wagner::Trees;
use crate::solver::model::UnaryCosts;
use crate::solver::reprice;
use crate::solver::tabulate::TabulatedTerms;

/// Shares tried at most.
const ROUNDS: usize = 24;

/// Relative differences below this are rounding.
const ROUNDING: f64 = 1e-9;

/// Sets of shares that bound subproblems: those with the best bounds at the root, beside each
/// resource alone, which bounds a subproblem in which everything is chosen.
const KEPT: usize = 3;

/// Solutions in branch and bound, the variables times solutions, and the combinations that
/// solutions evaluate, at most: seconds.
const MOST_SOLUTIONS: usize = 6000;
const MOST_WORK: usize = 30_000;
const MOST_EVALUATIONS: usize = 1 << 28;

/// Searches; never worse than `textbook`.
pub(crate) fn search(
    tables: &Tables<'_>,
    textbook: &Plan,
    timeout: Option<Duration>,
) -> Result<Found, Infeasible> {
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
    let mut known = Known { resources: 1 + tables.program.mesh.axes.len(), plans: Vec::new() };
    known.add(tables, textbook.clone());
    known.add(
        tables,
        solve(Problem::new(tables, Objective::Serial.compute()), textbook, timeout)?.plan,
    );
    let mut bounds: Vec<(f64, Vec<f64>)> = Vec::new();
    for _ in 0..ROUNDS {
        let shares = known.best_shares();
        let solved = solve(Problem::new(&weighted(tables, &shares), shares[0]), textbook, timeout)?;
        bounds.push((solved.bound.as_seconds(), shares));
        let is_new = known.add(tables, solved.plan);
        if !is_new || late() {
            break;
        }
    }
    bounds.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut lower_bound_s = bounds.first().map_or(0.0, |bound| bound.0);
    if !can_prune(lower_bound_s, known.best_s()) && !late() {
        let alone = |resource: usize| {
            (0..known.resources)
                .map(|other| f64::from(u8::from(other == resource)))
                .collect::<Vec<f64>>()
        };
        let kept: Vec<Vec<f64>> = bounds
            .into_iter()
            .take(KEPT)
            .map(|(_, shares)| shares)
            .chain((0..known.resources).map(alone))
            .collect();
        lower_bound_s = lower_bound_s.max(branch(tables, textbook, &kept, &mut known, deadline));
    }
    let closed = can_prune(lower_bound_s, known.best_s());
    let optimality =
        if closed { Optimality::Optimal } else { Optimality::Bounded { lower_bound_s } };
    Ok(Found { plan: known.best(), optimality, alternatives: Vec::new(), layouts: (0, 0) })
}

/// Tables that weight a second of each axis by its share.
fn weighted<'a>(tables: &Tables<'a>, shares: &[f64]) -> Tables<'a> {
    Tables::on(
        tables.program,
        CostModel { links: Some(shares[1..].to_vec()), ..tables.cost_model.clone() },
    )
}

/// Branch and bound over the choices from the incumbent on; returns the remaining bound.
///
/// Dominated layouts stay: a layout that is dominated under one set of shares may balance the
/// resources.
fn branch(
    tables: &Tables<'_>,
    textbook: &Plan,
    shares: &[Vec<f64>],
    known: &mut Known,
    deadline: Option<Instant>,
) -> f64 {
    let tabulated: Vec<Tables<'_>> = shares.iter().map(|shares| weighted(tables, shares)).collect();
    let views: Vec<View<'_>> = tabulated
        .iter()
        .zip(shares)
        .map(|(counted, shares)| View::new(counted, textbook, shares[0]))
        .collect();
    let solutions = MOST_SOLUTIONS.min(MOST_WORK / views[0].problem.variables.len().max(1));
    let mut search = BottleneckSearch {
        tables,
        views,
        known,
        solutions,
        evaluations: MOST_EVALUATIONS,
        deadline,
    };
    best_first(
        &mut search,
        |search| search.known.best_s(),
        BottleneckSearch::is_over,
        BottleneckSearch::evaluate,
    )
}

/// The problem under one set of shares.
struct View<'t> {
    problem: Problem<'t>,
    unary: UnaryCosts,
    terms: TabulatedTerms,
    trees: Vec<Trees<'t>>,
}

impl<'t> View<'t> {
    fn new(tables: &'t Tables<'t>, textbook: &Plan, compute: f64) -> Self {
        let mut problem = Problem::new(tables, compute);
        prefer(&mut problem, textbook);
        let mut trees = tables.trees();
        let model = problem.model();
        let terms = TabulatedTerms::new(&model, &mut trees, reprice::LIMITS);
        Self { problem, unary: model.unary, terms, trees }
    }
}

struct BottleneckSearch<'s, 't> {
    tables: &'s Tables<'t>,
    views: Vec<View<'s>>,
    known: &'s mut Known,
    /// How many times views may still be solved.
    solutions: usize,
    /// How many combinations they may still evaluate.
    evaluations: usize,
    deadline: Option<Instant>,
}

impl BottleneckSearch<'_, '_> {
    fn is_over(&self) -> bool {
        self.solutions == 0
            || self.evaluations == 0
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Bounds a subproblem under every set of shares, and branches on a variable in which the
    /// solutions differ, else on the one with the most choices.
    fn evaluate(&mut self, node: &OpenNode) -> Outcome {
        self.solutions = self.solutions.saturating_sub(self.views.len());
        let mut bound_s = node.bound_s;
        let mut assignments: Vec<Vec<usize>> = Vec::new();
        for view in &mut self.views {
            let solved = view.terms.minimize(&node.subproblem.allowed(&view.unary));
            self.evaluations = self.evaluations.saturating_sub(solved.evaluations);
            if !solved.bound.is_finite() {
                return Outcome::Empty;
            }
            bound_s = bound_s.max(solved.bound.as_seconds());
            self.known
                .add(self.tables, plan::plan(&view.problem, &solved.assignment, &mut view.trees));
            assignments.push(solved.assignment);
        }
        if can_prune(bound_s, self.known.best_s()) {
            return Outcome::Closed(bound_s);
        }
        let variables = &self.views[0].problem.variables;
        let others = |v: usize| {
            node.subproblem
                .choices(v, variables[v].choices.len(), |choice| choice != assignments[0][v])
        };
        let freedom = |v: &usize| others(*v).iter().filter(|left| **left).count();
        let differ = |v: &usize| assignments.iter().any(|other| other[*v] != assignments[0][*v]);
        let free = (0..variables.len()).filter(|v| freedom(v) > 0);
        match free.max_by_key(|v| (differ(v), freedom(v), std::cmp::Reverse(*v))) {
            None => Outcome::Closed(bound_s),
            Some(v) => {
                let taken = node
                    .subproblem
                    .choices(v, variables[v].choices.len(), |choice| choice == assignments[0][v]);
                Outcome::Branched(bound_s, node.subproblem.branch(v, taken))
            }
        }
    }
}

/// A plan, and the busy time of each resource.
struct EvaluatedPlan {
    plan: Plan,
    /// Compute, then every axis, seconds.
    busy: Vec<f64>,
    serial_s: f64,
}

impl EvaluatedPlan {
    fn overlap_s(&self) -> f64 {
        self.busy.iter().copied().fold(0.0, f64::max)
    }
}

/// The plans found so far.
struct Known {
    resources: usize,
    plans: Vec<EvaluatedPlan>,
}

impl Known {
    /// Whether no known plan keeps all resources equally busy.
    fn add(&mut self, tables: &Tables<'_>, plan: Plan) -> bool {
        let report = report(&ExpandedPlan::from(&plan), tables.cost_model.refinement);
        let busy: Vec<f64> = [report.compute_s].into_iter().chain(report.axis_s).collect();
        let is_same = |other: &EvaluatedPlan| {
            other.busy.iter().zip(&busy).all(|(a, b)| (a - b).abs() <= ROUNDING * a.max(*b))
        };
        let is_new = !self.plans.iter().any(is_same);
        if is_new {
            self.plans.push(EvaluatedPlan { plan, busy, serial_s: report.serial_s });
        }
        is_new
    }

    /// The first of the plans whose busiest resource is the least busy; of equals the one with the
    /// least time in all.
    fn best(&self) -> Plan {
        let by_time = |a: &&EvaluatedPlan, b: &&EvaluatedPlan| {
            a.overlap_s().total_cmp(&b.overlap_s()).then(a.serial_s.total_cmp(&b.serial_s))
        };
        self.plans.iter().min_by(by_time).expect("the textbook's plan is known").plan.clone()
    }

    fn best_s(&self) -> f64 {
        self.plans.iter().map(EvaluatedPlan::overlap_s).fold(f64::INFINITY, f64::min)
    }

    /// The shares under which the known plan with the least weighted time has the most. Times are
    /// in units of the largest, for the solver's sake.
    fn best_shares(&self) -> Vec<f64> {
        let unit =
            self.plans.iter().map(EvaluatedPlan::overlap_s).fold(f64::MIN_POSITIVE, f64::max);
        let mut lp = Lp::new(OptimizationDirection::Maximize);
        let least = lp.add_var(1.0, (0.0, f64::INFINITY));
        let shares: Vec<_> = (0..self.resources).map(|_| lp.add_var(0.0, (0.0, 1.0))).collect();
        lp.add_constraint(shares.iter().map(|&share| (share, 1.0)), ComparisonOp::Eq, 1.0);
        for candidate in &self.plans {
            let weighted =
                shares.iter().zip(&candidate.busy).map(|(&share, seconds)| (share, seconds / unit));
            lp.add_constraint(weighted.chain([(least, -1.0)]), ComparisonOp::Ge, 0.0);
        }
        let even = || vec![1.0 / self.resources as f64; self.resources];
        lp.solve().map_or_else(
            |_| even(),
            |solution| shares.iter().map(|&share| solution[share].max(0.0)).collect(),
        )
    }
}
