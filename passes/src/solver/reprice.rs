//! Minimises one model repeatedly under changing unary costs: the subproblem of a Lagrangian
//! relaxation, whose multipliers change the costs of single choices.
//!
//! Where elimination is exact, so is each solution. Where it is not, the dual
//! ([`crate::solver::dual`]) bounds it: its prices are kept from one solution to the next, so that
//! a few sweeps are enough, and the assignment is rounded from them
//! ([`crate::solver::primal_heuristic`]). Either way the work is bounded by counts.

use crate::solver::anytime::nearest_to_the_bound;
use crate::solver::dreyfus_wagner::Trees;
use crate::solver::dual::Dual;
use crate::solver::eliminate::{Minimum, TableLimits};
use crate::solver::interrupt::Interrupt;
use crate::solver::model::{Model, UnaryCosts};
use crate::solver::primal_heuristic::PrimalHeuristic;
use crate::solver::tabulate::{Classified, TabulatedTerms};
use crate::solver::weight::Weight;

/// Tables are smaller than those of a single minimisation, since there are many solutions. With
/// four times as many combinations none of the plans that were compared is cheaper, and some take
/// ten times as long; with a quarter, some are costlier.
pub(crate) const LIMITS: TableLimits = TableLimits { table: 1 << 17, term: 1 << 16, work: 1 << 22 };

/// Sweeps of the dual for the first solution, and for later ones.
const SWEEPS: (usize, usize) = (24, 3);

/// How each solution is found.
pub(crate) enum LagrangianSubproblem<'m> {
    /// By elimination.
    Exact(TabulatedTerms),
    /// By the dual, and an assignment rounded from its prices.
    Bounded { dual: Box<Dual<'m>>, is_first: bool },
}

impl<'m> LagrangianSubproblem<'m> {
    /// The exact one, if elimination is within the limits.
    pub(crate) fn new(model: &'m Model, trees: &mut [Trees<'_>], interrupt: &Interrupt) -> Self {
        let terms = TabulatedTerms::to_eliminate(&Classified::new(model), trees, LIMITS, interrupt);
        match terms.filter(|terms| terms.minimize_exactly(&model.unary).is_some()) {
            Some(terms) => Self::Exact(terms),
            None => Self::Bounded { dual: Box::new(Dual::new(model, interrupt)), is_first: true },
        }
    }

    /// The number of solutions allowed, if `most` exact ones are.
    pub(crate) fn solutions(&self, most: usize) -> usize {
        match self {
            Self::Exact(_) => most,
            Self::Bounded { .. } => (most / 8).clamp(1, 60),
        }
    }

    /// The least total under these unary costs, or a bound of it and a good assignment.
    pub(crate) fn minimize(&mut self, unary: &UnaryCosts) -> Minimum {
        match self {
            Self::Exact(terms) => terms.minimize(unary),
            Self::Bounded { dual, is_first } => {
                let before = dual.work;
                dual.reprice(unary);
                let sweeps = if std::mem::take(is_first) { SWEEPS.0 } else { SWEEPS.1 };
                let bound_s = (0..sweeps).map(|_| dual.sweep()).last().unwrap_or(0.0);
                // Where the time ended before the first pass did, nothing is known.
                let bound = match bound_s {
                    f64::NEG_INFINITY => Weight::ZERO,
                    _ if bound_s.is_finite() => Weight::seconds(bound_s),
                    _ => Weight::INFINITE,
                };
                let assignment = PrimalHeuristic::new(dual)
                    .run()
                    .unwrap_or_else(|| nearest_to_the_bound(&dual.reduced_cost));
                Minimum { bound, exact: false, assignment, evaluations: dual.work - before }
            }
        }
    }
}
