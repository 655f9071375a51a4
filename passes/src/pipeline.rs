//! Every pass from the resolved program to the priced plan, in order, each with the reason for its
//! place. `--print-after` and its help read this table.
//!
//! There are two kinds of passes. Rewrites transform programs; the last one returns a program that
//! has only statements. From there the program is fixed, and passes add to a [`Planning`]: the
//! space of its shardings, the textbook's plan, the searched plan, its steps, its price. The kinds
//! are separate because a planning borrows the rewritten program.
//!
//! Collectives are chosen by the search and written out by `collectives`: the cost of a candidate
//! is that of all its steps, so the search inserts them into every candidate that it prices. After
//! `search` the choice alone is printed, as a program in which every use has brackets.

use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::plan::Plan;
use shardwise_ir::program::Program;
use shardwise_ir::verify;
use strum::{EnumMessage, IntoStaticStr, VariantArray};

use crate::cost::collective::Refinement;
use crate::cost::liveness::{self, memory};
use crate::cost::report::{Report, report};
pub use crate::fusion::{KernelFault, saving_memory, with_kernels};
use crate::identical::{self, Once};
use crate::layouts::composite::ExpandedPlan;
use crate::propagate::textbook::{self, Infeasible};
use crate::regroup::{self, Regrouping};
use crate::reshard::tables::Tables;
use crate::search::{Found, Optimality, Refusal, Request, search, without_textbook};
use crate::training::gradient::{self, GradientFault};
use crate::training::optimizer::{self, OptimizerFault};
use crate::training::products;

/// A pass, and the place after it where the program can be printed.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumMessage, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "lowercase")]
pub enum Pass {
    /// The program with all names resolved.
    Resolve,
    /// The program with its sums and products in the groupings that are asked for.
    Regroup,
    /// The program with its gradients, in microbatches where it asks for them.
    Gradient,
    /// The program with the operands of its products in the dtype that is asked for.
    Products,
    /// The program with the updates of its optimizer.
    Optimizer,
    /// The program without statements that compute again what another one has computed.
    Identical,
    /// The program with its operations assigned to kernels.
    Kernels,
    /// The program with the layouts that each operation can run in.
    Layouts,
    /// The plan by the textbook's rules.
    Textbook,
    /// The program with the layouts that the search chose, before collectives.
    Search,
    /// The plan with its collectives.
    Collectives,
    /// The plan with its costs, as without this option.
    Report,
}

impl Pass {
    /// Every pass, in order.
    pub const ALL: &'static [Self] = Self::VARIANTS;
    /// The last pass that rewrites the program; those after it plan.
    pub const LAST_REWRITE: Self = Self::Kernels;

