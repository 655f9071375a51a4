//! Large-neighbourhood search (Shaw 1998): a few hundred variables around one are free, all others
//! stay as in the best assignment, and the rest is a small network that the same search solves.
//!
//! Of two centres one is drawn from all variables, the other from those whose choice differs from
//! that of the linear relaxation, rounded (as in relaxation-induced neighbourhoods; Danna, Rothberg
//! and Le Pape 2005). Sizes alternate: small ones are cheap, large ones find what those cannot.

use std::collections::VecDeque;
use std::sync::Arc;

use rayon::prelude::*;

use crate::solver::capacity::network::{Moment, Network, Table};
use crate::solver::capacity::search::{Effort, MOST_NUMBERS, Search};

/// Networks of fewer variables are left to branch and bound.
const SMALL: usize = 300;

/// The sizes of neighbourhoods, one after another; two of each are searched side by side.
const SIZES: [usize; 5] = [60, 120, 250, 500, 1000];

/// Variables for each pair of neighbourhoods without success before the search goes on otherwise.
const PATIENCE: usize = 10;

/// What one neighbourhood may spend: work for each of its variables, and nodes.
const WORK: usize = 1_000_000;
const NODES: usize = 6;

/// Improves the best assignment.
pub(crate) fn improve(search: &mut Search<'_>) {
    let variables = search.whole.variables().count();
    if !search.effort.neighbourhoods || variables < SMALL {
        return;
    }
    let mut draws = Draws(1);
    let patience = variables / PATIENCE;
    let (mut idle, mut number) = (0, 0);
    while idle < patience && !search.is_over() {
        let Some(best) = search.best.clone() else { return };
        let before = search.value;
        let doubtful = doubtful(search, &best);
        let centres = [draws.below(search.whole.unary.len()), draws.of(&doubtful)];
        let size = SIZES[number % SIZES.len()];
        let (whole, cutoff) = (&search.whole, search.value);
        let interrupt = search.effort.interrupt;
        let found: Vec<(Option<Vec<usize>>, usize)> = centres
            .into_par_iter()
            .map(|centre| {
                let effort = Effort {
                    work: WORK * size,
                    nodes: NODES,
                    numbers: MOST_NUMBERS,
                    neighbourhoods: false,
                    interrupt,
                };
                let free = ball(whole, centre, size);
                neighbour(whole, &best, &free, cutoff, effort)
            })
            .collect();
        for (found, work) in found {
            search.spend(work);
            if let Some(assignment) = found {
                search.offer(assignment);
            }
        }
        number += 1;
        idle = if search.value < before { 0 } else { idle + 1 };
    }
}

/// The variables in whose choices the assignment rounded from the messages differs from the best.
fn doubtful(search: &Search<'_>, best: &[usize]) -> Vec<usize> {
    let whole = &search.whole;
    let differs = |rounded: &Vec<usize>| {
        whole.variables().filter(|&v| rounded[v] != best[v]).collect::<Vec<usize>>()
    };
    let found = search.rounded.as_ref().map(differs).unwrap_or_default();
    if found.is_empty() { whole.variables().collect() } else { found }
}

/// The best assignment in which only the `free` variables differ, if it costs less than `value`;
/// and the work it took.
fn neighbour(
    whole: &Network,
    best: &[usize],
    free: &[bool],
    value: f64,
    effort: Effort<'_>,
) -> (Option<Vec<usize>>, usize) {
    let mut presolved = with_fixed(whole, best, free);
    presolved.presolve(&|| effort.interrupt.is_due());
    if presolved.is_infeasible {
        return (None, 0);
    }
    let (network, left) = presolved.compact();
    let mut accept = |_: &[usize], cost: f64| Some(cost);
    let mut search = Search::new(network, value, effort, &mut accept);
    search.run();
    let work = effort.work - search.effort.work;
    let found = search.best.map(|assignment| {
        let mut all = vec![0; presolved.unary.len()];
        left.iter().zip(assignment).for_each(|(&variable, choice)| all[variable] = choice);
        let decoded = presolved.decode(&all);
        let chosen = best.iter().zip(free).zip(decoded);
        chosen.map(|((&before, &is_free), now)| if is_free { now } else { before }).collect()
    });
    (found, work)
}

/// The network of the `free` variables beside the choices of all others.
fn with_fixed(whole: &Network, best: &[usize], free: &[bool]) -> Network {
    let unary = whole.unary.iter().zip(free);
    let unary: Vec<Vec<f64>> =
        unary.map(|(costs, &is_free)| if is_free { costs.clone() } else { Vec::new() }).collect();
    let fixed = || whole.variables().filter(|&v| !free[v]);
    let demanded = fixed().flat_map(|v| {
        whole.demands[v].iter().map(move |demand| (demand.live.clone(), demand.numbers[best[v]]))
    });
    let over = whole.over(demanded).into_iter().zip(&whole.moments);
    let moments = over.map(|(over, moment)| Moment { id: moment.id, slack: -over }).collect();
    let constant = whole.constant + fixed().map(|v| whole.unary[v][best[v]]).sum::<f64>();
    let mut part = Network::new(unary, moments, constant);
    part.is_infeasible = false;
    for variable in (0..free.len()).filter(|&v| free[v]) {
        part.demands[variable] = Arc::clone(&whole.demands[variable]);
    }
    for table in whole.tables.iter().filter(|table| !table.costs.is_empty()) {
        let Table { ends: [a, b], costs } = table;
        let columns = whole.size(*b);
        match (free[*a], free[*b]) {
            (true, true) => part.insert_table([*a, *b], Arc::clone(costs)),
            (true, false) => {
                let column = costs.iter().skip(best[*b]).step_by(columns);
                part.unary[*a].iter_mut().zip(column).for_each(|(sum, cost)| *sum += cost);
            }
            (false, true) => {
                let row = &costs[best[*a] * columns..(best[*a] + 1) * columns];
                part.unary[*b].iter_mut().zip(row).for_each(|(sum, cost)| *sum += cost);
            }
            (false, false) => part.constant += costs[best[*a] * columns + best[*b]],
        }
    }
    part
}

/// The variables nearest to a centre.
fn ball(network: &Network, centre: usize, size: usize) -> Vec<bool> {
    let mut free = vec![false; network.unary.len()];
    let mut queue = VecDeque::from([centre]);
    let mut count = 0;
    while let Some(variable) = queue.pop_front() {
        if network.is_gone(variable)
            || count == size
            || std::mem::replace(&mut free[variable], true)
        {
            continue;
        }
        count += 1;
        let tables = network.tables_of[variable].iter();
        queue.extend(tables.map(|&table| network.other(table, variable)));
    }
    free
}

/// Pseudo-random numbers, the same on every machine (Knuth's linear congruential generator).
struct Draws(u64);

impl Draws {
    /// One of several.
    fn of(&mut self, several: &[usize]) -> usize {
        several[self.below(several.len())]
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}
