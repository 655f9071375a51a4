//! The plan of a path.

use indexmap::IndexMap;
use shardwise_ir::ids::{OpId, ValueId};
use shardwise_ir::plan::{Materialization, Plan, Step, StepKind};

use crate::insert_collectives::placement::{closed, collective_step};
use crate::problem::{Choice, Decision, Problem, Root};
use crate::reshard::sharding_space::State;
use crate::search::memory::live_blocks::block::Action;

/// The plan in which a device takes these steps.
pub(super) fn plan<'s>(problem: &Problem<'_>, actions: impl Iterator<Item = &'s Action>) -> Plan {
    let mut declared: IndexMap<ValueId, State> = IndexMap::new();
    let mut steps = Vec::new();
    let mut first = Vec::new();
    for definition in &problem.definitions {
        first.push(if let Root::Fixed(state) = definition.root { Some(state) } else { None });
    }
    for action in actions {
        match *action {
            Action::Run { variable, choice } => {
                let variable = &problem.variables[variable];
                let choice = &variable.choices[choice];
                first[variable.result] = Some(choice.result);
                match variable.decides {
                    Decision::Declaration(value) => {
                        declared.insert(value, choice.result);
                    }
                    Decision::Operation(op) => steps.push(run(problem, op, choice, &first)),
                }
            }
            Action::Reshard { from, to } => {
                let value = problem.definitions[from.definition()].value;
                let edges = problem.table(value).space.edges(from.state());
                let edge = edges.iter().find(|edge| edge.to == to.state());
                let kind = &edge.expect("a path follows the steps of its table").kind;
                let (from, to) = (from.state(), to.state());
                steps.push(collective_step(problem.tables, value, from, to, kind));
            }
        }
    }
    Plan { program: closed(problem.tables, &declared), steps }
}

/// The step that runs an operation as chosen; what it does not look at is as it was `first`.
fn run(problem: &Problem<'_>, id: OpId, choice: &Choice, first: &[Option<State>]) -> Step {
    let op = &problem.program.ops[id];
    let material = |value: ValueId, state: State| Materialization {
        value,
        sharding: problem.table(value).space.sharding(state).clone(),
    };
    let first_of = |value: ValueId| {
        let definition = problem.definitions.iter().position(|of| of.value == value);
        definition.and_then(|definition| first[definition]).unwrap_or(0)
    };
    let looked_at = op.sharded_operands().len();
    let operands = op.operands.iter().enumerate().map(|(place, operand)| {
        let is_looked_at = place < looked_at;
        let state = if is_looked_at { choice.operands[place] } else { first_of(operand.value) };
        material(operand.value, state)
    });
    Step {
        kind: StepKind::Local(id),
        operands: operands.collect(),
        result: material(op.result, choice.result),
        repeat: op.repeat,
    }
}