    /// The name of the pass.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What a pass does.
enum Run {
    /// Nothing here: `shardwise_ir::resolve` has done it.
    Resolved,
    /// Writes the groupings that are asked for.
    Regroup(fn(Program, &[Regrouping]) -> Program),
    /// Leaves out what is computed before.
    Merge(fn(Program) -> (Program, Vec<Once>)),
    /// Makes a program of a program.
    Rewrite(fn(Program) -> Result<Program, RewriteFault>),
    /// Opens the space of plans of the final program.
    Open(for<'p> fn(&'p Analyzed, PlanRequest) -> Result<Planning<'p>, PlanFault>),
    /// Adds to what is known of its plan.
    Plan(fn(&mut Planning<'_>) -> Result<(), PlanFault>),
}

/// Every pass, first to last.
const PASSES: [(Pass, Run); Pass::ALL.len()] = [
    // First: only typed ids travel after it.
    (Pass::Resolve, Run::Resolved),
    // Before gradients, which are those of the new grouping.
    (Pass::Regroup, Run::Regroup(regroup::apply)),
    // After names are resolved, since gradients are named after values; before any planning, which
    // treats derived statements like the rest. It splits the step into microbatches itself: only
    // here it is known which statements are gradients of which.
    (Pass::Gradient, Run::Rewrite(derive_gradients)),
    // After gradients, whose products are converted like those that they are derived from; before
    // updates, whose products are not those of weights.
    (Pass::Products, Run::Rewrite(convert_products)),
    // After gradients, which the updates read.
    (Pass::Optimizer, Run::Rewrite(write_updates)),
    // After the last statement is written, which may be equal to an earlier one.
    (Pass::Identical, Run::Merge(identical::merge)),
    // After the last statement is written, which may join any kernel; before statements are priced,
    // for they cost what their kernels read and write.
    (Pass::Kernels, Run::Rewrite(assign_kernels)),
    // After the last rewrite: the space is that of all statements.
    (Pass::Layouts, Run::Open(open_layouts)),
    // Before the search, which breaks ties in its favour and must not find anything costlier.
    (Pass::Textbook, Run::Plan(follow_textbook)),
    // Before collectives are written: they follow from the layouts that it chooses.
    (Pass::Search, Run::Plan(choose_layouts)),
    // After the search, for which a softmax sharded along its dimension is one operation with a
    // price: here it is expanded to its statements and their reductions.
    (Pass::Collectives, Run::Plan(insert_collectives)),
    // Last: it prices the very steps that are printed.
    (Pass::Report, Run::Plan(price)),
];

/// The strategy that chooses a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Strategy {
    /// The search: the cheapest plan.
    #[default]
    Search,
    /// The book's rules alone.
    Textbook,
}

impl Strategy {
    /// As options write it.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Options of the planning passes.
#[derive(Clone, Debug, Default)]
pub struct PlanRequest {
    /// Search or textbook.
    pub strategy: Strategy,
    /// The precision of the prices of collectives.
    pub refinement: Refinement,
    /// The objective of the search, and its limits.
    pub search: Request,
}

/// Why a program cannot be rewritten, and the program before that pass.
#[derive(Clone, Debug)]
pub enum RewriteFault {
    /// Gradients cannot be derived.
    Gradient(Box<Program>, Vec<GradientFault>),
    /// Updates of parameters cannot be written out.
    Optimizer(Box<Program>, Vec<OptimizerFault>),
    /// Statements name a kernel that cannot be one.
    Kernel(KernelFault),
}

/// Why a program has no plan.
#[derive(Clone, Debug)]
pub enum PlanFault {
    /// No layout of an operation fits its brackets.
    Infeasible(Infeasible),
    /// The plan with the smallest peak that was found exceeds the memory capacity.
    OverCapacity(Box<Plan>),
    /// Nobody wants the plan any more.
    Cancelled,
    /// None that was found reaches the goal. No plan takes less than these seconds, if all of them
    /// were looked at.
    NotBelow(Option<f64>),
}

/// The results of the planning passes: each pass adds to them for those after it.
pub struct Planning<'p> {
    request: PlanRequest,
    /// The shardings of each value, and the steps between them.
    pub tables: Tables<'p>,
    textbook: Option<Plan>,
    rules_fail: bool,
    found: Option<Found>,
    plan: Option<ExpandedPlan<'static>>,
    reports: Option<Reports>,
}

/// The costs of the chosen plan and of the textbook's.
#[derive(Clone, Debug)]
pub struct Reports {
    /// The plan's costs.
    pub plan: Report,
    /// The textbook's; where its rules find no plan, those of the one that the search starts from.
    pub textbook: Report,
    /// Whether the textbook's rules find no plan.
    pub rules_fail: bool,
}

impl Planning<'_> {
    /// The textbook's plan, from [`Pass::Textbook`] on.
    pub fn textbook(&self) -> &Plan {
        self.textbook.as_ref().expect("the textbook's plan is made before it is asked for")
    }

    /// The chosen plan, composites not yet expanded, from [`Pass::Search`] on.
    pub fn found(&self) -> &Found {
        self.found.as_ref().expect("a plan is chosen before it is asked for")
    }

    /// The plan, from [`Pass::Collectives`] on.
    pub fn plan(&self) -> &ExpandedPlan<'static> {
        self.plan.as_ref().expect("collectives are inserted before the plan is asked for")
    }

    /// The chosen plan alone, composites not yet expanded, after [`Pass::Search`].
    pub fn into_found(self) -> Found {
        self.found.expect("a plan is chosen before it is asked for")
    }

    /// What was chosen, the plan and its costs, after [`Pass::Report`].
    pub fn finish(self) -> (Found, ExpandedPlan<'static>, Reports) {
        let all = self.found.zip(self.plan).zip(self.reports);
        let ((found, plan), reports) = all.expect("all passes have run");
        (found, plan, reports)
    }
}

/// A rewritten program.
#[derive(Debug)]
pub struct Rewritten {
    /// The program.
    pub program: Analyzed,
    /// The values that it does not compute, since others are equal to them.
    pub computed_once: Vec<Once>,
}

impl From<Analyzed> for Rewritten {
    fn from(program: Analyzed) -> Self {
        Self { program, computed_once: Vec::new() }
    }
}

/// The program as it is after the rewrites up to `last`, with its dataflow: nothing changes it
/// from there on.
pub fn rewrite(
    mut program: Program,
    regroupings: &[Regrouping],
    last: Pass,
) -> Result<Rewritten, RewriteFault> {
    let mut computed_once = Vec::new();
    for (_, run) in PASSES.iter().filter(|(pass, _)| *pass <= last) {
        program = match run {
            Run::Regroup(run) => run(program, regroupings),
            Run::Rewrite(run) => run(program)?,
            Run::Merge(run) => {
                let (program, once) = run(program);
                computed_once = once;
                program
            }
            Run::Resolved | Run::Open(_) | Run::Plan(_) => program,
        };
    }
    liveness::charge_by_estimate(&mut program);
    Ok(Rewritten { program: program.into(), computed_once })
}

/// The same without microbatches: the reference that microbatches must agree with.
pub fn rewrite_whole_batch(program: Program) -> Result<Analyzed, RewriteFault> {
    derived(program, gradient::expand_whole)
        .and_then(convert_products)
        .and_then(write_updates)
        .and_then(assign_kernels)
        .map(Analyzed::from)
}

