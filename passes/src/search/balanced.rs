//! Minimises what is no sum over steps: the time of the busiest resource of a plan (compute, or the
//! links of one mesh axis), or the makespan of its schedule.
//!
//! The time of the busiest resource, `max_r T_r`, is a lower bound of every schedule of the plan.
//! For any shares `s` of the resources (`Σ s = 1`) `max_r T_r ≥ Σ s_r·T_r`, and the right
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
//!
//! A schedule is searched in the same way: the makespan is at least the time of the busiest
//! resource and at least the critical path ([`crate::search::critical_path`]), and plans that
//! balance the resources are those whose schedules can be short. (Where collectives run in chunks
//! beside products, or at the ends of a step ([`crate::cost::step_ends`]), the critical path is no
//! bound.) Every plan that is met on the way is scheduled. The search starts from the plans of the
//! other objectives, so it is never worse than they are; these and others within memory are in
//! [`crate::search::starts`]. Where only plans below a goal are wanted, the bounds come first: what
//! they exclude needs no starts.

use microlp::{ComparisonOp, OptimizationDirection, Problem as Lp};
use shardwise_ir::collectives::Collectives;
use shardwise_ir::plan::Plan;

use crate::cost::collective::CostModel;
use crate::cost::pipeline_stages;
use crate::cost::report::{Report, price_steps, report, resources_s, waited_s};
use crate::insert_collectives::plan;
use crate::layouts::composite::ExpandedPlan;
use crate::problem::Problem;
use crate::propagate::textbook::Infeasible;
use crate::reshard::tables::Tables;
use crate::search::critical_path::CriticalPath;
use crate::search::objective::Objective;
use crate::search::outcome::{Effort, Found, Optimality, Refusal, Request};
use crate::search::serial::solve;
use crate::search::starts::in_pairs;
use crate::search::tie_break::prefer;
use crate::solver::branch_and_bound::{OpenNode, Outcome, best_first, can_prune};
use crate::solver::dreyfus_wagner::Trees;
use crate::solver::interrupt::Interrupt;
use crate::solver::model::UnaryCosts;
use crate::solver::reprice;
use crate::solver::tabulate::{Classified, TabulatedTerms};

/// Shares tried at most.
const ROUNDS: usize = 24;

/// Consecutive shares that raise no bound and find no better plan, after which no others are tried.
const MOST_IN_VAIN: usize = 4;

/// A bound within this ratio of the best that shares can have ends a quick search for them.
const NEAR: f64 = 0.99;

/// Shares whose bound can close less of the gap than this are not looked for.
const LITTLE: f64 = 1e-3;

/// Weights of a second of a collective, where one of compute has weight 1.
const DISCOUNTS: [f64; 5] = [0.5, 0.25, 0.1, 0.03, 0.01];

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

/// The share of the evaluations, and of the schedules, where plans below a goal are wanted: one of
/// many searches, most of which find none.
const BELOW_A_GOAL: f64 = 0.125;

/// Combinations in their tables, at most.
const MOST_TABULATED: usize = 1 << 28;

/// Steps of plans that are scheduled, at most: seconds.
const MOST_SCHEDULED: usize = 200_000;

/// The share of this work that a quick search does.
const QUICK: f64 = 0.2;

/// The best plan that fits into the capacity of those found from `starts` on, of which one fits
/// unless there are others that do. `starts` hears what no plan takes less than, if that is known.
pub(crate) fn search(
    tables: &Tables<'_>,
    textbook: &Plan,
    request: &Request,
    starts: impl FnOnce(f64) -> Result<Vec<Plan>, Refusal>,
) -> Result<Found, Refusal> {
    let mut known = Known::new(tables, request);
    let mut root = Root::default();
    // What is out of reach needs no starts.
    let is_bounded_first = request.below_s().is_finite();
    if is_bounded_first {
        root = known.root(textbook).map_err(Refusal::Infeasible)?;
    }
    let first_s = root.lower_bound_s;
    if request.is_out_of_reach(first_s) || request.is_bound_enough() {
        return Err(Refusal::NotBelow(Some(first_s)));
    }
    match starts(first_s) {
        Ok(starts) => starts.into_iter().for_each(|start| _ = known.add(start)),
        Err(_) if known.best.is_some() => {}
        Err(Refusal::NotBelow(_)) => return Err(Refusal::NotBelow(Some(first_s))),
        Err(refusal) => return Err(refusal),
    }
    if !is_bounded_first {
        root = known.root(textbook).map_err(Refusal::Infeasible)?;
    }
    if request.objective == Objective::Scheduled && request.effort != Effort::Quick {
        known.discount_links(textbook).map_err(Refusal::Infeasible)?;
    }
    let mut lower_bound_s = root.lower_bound_s;
    if known.is_open(lower_bound_s) {
        lower_bound_s = lower_bound_s.max(branch(textbook, root, &mut known));
    }
    let closed = can_prune(lower_bound_s, known.best_s());
    let optimality =
        if closed { Optimality::Optimal } else { Optimality::Bounded { lower_bound_s } };
    let plan = known.best.expect("the search starts from a plan that fits").plan;
    Ok(Found { plan, optimality, alternatives: Vec::new(), layouts: (0, 0), unlimited_s: None })
}

