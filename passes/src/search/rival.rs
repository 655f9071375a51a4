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

use std::collections::VecDeque;

use indexmap::{IndexMap, IndexSet};
use rustc_hash::FxBuildHasher;
use shardwise_ir::ids::{DimId, RepeatId, ValueId};
use shardwise_ir::plan::{Plan, StepKind};
use shardwise_ir::program::{Op, OpKind, Phase, Program};
use shardwise_ir::sharding::{AxisRef, Sharding, Unreduced};

use crate::cost::report;
use crate::insert_collectives::plan;
use crate::problem::{Choice, Decision, Problem, Variable};
use crate::reshard::tables::Tables;
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
    let (program, tables) = (problem.program, problem.tables);
    let mut counterparts = Counterparts::new(plan, program);
    for variable in &mut problem.variables {
        let (kept, is_free) = match variable.decides {
            Decision::Operation(op) => {
                let op = &program.ops[op];
                let mut values = op.operands.iter().map(|of| of.value).chain([op.result]);
                let is_free = values.any(|value| is_about(program, value, about));
                (counterparts.of(tables, op), is_free)
            }
            Decision::Declaration(value) => {
                let is_free = is_about(program, value, about);
                (counterparts.of_declaration(tables, value), is_free)
            }
        };
        if let Some((operands, result)) = kept.filter(|_| !is_free) {
            let is_kept =
                |choice: &Choice| choice.operands.starts_with(&operands) && choice.result == result;
            keep_one(variable, is_kept);
        }
    }
}

/// Removes all choices but the first of those that are kept, if there are any.
fn keep_one(variable: &mut Variable, is_kept: impl Fn(&Choice) -> bool) {
    if let Some(kept) = variable.choices.iter().position(is_kept) {
        variable.choices = vec![variable.choices.swap_remove(kept)];
    }
}

/// Whether a value is one of these, or is a part of one: `dx.3` of `dx`.
fn is_about(program: &Program, value: ValueId, names: &IndexSet<String>) -> bool {
    let name = &program.values[value].name;
    let is_number = |end: &str| end.bytes().all(|byte| byte.is_ascii_digit());
    let whole = name.rsplit_once('.').filter(|(_, end)| is_number(end)).map(|(whole, _)| whole);
    names.contains(name) || whole.is_some_and(|whole| names.contains(whole))
}

/// What operations of two forms have in common: those that are alike follow each other in the same
/// order in both. Numbers of parts differ after the change.
type Likeness = (std::mem::Discriminant<OpKind>, Vec<Vec<DimId>>, Option<RepeatId>, Phase);

fn likeness(program: &Program, op: &Op) -> Likeness {
    let values = op.operands.iter().map(|of| of.value).chain([op.result]);
    let dims = values.map(|value| program.values[value].dims.clone()).collect();
    (std::mem::discriminant(&op.kind), dims, op.repeat, op.phase)
}

/// The operations of a plan's program, for those that are alike in another one.
struct Counterparts<'p> {
    plan: &'p Plan,
    /// The axes that each of its own is in the other program.
    axes: Vec<Vec<AxisRef>>,
    /// The steps that are left of operations that are alike, in order.
    left: IndexMap<Likeness, VecDeque<usize>, FxBuildHasher>,
}

/// The states of what an operation reads and gives.
type States = (Vec<usize>, usize);

impl<'p> Counterparts<'p> {
    fn new(plan: &'p Plan, program: &Program) -> Self {
        let known = &plan.program.mesh;
        let named = |name: &str| program.mesh.named(name).unwrap_or_default();
        let axes = known.axes.iter().map(|axis| named(&axis.name));
        let axes = axes.map(|axes| axes.into_iter().map(AxisRef::whole).collect()).collect();
        let mut left: IndexMap<Likeness, VecDeque<usize>, FxBuildHasher> = IndexMap::default();
        for (number, step) in plan.steps.iter().enumerate() {
            if let StepKind::Local(op) = step.kind {
                let alike = likeness(&plan.program, &plan.program.ops[op]);
                left.entry(alike).or_default().push_back(number);
            }
        }
        Self { plan, axes, left }
    }

    /// The states of the counterpart of an operation, if there is one.
    fn of(&mut self, tables: &Tables<'_>, op: &Op) -> Option<States> {
        let number = self.left.get_mut(&likeness(tables.program, op))?.pop_front()?;
        let step = &self.plan.steps[number];
        let read = step.operands.iter().zip(op.sharded_operands());
        let state = |value, sharding| tables.of(value).space.find(&self.renamed(sharding));
        let operands: Option<Vec<usize>> =
            read.map(|(known, operand)| state(operand.value, &known.sharding)).collect();
        operands.zip(state(op.result, &step.result.sharding))
    }

    /// The state of the declared value of the same name, if there is one.
    fn of_declaration(&self, tables: &Tables<'_>, value: ValueId) -> Option<States> {
        let name = &tables.program.values[value].name;
        let known = self.plan.program.values.iter().find(|known| known.name == *name)?;
        let sharding = known.declared_sharding.as_ref()?.exact()?;
        Some((Vec::new(), tables.of(value).space.find(&self.renamed(&sharding))?))
    }

    /// A sharding of the plan on the axes of the other program.
    fn renamed(&self, sharding: &Sharding) -> Sharding {
        let named = |axes: &[AxisRef]| -> Vec<AxisRef> {
            axes.iter().flat_map(|axis| &self.axes[axis.axis().index()]).copied().collect()
        };
        let unreduced = Unreduced::new(sharding.unreduced.kind(), named(sharding.unreduced.axes()));
        Sharding { dims: sharding.dims.iter().map(|axes| named(axes).into()).collect(), unreduced }
    }
}
