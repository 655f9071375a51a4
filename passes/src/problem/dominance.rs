//! Removes layouts that are dominated by another layout of the same operation.
//!
//! `L` is dominated by `L'` if, in any plan that uses `L`, it can be replaced by `L'` without
//! making the plan costlier: reshard the operands from the states that `L` reads to those that `L'`
//! reads, run `L'`, and reshard the result to the state that `L` produces,
//!
//! ```text
//! t(L') + Σ reshard(need L → need L') + reshard(result L' → result L) ≤ t(L)
//! ```
//!
//! where `t(L')` includes what its kernel reads more than with `L`, for its other operations.
//!
//! The steps added are valid for any producer, consumers and sharing, since they only extend trees
//! at nodes that the plan reaches anyway. Where two dominate each other (they are then equal in
//! price), the earlier one stays.

use rayon::prelude::*;

use crate::problem::kernel_reads::Changes;
use crate::problem::{Choice, Problem, Variable};
use crate::reshard::sharding_space::State;
use crate::solver::interrupt::Interrupt;
use crate::solver::weight::Weight;

/// Removes dominated layouts from every domain; where the time ends, those found until then.
pub fn prune(problem: &mut Problem<'_>, interrupt: &Interrupt) {
    prune_beside(problem, interrupt, &|_, _, _| Weight::ZERO);
}

/// The same where more depends on layouts than the problem says: `detour` is what that adds at most
/// where a definition is resharded from one state to another.
pub(crate) fn prune_beside(problem: &mut Problem<'_>, interrupt: &Interrupt, detour: &Detour<'_>) {
    let numbers = (0..problem.variables.len()).into_par_iter();
    let kept: Vec<Vec<Choice>> =
        numbers.map(|number| undominated(problem, number, interrupt, detour)).collect();
    for (variable, choices) in problem.variables.iter_mut().zip(kept) {
        variable.choices = choices;
    }
}

/// What is added where a definition is resharded from one state to another.
type Detour<'d> = dyn Fn(usize, State, State) -> Weight + Sync + 'd;

fn undominated(
    problem: &Problem<'_>,
    number: usize,
    interrupt: &Interrupt,
    detour: &Detour<'_>,
) -> Vec<Choice> {
    let variable = &problem.variables[number];
    let changes = Changes::of(problem, number);
    // Cheap operations first: they dominate most, and one comparison with a survivor is enough,
    // since domination is transitive.
    let mut order: Vec<usize> = (0..variable.choices.len()).collect();
    order.sort_by_key(|&i| (variable.choices[i].weight, i));
    let mut kept: Vec<usize> = Vec::new();
    for i in order {
        if interrupt.is_due() {
            return variable.choices.clone();
        }
        let choice = &variable.choices[i];
        let is_better = |&k: &usize| {
            let better = &variable.choices[k];
            dominates(problem, variable, (better, choice), changes.between(k, i), detour)
        };
        if !kept.iter().any(is_better) {
            kept.push(i);
        }
    }
    kept.sort_unstable();
    kept.into_iter().map(|i| variable.choices[i].clone()).collect()
}

fn dominates(
    problem: &Problem<'_>,
    variable: &Variable,
    (better, choice): (&Choice, &Choice),
    change_of_reads: Weight,
    detour: &Detour<'_>,
) -> bool {
    let mut price = better.weight + change_of_reads;
    let distance = |number: usize, from, to| {
        let definition = &problem.definitions[number];
        let own = problem.table(definition.value).distance(from, to);
        own.times(definition.multiplicity) + detour(number, from, to)
    };
    price = price + distance(variable.result, better.result, choice.result);
    for (k, &definition) in variable.operands.iter().enumerate() {
        if price > choice.weight {
            return false;
        }
        price = price + distance(definition, choice.operands[k], better.operands[k]);
    }
    price <= choice.weight && choice.weight < Weight::INFINITE
}