/// The problem in seconds, in which what the textbook does comes first.
fn preferring<'a>(tables: &'a Tables<'a>, textbook: &Plan) -> Problem<'a> {
    let mut in_seconds = Problem::new(tables, Objective::Serial.compute());
    prefer(&mut in_seconds, textbook);
    in_seconds
}

/// The shares that bound subproblems: those with the best bounds, and each resource alone.
fn kept_shares(mut bounds: Vec<Bound>, resources: usize) -> Vec<Vec<f64>> {
    bounds.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let alone = |resource: usize| {
        let share = |other: usize| f64::from(u8::from(other == resource));
        (0..resources).map(share).collect()
    };
    let best = bounds.into_iter().take(KEPT).map(|bound| bound.shares);
    best.chain((0..resources).map(alone)).collect()
}

/// Tables that weight a second of each axis by its share.
fn weighted<'a>(tables: &Tables<'a>, objective: Objective, shares: &[f64]) -> Tables<'a> {
    let waits = objective == Objective::Scheduled;
    let links = Some(shares[1..].to_vec());
    tables.repriced(CostModel { links, waits, ..tables.cost_model.clone() })
}

/// Branch and bound over the choices from the incumbent on; returns the remaining bound.
///
/// Dominated layouts stay: a layout that is dominated under one set of shares may balance the
/// resources.
fn branch<'t>(textbook: &Plan, root: Root<'t>, known: &mut Known<'t>) -> f64 {
    let tables = known.tables;
    let Root { bounds, critical_path, .. } = root;
    let shares = kept_shares(bounds, known.resources);
    let evaluations = Classified::new(&preferring(tables, textbook).model()).evaluations();
    if evaluations.saturating_mul(shares.len()) > MOST_TABULATED {
        return 0.0;
    }
    let tabulated: Vec<Tables<'_>> =
        shares.iter().map(|shares| weighted(tables, known.request.objective, shares)).collect();
    let views: Vec<View<'_>> = tabulated
        .iter()
        .zip(shares)
        .map(|(counted, shares)| View::new(counted, textbook, shares[0], &known.request.interrupt))
        .collect();
    let solutions = MOST_SOLUTIONS.min(MOST_WORK / views[0].problem.variables.len().max(1));
    let solutions = known.share_of(solutions);
    let evaluations = known.share_below(MOST_EVALUATIONS);
    let mut search = BalancedSearch { views, critical_path, known, solutions, evaluations };
    best_first(
        &mut search,
        |search| search.known.best_s(),
        BalancedSearch::is_over,
        BalancedSearch::evaluate,
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
    fn new(tables: &'t Tables<'t>, textbook: &Plan, compute: f64, interrupt: &Interrupt) -> Self {
        let mut problem = Problem::new(tables, compute);
        prefer(&mut problem, textbook);
        let mut trees = tables.trees();
        let model = problem.model();
        let terms =
            TabulatedTerms::new(&Classified::new(&model), &mut trees, reprice::LIMITS, interrupt);
        Self { problem, unary: model.unary, terms, trees }
    }
}

struct BalancedSearch<'s, 't> {
    views: Vec<View<'s>>,
    /// The bound by chains of dependences, where the schedule is minimised.
    critical_path: Option<CriticalPath<'t>>,
    known: &'s mut Known<'t>,
    /// How many times views may still be solved.
    solutions: usize,
    /// How many combinations they may still evaluate.
    evaluations: usize,
}

