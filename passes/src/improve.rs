//! A good assignment where elimination could not finish: one variable at a time takes the best choice given the others, until none improves.
//! The work is limited by a count, not by a clock, so that the same program gives the same plan; a caller's deadline comes on top. Only the sources that touch the variable are priced again. The result is an upper bound and nothing more; the proof is elsewhere.

use std::time::Instant;

use crate::factor::source_price;
use crate::problem::Problem;
use crate::reshard::Trees;
use crate::weight::Weight;

/// Uses looked at before the descent stops, about a second's worth.
const BUDGET: usize = 3_000_000;

/// Improves `assignment` in place until a local optimum or the deadline.
pub fn descend(problem: &Problem<'_>, assignment: &mut [usize], trees: &mut [Trees<'_>], deadline: Option<Instant>) {
    let touched = sources_of(problem);
    let late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
    let mut improved = true;
    let mut spent = 0;
    while improved && !late() {
        improved = false;
        for (variable, touched) in touched.iter().enumerate() {
            let uses: usize = touched.iter().map(|&source| 1 + problem.sources[source].demands.len()).sum();
            spent += uses * problem.variables[variable].choices.len();
            if spent > BUDGET || late() {
                return;
            }
            improved |= improve(problem, assignment, trees, variable, touched);
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
        source_price(problem, source, assignment, &mut trees[source.table])
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
