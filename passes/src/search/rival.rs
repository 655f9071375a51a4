//! Whether a form of a program may beat the plan of another form, its *rival*: the same sums in
//! another grouping, the same mesh with an axis in parts.
//!
//! To plan every form takes as long each time as to plan the program, and most forms gain nothing.
//! What they gain shows near the change. So the form is planned there first: operations that both
//! forms have keep the layouts of the rival, those on the values that the change is about are free,
//! and so are all reshards. That problem is small. Only if its minimum is below the rival, the
//! whole form is planned; its search ends when no plan can be below the rival any more.
//!
//! What the two prices compare is a plan without a limit on memory: within a limit, values are
//! gathered again, in both forms alike.
//!
//! Alternatives: *a bound of the form* that knows only how much its operations compute is far below
//! all plans that communicate, and one that knows more needs the search; *a full search with less
//! work* makes worse decisions everywhere, and still took most of the time; *no search of longer
//! programs* would leave out those whose heads or experts need a part of an axis.

use indexmap::IndexSet;
use shardwise_ir::ids::ValueId;
use shardwise_ir::plan::Plan;
use shardwise_ir::program::Program;

use crate::cost::report;
use crate::insert_collectives::plan;
use crate::problem::{Decision, Problem};
use crate::reshard::tables::Tables;
use crate::search::counterparts::Counterparts;
use crate::search::objective::Objective;
use crate::search::outcome::Request;
use crate::solver::dreyfus_wagner::Trees;
use crate::solver::minimize::{Limits, minimize_with};
use crate::solver::weight::Weight;

/// The share of the counts of work for the plan near the change.
const WORK: f64 = 0.05;

/// The share of a time that is rounding.
const ROUNDING: f64 = 1e-9;

/// The plan of another form of a program, which this one has to beat.
#[derive(Clone, Debug)]
pub struct Rival {
    /// The plan, composites not yet expanded.
    pub plan: Plan,
    /// The sum of steps to stay below near the change, were memory unlimited.
    pub unlimited_s: f64,
    /// The names of the values that the difference of the forms is about.
    pub about: IndexSet<String>,
}

impl Rival {
    /// Whether a plan that differs from it near the change alone is cheaper; also where too much
    /// is near to know.
    pub(crate) fn may_be_beaten(&self, tables: &Tables<'_>, request: &Request) -> bool {
        let compute = request.objective.compute();
        let mut problem = Problem::new(tables, compute);
        keep_layouts(&mut problem, &self.plan, &self.about);
        let interrupt = request.interrupt.with_work(WORK).unheard();
        let least = minimum(&problem, Limits { interrupt, ..Limits::default() });
        least.is_none_or(|least| least.as_seconds() < self.unlimited_s * (1.0 - ROUNDING))
    }
}

/// The sum of the steps of a plan's layouts with the cheapest reshards, were memory unlimited.
pub(crate) fn unlimited_s(tables: &Tables<'_>, plan: &Plan, objective: Objective) -> f64 {
    let mut problem = Problem::new(tables, objective.compute());
    keep_layouts(&mut problem, plan, &IndexSet::new());
    let least = minimum(&problem, Limits::default());
    least.map_or(f64::INFINITY, Weight::as_seconds)
}

/// The least sum of steps of a problem, or nothing where the search finds no plan.
fn minimum(problem: &Problem<'_>, limits: Limits) -> Option<Weight> {
    let (model, tables) = (problem.model(), problem.tables);
    let mut trees = model.tree_tables();
    let mut price = |assignment: &[usize], trees: &mut [Trees<'_>]| {
        let plan = plan::plan(problem, assignment, trees);
        report::weight(&(&plan).into(), problem.compute, &tables.cost_model)
    };
    let found = minimize_with(&model, &mut trees, &limits, Weight::INFINITE, &mut price);
    found.assignment.map(|_| found.value)
}

/// Leaves those operations that `plan` has as well, and that are not about any of the values, the
/// layout that they have there.
fn keep_layouts(problem: &mut Problem<'_>, plan: &Plan, about: &IndexSet<String>) {
    let program = problem.program;
    let mut counterparts = Counterparts::new(plan, program);
    let kept: Vec<Option<usize>> = problem
        .variables
        .iter()
        .map(|variable| {
            let is_free = decides_about(program, variable.decides, about);
            counterparts.choice(problem, variable).filter(|_| !is_free)
        })
        .collect();
    for (variable, kept) in problem.variables.iter_mut().zip(kept) {
        if let Some(kept) = kept {
            variable.choices = vec![variable.choices.swap_remove(kept)];
        }
    }
}

/// Whether a decision is on one of these values.
fn decides_about(program: &Program, decides: Decision, names: &IndexSet<String>) -> bool {
    match decides {
        Decision::Operation(op) => {
            let op = &program.ops[op];
            let mut values = op.operands.iter().map(|of| of.value).chain([op.result]);
            values.any(|value| is_about(program, value, names))
        }
        Decision::Declaration(value) => is_about(program, value, names),
    }
}

/// Whether a value is one of these, or is a part of one: `dx.3` of `dx`.
fn is_about(program: &Program, value: ValueId, names: &IndexSet<String>) -> bool {
    let name = &program.values[value].name;
    let is_number = |end: &str| end.bytes().all(|byte| byte.is_ascii_digit());
    let whole = name.rsplit_once('.').filter(|(_, end)| is_number(end)).map(|(whole, _)| whole);
    names.contains(name) || whole.is_some_and(|whole| names.contains(whole))
}
