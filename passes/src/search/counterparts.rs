//! The operations of a plan in another form of its program.

use std::collections::VecDeque;

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use shardwise_ir::ids::{DimId, RepeatId, ValueId};
use shardwise_ir::plan::{Plan, StepKind};
use shardwise_ir::program::{Op, OpKind, Phase, Program};
use shardwise_ir::sharding::{AxisRef, Sharding, Unreduced};

use crate::problem::{Choice, Decision, Problem, Variable};
use crate::reshard::tables::Tables;

/// What operations of two forms have in common: those that are alike follow each other in the same
/// order in both. Numbers of parts differ after the change.
type Likeness = (std::mem::Discriminant<OpKind>, Vec<Vec<DimId>>, Option<RepeatId>, Phase);

fn likeness(program: &Program, op: &Op) -> Likeness {
    let values = op.operands.iter().map(|of| of.value).chain([op.result]);
    let dims = values.map(|value| program.values[value].dims.clone()).collect();
    (std::mem::discriminant(&op.kind), dims, op.repeat, op.phase)
}

/// The operations of a plan's program, for those that are alike in another one.
pub(super) struct Counterparts<'p> {
    plan: &'p Plan,
    /// The axes that each of its own is in the other program.
    axes: Vec<Vec<AxisRef>>,
    /// The steps that are left of operations that are alike, in order.
    left: IndexMap<Likeness, VecDeque<usize>, FxBuildHasher>,
}

/// The states of what an operation reads and gives.
type States = (Vec<usize>, usize);

/// The choices of a problem that a plan of its program makes; nothing where they are not all there.
pub(super) fn assignment(problem: &Problem<'_>, plan: &Plan) -> Option<Vec<usize>> {
    let mut counterparts = Counterparts::new(plan, problem.program);
    problem.variables.iter().map(|variable| counterparts.choice(problem, variable)).collect()
}

impl<'p> Counterparts<'p> {
    pub(super) fn new(plan: &'p Plan, program: &Program) -> Self {
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

    /// The choice of a variable that the plan makes, if it has it. Asked for one variable after
    /// another.
    pub(super) fn choice(&mut self, problem: &Problem<'_>, variable: &Variable) -> Option<usize> {
        let (operands, result) = match variable.decides {
            Decision::Operation(op) => self.of(problem.tables, &problem.program.ops[op]),
            Decision::Declaration(value) => self.of_declaration(problem.tables, value),
        }?;
        let is_taken =
            |choice: &Choice| choice.operands.starts_with(&operands) && choice.result == result;
        variable.choices.iter().position(is_taken)
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
