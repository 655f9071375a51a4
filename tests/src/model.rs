//! Bounds and rounding of the solver alone on a search problem, for tests that compare them with
//! other methods.

use shardwise_ir::dataflow::Analyzed;
use shardwise_passes::Problem;
use shardwise_passes::Tables;
use shardwise_passes::collective::Refinement;
use shardwise_passes::solver::{Interrupt, Limits, Model, TableLimits, Weight, minimize};

/// No elimination, of however few choices.
pub const NO_ELIMINATION: Limits = Limits {
    elimination: TableLimits { table: 0, term: 0, work: 0 },
    heuristic: TableLimits { table: 0, term: 0, work: 0 },
    proof: TableLimits { table: 0, term: 0, work: 0 },
    capacity: 0,
    below: Weight::INFINITE,
    enough: 0.0,
    interrupt: Interrupt::NEVER,
};

/// How far two sums of as many seconds may lie apart by rounding: each part is a whole number of
/// femtoseconds.
pub fn rounding_s(seconds: f64) -> f64 {
    1e-9 * seconds + 1e-13
}

/// A bound of a problem and the price of the best assignment decoded, both in seconds.
pub struct Bounded {
    /// The lower bound.
    pub bound_s: f64,
    /// Infinite if no assignment was found.
    pub found_s: f64,
}

/// Runs sweeps of the dual and rounding without elimination.
pub fn bounded(model: &Model) -> Bounded {
    let solution = minimize(model, &NO_ELIMINATION);
    let found_s =
        if solution.value.is_finite() { solution.value.as_seconds() } else { f64::INFINITY };
    Bounded { bound_s: solution.bound.as_seconds(), found_s }
}

/// The same of a program, where a second of compute counts `compute`; nothing if some operation has
/// no layout.
pub fn bounded_program(program: &Analyzed, compute: f64) -> Option<Bounded> {
    let tables = Tables::new(program, Refinement::default());
    let problem = Problem::new(&tables, compute);
    problem
        .variables
        .iter()
        .all(|variable| !variable.choices.is_empty())
        .then(|| bounded(&problem.model()))
}
