//! What a search problem's assignments cost, and what the dual alone says of it: for tests that
//! hold these against other ways to solve the problem.

use shardwise_ir::program::Program;
use shardwise_passes::cost::collective::Refinement;
use shardwise_passes::reshard::tables::Tables;
use shardwise_passes::search::problem::Problem;
use shardwise_passes::solver::decode::Decoder;
use shardwise_passes::solver::dreyfus_wagner::Trees;
use shardwise_passes::solver::dual::Dual;
use shardwise_passes::solver::factor::source_price;
use shardwise_passes::solver::marginals::Metric;
use shardwise_passes::solver::weight::Weight;

/// Times that an assignment is decoded, and sweeps before each.
const ROUNDS: usize = 3;
const SWEEPS: usize = 3;

/// What an assignment costs in the model.
pub fn price(problem: &Problem<'_>, assignment: &[usize], trees: &mut [Trees<'_>]) -> Weight {
    let own = problem
        .variables
        .iter()
        .zip(assignment)
        .map(|(variable, &choice)| variable.choices[choice].weight);
    let own: Weight = own.sum();
    let around = problem.sources.iter().map(|source| {
        source_price(problem, source, assignment, &mut trees[problem.tables.number(source.value)])
    });
    problem.fixed + own + around.sum()
}

/// How far two sums of as many seconds may lie apart by rounding: each part is a whole number of
/// femtoseconds.
pub fn rounding_s(seconds: f64) -> f64 {
    1e-9 * seconds + 1e-13
}

/// A bound of a problem and the price of the best assignment decoded, both in seconds.
pub struct Bounded {
    /// Nothing is cheaper.
    pub bound_s: f64,
    /// Infinite if no assignment was found.
    pub found_s: f64,
}

/// What sweeps of the dual and decoding find without any elimination, each assignment dropping what
/// costs more than it for the sweeps behind it.
pub fn bounded(problem: &Problem<'_>) -> Bounded {
    let metrics: Vec<Metric> =
        problem.tables.all.iter().map(|table| Metric::new(table.graph())).collect();
    let mut trees: Vec<Trees<'_>> =
        problem.tables.all.iter().map(|table| Trees::new(table.graph())).collect();
    let mut dual = Dual::new(problem, &metrics);
    let mut highest_s = 0.0_f64;
    for _ in 0..ROUNDS {
        for _ in 0..SWEEPS {
            highest_s = highest_s.max(dual.sweep().min(dual.known_s));
        }
        let found = Decoder::new(&mut dual).run().map(|found| price(problem, &found, &mut trees));
        let found_s =
            found.filter(|found| found.is_finite()).map_or(f64::INFINITY, Weight::as_seconds);
        dual.known_s = dual.known_s.min(found_s);
    }
    Bounded { bound_s: highest_s, found_s: dual.known_s }
}

/// The same of a program, where a second of compute counts `compute`; nothing if some operation has
/// no layout.
pub fn bounded_program(program: &Program, compute: f64) -> Option<Bounded> {
    let tables = Tables::new(program, Refinement::default());
    let problem = Problem::new(&tables, compute);
    problem.variables.iter().all(|variable| !variable.choices.is_empty()).then(|| bounded(&problem))
}
