//! The plan of a path.

use indexmap::IndexMap;
use shardwise_ir::ids::ValueId;
use shardwise_ir::plan::Plan;

use crate::insert_collectives::placement::{collective_step, plan_of};
use crate::insert_collectives::plan::local_step;
use crate::problem::{Decision, Problem, Root};
use crate::reshard::sharding_space::State;
use crate::search::memory::live_blocks::block::Action;

/// The plan in which a device takes these steps.
pub(super) fn plan<'s>(problem: &Problem<'_>, actions: impl Iterator<Item = &'s Action>) -> Plan {
    let mut declared: IndexMap<ValueId, State> = IndexMap::new();
    let mut steps = Vec::new();
    let mut first: IndexMap<ValueId, State> = IndexMap::new();
    for definition in &problem.definitions {
        if let Root::Fixed(state) = definition.root {
            first.insert(definition.value, state);
        }
    }
    for action in actions {
        match *action {
            Action::Run { variable, choice } => {
                let variable = &problem.variables[variable];
                let choice = &variable.choices[choice];
                first.insert(problem.definitions[variable.result].value, choice.result);
                match variable.decides {
                    Decision::Declaration(value) => {
                        declared.insert(value, choice.result);
                    }
                    Decision::Operation(op) => {
                        steps.push(local_step(problem, op, choice, |value| {
                            first.get(&value).copied().unwrap_or(0)
                        }));
                    }
                }
            }
            Action::Reshard { from, to } => {
                let value = problem.definitions[from.definition()].value;
                let mut edges = problem.table(value).space.edges(from.state());
                let edge = edges.find(|edge| edge.to == to.state());
                let kind = &edge.expect("a path follows the steps of its table").kind;
                let (from, to) = (from.state(), to.state());
                steps.push(collective_step(problem.tables, value, from, to, kind));
            }
        }
    }
    plan_of(problem.tables, &declared, steps)
}