impl BalancedSearch<'_, '_> {
    fn is_over(&self) -> bool {
        self.solutions == 0
            || self.evaluations == 0
            || self.known.steps == 0
            || self.known.request.interrupt.is_due()
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
            self.known.add(plan::plan(&view.problem, &solved.assignment, &mut view.trees));
            assignments.push(solved.assignment);
        }
        if let Some(critical_path) = &self.critical_path {
            let allowed = node.subproblem.allowed(&self.views[0].unary);
            bound_s = bound_s.max(critical_path.lower_bound_s(&allowed));
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

/// The best plan so far.
struct Incumbent {
    plan: Plan,
    /// The objective, then what breaks ties, in seconds.
    order: [f64; 3],
}

/// A lower bound of all plans, and the shares of the resources from which it follows.
struct Bound {
    seconds: f64,
    shares: Vec<f64>,
}

/// What bounds all plans.
#[derive(Default)]
struct Root<'t> {
    /// Bounds of the busiest resource.
    bounds: Vec<Bound>,
    /// The bound by chains, where the schedule is minimised.
    critical_path: Option<CriticalPath<'t>>,
    /// The best of all.
    lower_bound_s: f64,
}

/// The best of some bounds.
fn least_s(bounds: &[Bound]) -> f64 {
    bounds.iter().map(|bound| bound.seconds).fold(0.0, f64::max)
}

/// What is known from the plans found so far.
struct Known<'t> {
    tables: &'t Tables<'t>,
    request: &'t Request,
    resources: usize,
    /// The busy seconds of compute and of every axis, of plans in which they differ.
    busy: Vec<Vec<f64>>,
    best: Option<Incumbent>,
    /// How many steps may still be scheduled.
    steps: usize,
}

impl<'t> Known<'t> {
    fn new(tables: &'t Tables<'t>, request: &'t Request) -> Self {
        let resources = 1 + tables.program.mesh.axes.len();
        let mut known = Self { tables, request, resources, busy: Vec::new(), best: None, steps: 0 };
        known.steps = known.share_below(MOST_SCHEDULED);
        known
    }

    /// The same of work that a goal limits.
    fn share_below(&self, most: usize) -> usize {
        let share = if self.request.goal.is_some() { BELOW_A_GOAL } else { 1.0 };
        self.share_of((most as f64 * share) as usize)
    }

    /// What may be done of so much work.
    fn share_of(&self, most: usize) -> usize {
        match self.request.effort {
            Effort::Quick => (most as f64 * QUICK) as usize,
            Effort::Normal | Effort::High => most,
        }
    }

    /// Whether no plan before keeps all resources equally busy.
    fn add(&mut self, plan: Plan) -> bool {
        let expanded = ExpandedPlan::from(&plan);
        let refinement = self.tables.cost_model.refinement;
        let busy = self.busy_s(&expanded);
        let busiest_s = busy.iter().copied().fold(0.0, f64::max);
        // A schedule takes at least as long as the busiest resource, and finding it takes longer.
        if busiest_s <= self.best_s() * (1.0 + ROUNDING) {
            let report = report(&expanded, refinement);
            drop(expanded);
            self.steps = self.steps.saturating_sub(report.steps.len());
            self.try_incumbent(plan, &report);
        }
        let equal = |other: &Vec<f64>| other.iter().zip(&busy).all(|(&a, &b)| is_rounding(a, b));
        let is_new = !self.busy.iter().any(equal);
        if is_new {
            self.busy.push(busy);
        }
        is_new
    }

    /// Seconds of compute and of every axis: for which they are busy, or for which a schedule waits
    /// for them.
    fn busy_s(&self, plan: &ExpandedPlan<'_>) -> Vec<f64> {
        let steps = price_steps(plan, self.tables.cost_model.refinement);
        match self.request.objective {
            Objective::Scheduled => waited_s(plan, &steps),
            _ => resources_s(plan, &steps),
        }
    }

    fn try_incumbent(&mut self, plan: Plan, report: &Report) {
        let peak_bytes = report.memory.peak_bytes;
        let fits = self.request.capacity.is_none_or(|capacity| peak_bytes <= capacity);
        let makespan_s = report.schedule.makespan_s;
        let order = match self.request.objective {
            Objective::Scheduled => [makespan_s, report.serial_s, report.overlap_s],
            _ => [report.overlap_s, makespan_s, report.serial_s],
        };
        let is_better = |best: &Incumbent| {
            let differ = order.iter().zip(&best.order).find(|(a, b)| !is_rounding(**a, **b));
            differ.is_some_and(|(a, b)| a < b)
        };
        if fits && self.best.as_ref().is_none_or(is_better) {
            self.best = Some(Incumbent { plan, order });
        }
    }

    /// Whether a bound leaves a gap, and there is time to close it.
    fn is_open(&self, lower_bound_s: f64) -> bool {
        !can_prune(lower_bound_s, self.best_s()) && !self.request.interrupt.is_due()
    }

