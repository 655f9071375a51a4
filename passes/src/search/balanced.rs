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
//! bounds; the remaining gap is reported. Where one resource is, plans that keep the others busy
//! for any time are equal: the plan of the best shares, in which a resource without one has a
//! millionth, is among those that schedules are compared of. Alternatives: carrying a time for each
//! resource through elimination (exact; tables of Pareto sets grow with the program), local search
//! (no bound).
//!
//! A schedule is searched in the same way: the makespan is at least the time of the busiest
//! resource and at least the critical path ([`crate::search::critical_path`]), and plans that
//! balance the resources are those whose schedules can be short. Both together bound it more
//! tightly, by shares of resources and of chains ([`crate::search::combined`]). (Where collectives
//! run in chunks beside products, or at the ends of a step ([`crate::cost::step_ends`]), no chain
//! is a bound.) Every plan that is met on the way is scheduled, and so are some between them
//! ([`crate::search::crossing`]). The search starts from the plans of the other objectives, so it
//! is never worse than they are; these and others within memory are in [`crate::search::starts`].
//! Where only plans below a goal are wanted, the bounds come first: what they exclude needs no
//! starts.

use shardwise_ir::collectives::Collectives;
use shardwise_ir::plan::Plan;

use crate::cost::pipeline_stages;
use crate::insert_collectives::plan;
use crate::problem::Problem;
use crate::propagate::textbook::Infeasible;
use crate::reshard::tables::Tables;
use crate::search::combined;
use crate::search::counterparts;
use crate::search::critical_path::CriticalPath;
use crate::search::crossing;
use crate::search::known_plans::Known;
use crate::search::objective::Objective;
use crate::search::outcome::{Effort, Found, Optimality, Refusal, Request};
use crate::search::serial::solve;
use crate::search::shares::{self, Bound, MOST_IN_VAIN, ROUNDS, Shares, least_s};
use crate::search::starts::in_pairs;
use crate::search::tie_break::prefer;
use crate::solver::branch_and_bound::{OpenNode, Outcome, best_first, can_prune};
use crate::solver::dreyfus_wagner::Trees;
use crate::solver::model::UnaryCosts;
use crate::solver::reprice;
use crate::solver::tabulate::{Classified, TabulatedTerms};

/// A bound within this ratio of the best that shares can have ends a quick search for them.
const NEAR: f64 = 0.99;

/// Shares whose bound can close less of the gap than this are not looked for.
const LITTLE: f64 = 1e-3;

/// The share of a resource that has none, in the sum whose plan breaks ties.
const TIE_BREAK: f64 = 1e-6;

/// Weights of a second of a collective, where one of compute has weight 1.
const DISCOUNTS: [f64; 5] = [0.5, 0.25, 0.1, 0.03, 0.01];

/// Solutions in branch and bound, the variables times solutions, and the combinations that
/// solutions evaluate, at most: seconds.
const MOST_SOLUTIONS: usize = 6000;
const MOST_WORK: usize = 30_000;
const MOST_EVALUATIONS: usize = 1 << 28;

/// Combinations in their tables, at most.
const MOST_TABULATED: usize = 1 << 28;

/// The best plan that fits into the capacity of those found from `starts` on, of which one fits
/// unless there are others that do. `starts` hears what no plan takes less than, if that is known.
pub(crate) fn search(
    tables: &Tables<'_>,
    textbook: &Plan,
    request: &Request,
    starts: impl FnOnce(f64) -> Result<Vec<Plan>, Refusal>,
) -> Result<Found, Refusal> {
    let mut known = Known::new(tables, textbook, request);
    let mut root = Root::default();
    // What is out of reach needs no starts.
    let is_bounded_first = request.below_s().is_finite();
    if is_bounded_first {
        root = known.root(Vec::new()).map_err(Refusal::Infeasible)?;
    }
    let first_s = root.lower_bound_s;
    if request.is_out_of_reach(first_s) || request.is_bound_enough() {
        return Err(Refusal::NotBelow(Some(first_s)));
    }
    let starts = match starts(first_s) {
        Ok(starts) => starts,
        Err(_) if known.best.is_some() => Vec::new(),
        Err(Refusal::NotBelow(_)) => return Err(Refusal::NotBelow(Some(first_s))),
        Err(refusal) => return Err(refusal),
    };
    for start in &starts {
        known.add(start.clone());
    }
    if is_bounded_first {
        root.plans.extend(starts);
    } else {
        root = known.root(starts).map_err(Refusal::Infeasible)?;
    }
    if request.effort != Effort::Quick {
        root.add_plans(&mut known).map_err(Refusal::Infeasible)?;
    }
    let mut lower_bound_s = root.lower_bound_s;
    if known.is_open(lower_bound_s) {
        lower_bound_s = lower_bound_s.max(branch(root, &mut known));
    }
    let closed = can_prune(lower_bound_s, known.best_s());
    let optimality =
        if closed { Optimality::Optimal } else { Optimality::Bounded { lower_bound_s } };
    // Nobody reads the plan of a search that was cancelled before it had a start.
    let unread = || request.interrupt.is_cancelled().then(|| textbook.clone());
    let plan = known.best.map(|best| best.plan).or_else(unread);
    let plan = plan.expect("the search starts from a plan that fits");
    Ok(Found { plan, optimality, alternatives: Vec::new(), layouts: (0, 0), unlimited_s: None })
}

