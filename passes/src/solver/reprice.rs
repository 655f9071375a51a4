//! The problem solved again and again at other prices of its choices, as a limit on memory asks
//! for.
//!
//! Where elimination closes, each solution is exact. Where it does not, the dual ([`crate::solver::dual`])
//! bounds it: its prices are kept from one solution to the next, so that a few sweeps are enough,
//! and the assignment is decoded from them ([`crate::solver::decode`]). Either way the work is bounded by
//! counts.

use crate::search::problem::Problem;
use crate::solver::anytime;
use crate::solver::decode::Decoder;
use crate::solver::dreyfus_wagner::Trees;
use crate::solver::dual::Dual;
use crate::solver::eliminate::{Limits, Minimum};
use crate::solver::marginals::Metric;
use crate::solver::tabulate::{Prices, Unary, unary};
use crate::solver::weight::Weight;

/// Tables a good deal smaller than the unlimited search's: there are many solutions.
const LIMITS: Limits = Limits { table: 1 << 19, work: 1 << 24 };

/// Sweeps of the dual for the first solution, and for later ones.
const SWEEPS: (usize, usize) = (24, 3);

/// How each solution is found.
pub(crate) enum Solver<'p, 'a> {
    /// By elimination.
    Exact(Prices),
    /// By the dual, and an assignment decoded from its prices.
    Bounded { dual: Box<Dual<'p, 'a>>, is_first: bool },
}

impl<'p, 'a> Solver<'p, 'a> {
    /// The exact one, if it can be had.
    pub(crate) fn new(
        problem: &'p Problem<'a>,
        metrics: &'p [Metric],
        trees: &mut [Trees<'_>],
    ) -> Self {
        let prices = Prices::whole(problem, trees, LIMITS);
        match prices.filter(|prices| prices.minimise_exactly(&unary(problem)).is_some()) {
            Some(prices) => Self::Exact(prices),
            None => Self::Bounded { dual: Box::new(Dual::new(problem, metrics)), is_first: true },
        }
    }

    /// How many solutions may be asked for, where `most` exact ones may be.
    pub(crate) fn solutions(&self, most: usize) -> usize {
        match self {
            Self::Exact(_) => most,
            Self::Bounded { .. } => (most / 8).clamp(1, 60),
        }
    }

    /// The least total at these prices of choices, or a bound of it and a good assignment.
    pub(crate) fn minimise(&mut self, charged: &Unary) -> Minimum {
        match self {
            Self::Exact(prices) => prices.minimise(charged),
            Self::Bounded { dual, is_first } => {
                let before = dual.work;
                dual.charge(charged);
                let sweeps = if std::mem::take(is_first) { SWEEPS.0 } else { SWEEPS.1 };
                let bound_s = (0..sweeps).map(|_| dual.sweep()).last().unwrap_or(0.0);
                let bound =
                    if bound_s.is_finite() { Weight::seconds(bound_s) } else { Weight::INFINITE };
                let assignment = Decoder::new(dual)
                    .run()
                    .unwrap_or_else(|| anytime::nearest_to_the_bound(&dual.beyond));
                Minimum { bound, exact: false, assignment, looks: dual.work - before }
            }
        }
    }
}