    /// Bounds of all plans; adds those that attain them.
    fn root(&mut self, textbook: &Plan) -> Result<Root<'t>, Infeasible> {
        let bounds = self.bounds(textbook)?;
        let mut root = Root { lower_bound_s: least_s(&bounds), bounds, critical_path: None };
        let is_chained = self.request.objective == Objective::Scheduled
            && self.tables.program.collectives == Collectives::Whole
            && !pipeline_stages::hides_step_ends(self.tables.program);
        if is_chained
            && self.is_open(root.lower_bound_s)
            && !self.request.is_out_of_reach(root.lower_bound_s)
        {
            let path = CriticalPath::new(preferring(self.tables, textbook));
            root.lower_bound_s = root.lower_bound_s.max(path.lower_bound_s(path.all()));
            root.critical_path = Some(path);
        }
        Ok(root)
    }

    /// Bounds by cutting planes; adds the plans that attain them.
    fn bounds(&mut self, textbook: &Plan) -> Result<Vec<Bound>, Infeasible> {
        let interrupt = &self.request.interrupt;
        let is_quick = self.request.effort == Effort::Quick;
        let mut bounds: Vec<Bound> = Vec::new();
        let mut in_vain = 0;
        for _ in 0..ROUNDS {
            if interrupt.is_due() || in_vain == MOST_IN_VAIN {
                break;
            }
            let (shares, most_s) = self.best_shares();
            let least_s = least_s(&bounds);
            let is_near = is_quick && least_s >= most_s * NEAR;
            let wanted_s = self.best_s().min(self.request.below_s());
            let closes_little = most_s - least_s < (wanted_s - least_s) * LITTLE;
            if is_near || closes_little || self.request.is_out_of_reach(least_s) {
                break;
            }
            let problem = weighted(self.tables, self.request.objective, &shares);
            let solved = solve(Problem::new(&problem, shares[0]), textbook, interrupt)?;
            let seconds = solved.bound.as_seconds();
            // Where the solver leaves a gap, shares are the best for its plans and not for bounds.
            let raises = solved.exact || seconds - least_s > (wanted_s - least_s) * LITTLE;
            let best_s = self.best_s();
            bounds.push(Bound { seconds, shares });
            if !self.add(solved.plan) || interrupt.is_due() {
                break;
            }
            in_vain = if raises || self.best_s() < best_s { 0 } else { in_vain + 1 };
        }
        Ok(bounds)
    }

    /// Adds plans in which a second of a collective counts less than one of compute, beside which
    /// a part of it runs.
    fn discount_links(&mut self, textbook: &Plan) -> Result<(), Infeasible> {
        let (tables, request) = (self.tables, self.request);
        // Plans, of which no proof is needed.
        let share = (Effort::Quick.work() / request.effort.work()).min(1.0);
        let interrupt = request.interrupt.with_work(share);
        let plan = |discount: &f64| {
            let mut shares = vec![*discount; self.resources];
            shares[0] = 1.0;
            let problem = weighted(tables, request.objective, &shares);
            let solved = solve(Problem::new(&problem, 1.0), textbook, &interrupt);
            solved.map(|solved| solved.plan)
        };
        if !request.interrupt.is_due() {
            for plan in in_pairs(&DISCOUNTS, plan) {
                self.add(plan?);
            }
        }
        Ok(())
    }

    /// The least time of the plans that fit.
    fn best_s(&self) -> f64 {
        self.best.as_ref().map_or(f64::INFINITY, |best| best.order[0])
    }

    /// The shares under which the known plan with the least weighted time has the most, and that
    /// time, above which no shares have a bound. Times are in units of the largest, for the
    /// solver's sake.
    fn best_shares(&self) -> (Vec<f64>, f64) {
        let unit = self.busy.iter().flatten().copied().fold(f64::MIN_POSITIVE, f64::max);
        let mut lp = Lp::new(OptimizationDirection::Maximize);
        let least = lp.add_var(1.0, (0.0, f64::INFINITY));
        let shares: Vec<_> = (0..self.resources).map(|_| lp.add_var(0.0, (0.0, 1.0))).collect();
        lp.add_constraint(shares.iter().map(|&share| (share, 1.0)), ComparisonOp::Eq, 1.0);
        for busy in &self.busy {
            let weighted = shares.iter().zip(busy).map(|(&share, seconds)| (share, seconds / unit));
            lp.add_constraint(weighted.chain([(least, -1.0)]), ComparisonOp::Ge, 0.0);
        }
        let Ok(solution) = lp.solve() else {
            return (vec![1.0 / self.resources as f64; self.resources], f64::INFINITY);
        };
        (shares.iter().map(|&share| solution[share].max(0.0)).collect(), solution[least] * unit)
    }
}

/// Whether two times differ by rounding alone.
fn is_rounding(a: f64, b: f64) -> bool {
    (a - b).abs() <= ROUNDING * a.max(b)
}