/// Runs the planning passes up to `last` on a rewritten program.
pub fn plan(
    program: &Analyzed,
    request: PlanRequest,
    last: Pass,
) -> Result<Planning<'_>, PlanFault> {
    let mut planning = None;
    for (_, run) in PASSES.iter().filter(|(pass, _)| *pass <= last) {
        if request.search.interrupt.is_cancelled() {
            return Err(PlanFault::Cancelled);
        }
        match (run, &mut planning) {
            (Run::Open(open), planning) => *planning = Some(open(program, request.clone())?),
            (Run::Plan(run), Some(planning)) => run(planning)?,
            _ => {}
        }
    }
    Ok(planning.expect("the last pass is one that plans"))
}

fn derive_gradients(program: Program) -> Result<Program, RewriteFault> {
    derived(program, gradient::expand)
}

fn derived(
    program: Program,
    expand: fn(Program) -> Result<Program, Vec<GradientFault>>,
) -> Result<Program, RewriteFault> {
    if program.backward.is_none() {
        return Ok(program);
    }
    expand(program.clone()).map_err(|faults| RewriteFault::Gradient(Box::new(program), faults))
}

#[expect(clippy::unnecessary_wraps, reason = "other rewrites may fail")]
fn convert_products(program: Program) -> Result<Program, RewriteFault> {
    Ok(products::convert(program))
}

fn write_updates(program: Program) -> Result<Program, RewriteFault> {
    if program.optimizer.is_none() {
        return Ok(program);
    }
    optimizer::expand(program.clone())
        .map_err(|faults| RewriteFault::Optimizer(Box::new(program), faults))
}

fn assign_kernels(program: Program) -> Result<Program, RewriteFault> {
    with_kernels(program).map_err(RewriteFault::Kernel)
}

fn open_layouts(program: &Analyzed, request: PlanRequest) -> Result<Planning<'_>, PlanFault> {
    if let Some(lower_bound_s) = request.search.hopeless_s(program) {
        return Err(PlanFault::NotBelow(Some(lower_bound_s)));
    }
    let tables = Tables::new(program, request.refinement);
    Ok(Planning {
        request,
        tables,
        textbook: None,
        rules_fail: false,
        found: None,
        plan: None,
        reports: None,
    })
}

/// Where the rules find no plan, such as for sums that have to stay pending through an addition,
/// the search starts from one of its own.
fn follow_textbook(planning: &mut Planning<'_>) -> Result<(), PlanFault> {
    let PlanRequest { strategy, search: request, .. } = &planning.request;
    let plan = textbook::plan(&planning.tables).or_else(|infeasible| {
        planning.rules_fail = true;
        if *strategy == Strategy::Textbook {
            return Err(PlanFault::Infeasible(infeasible));
        }
        without_textbook(&planning.tables, request).map_err(|lower_bound_s| match lower_bound_s {
            Some(_) => PlanFault::NotBelow(lower_bound_s),
            None => PlanFault::Infeasible(infeasible),
        })
    })?;
    planning.textbook = Some(plan);
    Ok(())
}

fn choose_layouts(planning: &mut Planning<'_>) -> Result<(), PlanFault> {
    let textbook = planning.textbook();
    let found =
        match planning.request.strategy {
            Strategy::Search => search(&planning.tables, textbook, &planning.request.search)
                .map_err(|refusal| match refusal {
                    Refusal::Infeasible(infeasible) => PlanFault::Infeasible(infeasible),
                    Refusal::OverCapacity(smallest, _) => PlanFault::OverCapacity(smallest),
                    Refusal::NotBelow(lower_bound_s) => PlanFault::NotBelow(lower_bound_s),
                })?,
            Strategy::Textbook => as_found(textbook, planning.request.search.capacity)?,
        };
    planning.found = Some(found);
    Ok(())
}

/// The textbook's plan as the chosen one, if it fits into memory. Its only known lower bound is 0.
fn as_found(textbook: &Plan, capacity: Option<f64>) -> Result<Found, PlanFault> {
    if capacity.is_some_and(|capacity| memory(&textbook.into()).peak_bytes > capacity) {
        return Err(PlanFault::OverCapacity(Box::new(textbook.clone())));
    }
    let optimality = Optimality::Bounded { lower_bound_s: 0.0 };
    Ok(Found::of(textbook, optimality))
}

#[expect(clippy::unnecessary_wraps, reason = "other passes may fail")]
fn insert_collectives(planning: &mut Planning<'_>) -> Result<(), PlanFault> {
    let mut plan = planning.found().plan.clone();
    liveness::charge_heaviest(&mut plan);
    let plan = ExpandedPlan::from(plan);
    debug_assert!(verify::plan(&plan).is_ok(), "{:?}\n{}", verify::plan(&plan), *plan);
    planning.plan = Some(plan);
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "other passes may fail")]
fn price(planning: &mut Planning<'_>) -> Result<(), PlanFault> {
    let refinement = planning.request.refinement;
    let plan = report(planning.plan(), refinement);
    let textbook = report(&planning.textbook().into(), refinement);
    planning.reports = Some(Reports { plan, textbook, rules_fail: planning.rules_fail });
    Ok(())
}
