//! The terms of a model as tables, made once and minimised under any unary costs.
//!
//! The terms stay the same; the unary costs change: forbidden choices cost infinity, and
//! multipliers of capacity rows add to the costs of choices.

use crate::solver::dreyfus_wagner::Trees;
use crate::solver::eliminate::{Minimum, TableLimits, minimize, minimize_exactly};
use crate::solver::factor::{self, Factor, Tabulated, is_small};
use crate::solver::interrupt::Interrupt;
use crate::solver::model::{Model, Term, UnaryCosts};
use crate::solver::weight::Weight;

/// Evaluations of nodes allowed for a term's table, per combination of elimination.
const EVALUATIONS: usize = 64;

/// Evaluations of nodes for the tables of all terms that are to be exact: some seconds.
const MOST_EVALUATIONS: usize = 1 << 33;

/// The factors of a model.
pub(crate) struct TabulatedTerms {
    factors: Vec<Factor>,
    /// Whether every term is in one table.
    exact: bool,
    constant: Weight,
    limits: TableLimits,
    interrupt: Interrupt,
}

impl TabulatedTerms {
    /// Tabulates all terms; those with too many combinations as lower bounds.
    pub(crate) fn new(
        model: &Model,
        trees: &mut [Trees<'_>],
        limits: TableLimits,
        interrupt: &Interrupt,
    ) -> Self {
        let mut this = Self {
            factors: Vec::new(),
            exact: true,
            constant: model.constant,
            limits,
            interrupt: interrupt.clone(),
        };
        for term in &model.terms {
            let tree = match term {
                Term::Table(table) => {
                    this.factors.push(table.factor.clone());
                    continue;
                }
                Term::Tree(tree) => tree,
            };
            match factor::tabulate(tree, &mut trees[tree.graph], limits.table / 8, interrupt) {
                Tabulated::Exact(factor) => this.factors.push(factor),
                Tabulated::Relaxed(parts) => {
                    this.exact = false;
                    this.factors.extend(parts);
                }
            }
        }
        this
    }

    /// The same where every term fits into one table; else `None`, before anything is tabulated.
    pub(crate) fn exactly(
        model: &Model,
        trees: &mut [Trees<'_>],
        limits: TableLimits,
        interrupt: &Interrupt,
    ) -> Option<Self> {
        if evaluations(model) > MOST_EVALUATIONS || interrupt.is_due() {
            return None;
        }
        let most = limits.work.saturating_mul(EVALUATIONS);
        let fits = |term: &Term| match term {
            Term::Table(table) => table.factor.table.len() <= limits.table,
            Term::Tree(tree) => {
                is_small(tree, model.graphs[tree.graph].nodes(), limits.table / 8, most)
            }
        };
        let fit = model.terms.iter().all(fits);
        fit.then(|| Self::new(model, trees, limits, interrupt)).filter(|this| this.exact)
    }

    /// The tables.
    pub(crate) fn factors(&self) -> &[Factor] {
        &self.factors
    }

    /// The least total over all assignments, if elimination is exact within the limits.
    pub(crate) fn minimize_exactly(&self, unary: &UnaryCosts) -> Option<Minimum> {
        let minimum = minimize_exactly(unary, self.factors.clone(), self.limits, &self.interrupt)
            .filter(|_| self.exact)?;
        Some(Minimum { bound: minimum.bound + self.constant, ..minimum })
    }

    /// The least total over all assignments, or a lower bound of it.
    pub(crate) fn minimize(&self, unary: &UnaryCosts) -> Minimum {
        let mut minimum = minimize(unary, self.factors.clone(), self.limits, &self.interrupt);
        minimum.bound = minimum.bound + self.constant;
        minimum.exact &= self.exact;
        minimum
    }
}

/// Evaluations of nodes for the tables of all terms.
pub(crate) fn evaluations(model: &Model) -> usize {
    let of_term = |term: &Term| match term {
        Term::Table(table) => table.factor.table.len(),
        Term::Tree(tree) => factor::evaluations(tree, model.graphs[tree.graph].nodes()),
    };
    model.terms.iter().map(of_term).fold(0, usize::saturating_add)
}
