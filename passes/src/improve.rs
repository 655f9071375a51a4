//! A good assignment where elimination could not finish: one variable at a time takes the best choice given the others, until none improves.
//! Only the sources that touch the variable are priced again. The result is an upper bound and nothing more; the proof is elsewhere.

use std::time::Instant;

use crate::factor::source_price;
use crate::problem::Problem;
use crate::reshard::Trees;
use crate::weight::Weight;

/// Improves `assignment` in place until a local optimum or the deadline.
pub fn descend(problem: &Problem<'_>, assignment: &mut [usize], trees: &mut [Trees<'_>], deadline: Option<Instant>) {
    let touched = sources_of(problem);
    let late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
    let mut improved = true;
    while improved && !late() {
        improved = false;
        for variable in 0..problem.variables.len() {
            improved |= improve(problem, assignment, trees, variable, &touched[variable]);
            if late() {
                return;
            }
        }
    }
}

fn improve(problem: &Problem<'_>, assignment: &mut [usize], trees: &mut [Trees<'_>], variable: usize, touched: &[usize]) -> bool {
    let before = assignment[variable];
    let mut best = (local_price(problem, assignment, trees, variable, touched), before);
    for choice in 0..problem.variables[variable].choices.len() {
        if choice == before {
            continue;
        }
        assignment[variable] = choice;
        let price = local_price(problem, assignment, trees, variable, touched);
        if price < best.0 {
            best = (price, choice);
        }
    }
    assignment[variable] = best.1;
    best.1 != before
}

fn local_price(problem: &Problem<'_>, assignment: &[usize], trees: &mut [Trees<'_>], variable: usize, touched: &[usize]) -> Weight {
    let own = problem.variables[variable].choices[assignment[variable]].weight;
    let around = touched.iter().map(|&source| {
        let source = &problem.sources[source];
        source_price(problem, source, assignment, &mut trees[problem.tables.number(source.value)])
    });
    own + around.sum()
}

fn sources_of(problem: &Problem<'_>) -> Vec<Vec<usize>> {
    let mut touched = vec![Vec::new(); problem.variables.len()];
    for (number, source) in problem.sources.iter().enumerate() {
        for variable in problem.scope(source) {
            touched[variable].push(number);
        }
    }
    touched
}
