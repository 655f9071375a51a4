//! The prices of a problem, tabulated once, and minimised under whatever the choices cost by
//! themselves.
//!
//! What a value's reshards cost depends on choices only through its factor, which stays; what a
//! choice costs by itself changes: forbidden choices cost infinity, and a limit on memory adds what
//! its multipliers ask for each byte.

use crate::search::problem::Problem;
use crate::solver::dreyfus_wagner::Trees;
use crate::solver::eliminate::{Limits, Minimum, minimise, minimise_exactly};
use crate::solver::factor::{self, Factor, Pricing, is_small, price_source};
use crate::solver::weight::Weight;

/// A price for each choice of each variable.
pub type Unary = Vec<Vec<Weight>>;

/// What a combination of elimination may take, in looks at states while a source's table is filled.
const LOOKS: usize = 64;

/// The factors of a problem.
pub struct Prices {
    factors: Vec<Factor>,
    /// Whether every source is priced in one table.
    whole: bool,
    /// The price of what is not chosen.
    fixed: Weight,
    limits: Limits,
}

impl Prices {
    /// Tabulates the trees of all sources.
    pub fn new(problem: &Problem<'_>, trees: &mut [Trees<'_>], limits: Limits) -> Self {
        let mut prices = Self { factors: Vec::new(), whole: true, fixed: problem.fixed, limits };
        for source in &problem.sources {
            match price_source(problem, source, &mut trees[source.table], limits.table / 8) {
                Pricing::Exact(factor) => prices.factors.push(factor),
                Pricing::Relaxed(parts) => {
                    prices.whole = false;
                    prices.factors.extend(parts);
                }
            }
        }
        prices
    }

    /// The same where every source fits into one table; else nothing, found out before anything is
    /// tabulated.
    pub fn whole(problem: &Problem<'_>, trees: &mut [Trees<'_>], limits: Limits) -> Option<Self> {
        let looks = limits.work.saturating_mul(LOOKS);
        let fits =
            problem.sources.iter().all(|source| is_small(problem, source, limits.table / 8, looks));
        fits.then(|| Self::new(problem, trees, limits)).filter(|prices| prices.whole)
    }

    /// The least total over all assignments, if it can be had within the limits.
    pub fn minimise_exactly(&self, unary: &Unary) -> Option<Minimum> {
        let minimum =
            minimise_exactly(unary, self.factors.clone(), self.limits).filter(|_| self.whole)?;
        Some(Minimum { bound: minimum.bound + self.fixed, ..minimum })
    }

    /// The least total over all assignments, or a lower bound of it.
    pub fn minimise(&self, unary: &Unary) -> Minimum {
        let mut minimum = minimise(unary, self.factors.clone(), self.limits);
        minimum.bound = minimum.bound + self.fixed;
        minimum.exact &= self.whole;
        minimum
    }
}

/// What the choices of a problem cost by themselves.
pub fn unary(problem: &Problem<'_>) -> Unary {
    problem
        .variables
        .iter()
        .map(|variable| variable.choices.iter().map(|choice| choice.weight).collect())
        .collect()
}

/// Looks at states while the tables of all sources are filled.
pub(crate) fn looks(problem: &Problem<'_>) -> usize {
    problem
        .sources
        .iter()
        .fold(0, |looks, source| looks.saturating_add(factor::looks(problem, source)))
}