/// The problem in seconds, in which what the textbook does comes first; `None` if the time is over
/// before it is built.
fn preferring<'t>(known: &Known<'t>) -> Option<Problem<'t>> {
    let interrupt = &known.request.interrupt;
    let mut in_seconds = Problem::in_time(known.tables, Objective::Serial.compute(), interrupt)?;
    prefer(&mut in_seconds, known.textbook);
    Some(in_seconds)
}

/// Branch and bound over the choices from the incumbent on; returns the remaining bound.
///
/// Dominated layouts stay: a layout that is dominated under one set of shares may balance the
/// resources.
fn branch<'t>(root: Root<'t>, known: &mut Known<'t>) -> f64 {
    let Root { bounds, critical_path, .. } = root;
    let shares = shares::kept(bounds, known.resources);
    let Some(problem) = preferring(known) else { return 0.0 };
    let evaluations = Classified::new(&problem.model()).evaluations();
    if evaluations.saturating_mul(shares.len()) > MOST_TABULATED {
        return 0.0;
    }
    let tabulated: Vec<Tables<'_>> = shares.iter().map(|shares| known.weighted(shares)).collect();
    let views: Vec<View<'_>> = tabulated
        .iter()
        .zip(&shares)
        .map(|(counted, shares)| View::new(known, counted, shares, critical_path.as_ref()))
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
    fn new(
        known: &Known<'_>,
        tables: &'t Tables<'t>,
        shares: &Shares,
        path: Option<&CriticalPath<'_>>,
    ) -> Self {
        let problem = known.problem(tables, shares, path);
        let model =
            path.map_or_else(|| problem.model(), |path| shares.chains.model(&problem, path));
        let terms = TabulatedTerms::new(
            &Classified::new(&model),
            &mut model.tree_tables(),
            reprice::LIMITS,
            &known.request.interrupt,
        );
        Self { problem, unary: model.unary, terms, trees: tables.trees() }
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

/// What bounds all plans.
#[derive(Default)]
struct Root<'t> {
    /// Bounds of the busiest resource.
    bounds: Vec<Bound>,
    /// The bound by chains, where the schedule is minimised.
    critical_path: Option<CriticalPath<'t>>,
    /// Plans that are known.
    plans: Vec<Plan>,
    /// The choices of plans that attain bounds by resources and chains together.
    met: Vec<Vec<usize>>,
    /// The best of all.
    lower_bound_s: f64,
}

impl<'t> Root<'t> {
    /// Adds plans that attain no bound.
    fn add_plans(&mut self, known: &mut Known<'t>) -> Result<(), Infeasible> {
        let ties = match known.request.objective {
            Objective::Scheduled => None,
            _ => self.tie_break(known)?,
        };
        for plan in known.discounted()?.into_iter().chain(ties) {
            known.add(plan.clone());
            self.plans.push(plan);
        }
        if known.is_worthwhile(self.lower_bound_s) {
            self.cross(known);
        }
        Ok(())
    }

    /// The plan of the best shares in which no resource is without one.
    fn tie_break(&self, known: &Known<'t>) -> Result<Option<Plan>, Infeasible> {
        let Some(Bound { shares, .. }) = shares::highest(&self.bounds) else { return Ok(None) };
        let shares = shares.resources.iter().map(|share| share.max(TIE_BREAK)).collect();
        let shares = Shares::of_resources(shares);
        let tables = known.weighted(&shares);
        let problem = Problem::in_time(&tables, shares.compute(), &known.request.interrupt);
        let solved = problem.map(|problem| solve(problem, known.textbook, &known.little_work()));
        Ok(solved.transpose()?.map(|solved| solved.plan))
    }

