//! Breaks ties between equally good plans, and finds alternatives for open declarations.
//!
//! The total order: time, then number of steps, then the textbook's layout, then the first in the
//! order of enumeration (mesh axes in declaration order, indices in order of appearance). Names
//! play no part.

use shardwise_ir::plan::{Materialization, Plan, StepKind};
use shardwise_ir::sharding::{AxisList, Sharding};

use crate::problem::{Choice, Decision, Problem, Variable};
use crate::solver::minimize::Solution;

/// The limit of open declarations for which alternatives are searched.
const MOST_OPEN: usize = 8;

/// For each open declaration, another sharding that some equally cheap plan starts from: the same
/// minimum without the one chosen. None where the plan is not proven to be the cheapest.
pub(crate) fn alternatives(problem: &Problem<'_>, solution: &Solution) -> Vec<Materialization> {
    let Some(assignment) = &solution.assignment else { return Vec::new() };
    let is_open = |variable: &usize| problem.variables[*variable].decides.operation().is_none();
    let open: Vec<usize> =
        (0..problem.variables.len()).filter(is_open).take(MOST_OPEN + 1).collect();
    if open.len() > MOST_OPEN {
        return Vec::new();
    }
    let other = |variable: usize| {
        let Variable { result: gives, choices, .. } = &problem.variables[variable];
        let value = problem.definitions[*gives].value;
        let sharding = |choice: usize| problem.table(value).space.sharding(choices[choice].result);
        let taken = sharding(assignment[variable]);
        let other =
            solution.alternative(variable, |choice| is_reordering(sharding(choice), taken))?;
        Some(Materialization { value, sharding: sharding(other).clone() })
    };
    open.into_iter().filter_map(other).collect()
}

/// Whether two shardings split the same dimensions over the same axes, in any order.
fn is_reordering(a: &Sharding, b: &Sharding) -> bool {
    let same =
        |a: &AxisList, b: &AxisList| a.len() == b.len() && a.iter().all(|axis| b.contains(axis));
    a.dims.iter().zip(&b.dims).all(|(a, b)| same(a, b))
}

/// Puts the textbook's layout of every operation first, so that it wins ties.
pub(crate) fn prefer(problem: &mut Problem<'_>, textbook: &Plan) {
    let program = problem.program;
    let tables = problem.tables;
    let mut layouts = vec![None; program.ops.len()];
    for step in &textbook.steps {
        if let StepKind::Local(op) = step.kind {
            let looked_at = step.operands.iter().take(program.ops[op].sharded_operands().len());
            let needs: Option<Vec<_>> =
                looked_at.map(|m| tables.of(m.value).space.find(&m.sharding)).collect();
            let gives = tables.of(step.result.value).space.find(&step.result.sharding);
            layouts[op.index()] = needs.zip(gives);
        }
    }
    for variable in &mut problem.variables {
        let preferred = match variable.decides {
            Decision::Operation(op) => layouts[op.index()].clone(),
            Decision::Declaration(value) => Some((Vec::new(), tables.declared(value))),
        };
        let is_preferred = |choice: &Choice| {
            preferred.as_ref().is_some_and(|(needs, gives)| {
                choice.operands.starts_with(needs) && choice.result == *gives
            })
        };
        if let Some(i) = variable.choices.iter().position(is_preferred) {
            variable.choices[..=i].rotate_right(1);
        }
    }
}