    /// Adds plans between the best one and others that are known.
    fn cross(&self, known: &mut Known<'t>) {
        let own;
        let problem = if let Some(path) = &self.critical_path {
            path.problem()
        } else {
            let Some(in_seconds) = preferring(known) else { return };
            own = in_seconds;
            &own
        };
        let others = self.plans.iter().filter_map(|plan| counterparts::assignment(problem, plan));
        let others: Vec<Vec<usize>> = self.met.iter().cloned().chain(others).collect();
        crossing::cross(known, problem, &others);
    }
}

impl<'t> Known<'t> {
    /// Bounds of all plans, some of which are known; adds those that attain them.
    fn root(&mut self, mut plans: Vec<Plan>) -> Result<Root<'t>, Infeasible> {
        let is_chained = self.request.objective == Objective::Scheduled
            && self.tables.program.collectives == Collectives::Whole
            && !pipeline_stages::hides_step_ends(self.tables.program);
        let is_combined = is_chained && self.request.effort != Effort::Quick;
        let is_enough =
            is_combined && !plans.is_empty() && !combined::has_time_for_others(self.tables);
        let bounds = if is_enough { Vec::new() } else { self.bounds(&mut plans)? };
        let mut root = Root { lower_bound_s: least_s(&bounds), bounds, plans, ..Root::default() };
        if is_chained
            && self.is_open(root.lower_bound_s)
            && !self.request.is_out_of_reach(root.lower_bound_s)
            && let Some(problem) = preferring(self)
        {
            let path = CriticalPath::new(problem);
            root.lower_bound_s = root.lower_bound_s.max(path.lower_bound_s(path.all()));
            if is_combined {
                let (combined, met) =
                    combined::bounds(self, &path, &root.plans, root.lower_bound_s);
                root.met = met;
                root.lower_bound_s = root.lower_bound_s.max(least_s(&combined));
                root.bounds.extend(combined);
            }
            root.critical_path = Some(path);
        }
        Ok(root)
    }

    /// Bounds by cutting planes; adds the plans that attain them, also to some that are known.
    fn bounds(&mut self, plans: &mut Vec<Plan>) -> Result<Vec<Bound>, Infeasible> {
        let interrupt = &self.request.interrupt;
        let is_quick = self.request.effort == Effort::Quick;
        let mut bounds: Vec<Bound> = Vec::new();
        let mut in_vain = 0;
        for _ in 0..ROUNDS {
            if interrupt.is_due() || in_vain == MOST_IN_VAIN {
                break;
            }
            let (shares, most_s) = shares::best(&self.busy, self.resources);
            let shares = Shares::of_resources(shares);
            let least_s = least_s(&bounds);
            let is_near = is_quick && least_s >= most_s * NEAR;
            let wanted_s = self.wanted_s();
            let closes_little = most_s - least_s < (wanted_s - least_s) * LITTLE;
            if is_near || closes_little || self.request.is_out_of_reach(least_s) {
                break;
            }
            let tables = self.weighted(&shares);
            let Some(problem) = Problem::in_time(&tables, shares.compute(), interrupt) else {
                break;
            };
            let solved = solve(problem, self.textbook, interrupt)?;
            let seconds = solved.bound.as_seconds();
            // Where the solver leaves a gap, shares are the best for its plans and not for bounds.
            let raises = solved.exact || seconds - least_s > (wanted_s - least_s) * LITTLE;
            let best_s = self.best_s();
            bounds.push(Bound { seconds, shares });
            plans.push(solved.plan.clone());
            if !self.add(solved.plan) || interrupt.is_due() {
                break;
            }
            in_vain = if raises || self.best_s() < best_s { 0 } else { in_vain + 1 };
        }
        Ok(bounds)
    }

    /// Plans in which a second of a collective counts less than one of compute, beside which a part
    /// of it runs.
    fn discounted(&self) -> Result<Vec<Plan>, Infeasible> {
        let interrupt = self.little_work();
        let plan = |discount: &f64| {
            let mut shares = vec![*discount; self.resources];
            shares[0] = 1.0;
            let tables = self.weighted(&Shares::of_resources(shares));
            let problem = Problem::in_time(&tables, 1.0, &interrupt)?;
            let solved = solve(problem, self.textbook, &interrupt);
            Some(solved.map(|solved| solved.plan))
        };
        in_pairs(&DISCOUNTS, plan).into_iter().flatten().collect()
    }
}
