//! The terms of a model as tables, made once and minimised under any unary costs.
//!
//! The terms stay the same; the unary costs change: forbidden choices cost infinity, and
//! multipliers of capacity rows add to the costs of choices.

use crate::solver::dreyfus_wagner::Trees;
use crate::solver::eliminate::{
    Minimum, TableLimits, combinations, is_exact, minimize, minimize_exactly,
};
use crate::solver::factor::{self, EquivalenceClasses, Factor, Tabulated, is_small};
use crate::solver::interrupt::Interrupt;
use crate::solver::model::{Model, SteinerTerm, Term, UnaryCosts};
use crate::solver::weight::Weight;

/// Evaluations of nodes allowed for a term's table, per combination of elimination.
const EVALUATIONS: usize = 64;

/// Entries of the tables of all terms that are to be exact: half a gigabyte.
const MOST_ENTRIES: usize = 1 << 25;

/// Evaluations of nodes for the tables of all terms that are to be exact: some seconds.
const MOST_EVALUATIONS: usize = 1 << 33;

/// A model with the classes of choices of each of its terms, which say how large their tables are.
pub(crate) struct Classified<'m> {
    pub(crate) model: &'m Model,
    /// None for terms that are tables.
    classes: Vec<Option<EquivalenceClasses>>,
}

impl<'m> Classified<'m> {
    pub(crate) fn new(model: &'m Model) -> Self {
        let of_term = |term: &Term| match term {
            Term::Table(_) => None,
            Term::Tree(tree) => Some(EquivalenceClasses::of(tree)),
        };
        Self { model, classes: model.terms.iter().map(of_term).collect() }
    }

    /// Evaluations of nodes for the tables of all terms.
    pub(crate) fn evaluations(&self) -> usize {
        let of_term = |term: ClassifiedTerm<'_, '_>| match term {
            ClassifiedTerm::Table(factor) => factor.table.len(),
            ClassifiedTerm::Tree(tree, classes) => {
                factor::evaluations((tree, classes), self.model.graphs[tree.graph].nodes())
            }
        };
        self.terms().map(of_term).fold(0, usize::saturating_add)
    }

    /// Whether every term fits into one table, and all of them take not too long.
    fn fit_into_tables(&self, limits: TableLimits) -> bool {
        let most = limits.work.saturating_mul(EVALUATIONS);
        let fits = |term: ClassifiedTerm<'_, '_>| match term {
            ClassifiedTerm::Table(factor) => factor.table.len() <= limits.table,
            ClassifiedTerm::Tree(tree, classes) => {
                let nodes = self.model.graphs[tree.graph].nodes();
                is_small((tree, classes), nodes, limits.term, most)
            }
        };
        self.evaluations() <= MOST_EVALUATIONS
            && self.entries() <= MOST_ENTRIES
            && self.terms().all(fits)
    }

    /// Entries of the tables of all terms.
    fn entries(&self) -> usize {
        let of_term = |term: ClassifiedTerm<'_, '_>| match term {
            ClassifiedTerm::Table(factor) => factor.table.len(),
            ClassifiedTerm::Tree(_, classes) => classes.size(),
        };
        self.terms().map(of_term).fold(0, usize::saturating_add)
    }

    /// Whether elimination over all terms splits no table, which is known before there are any.
    fn can_be_eliminated(&self, limits: TableLimits, interrupt: &Interrupt) -> bool {
        is_exact(&self.model.unary, self.scopes(), limits, interrupt)
    }

    /// How many combinations elimination evaluates where tables may be as large as they have to be.
    pub(crate) fn combinations(&self, interrupt: &Interrupt) -> usize {
        combinations(&self.model.unary, self.scopes(), interrupt)
    }

    /// The variables of each term, with the class of each of their choices.
    fn scopes(&self) -> impl Iterator<Item = (Vec<usize>, Vec<Vec<u32>>)> {
        self.terms().map(|term| match term {
            ClassifiedTerm::Table(factor) => (factor.scope.clone(), factor.classes.clone()),
            ClassifiedTerm::Tree(_, classes) => classes.scopes(),
        })
    }

    fn terms(&self) -> impl Iterator<Item = ClassifiedTerm<'m, '_>> {
        self.model.terms.iter().zip(&self.classes).filter_map(|(term, classes)| match term {
            Term::Table(table) => Some(ClassifiedTerm::Table(&table.factor)),
            Term::Tree(tree) => Some(ClassifiedTerm::Tree(tree, classes.as_ref()?)),
        })
    }
}

/// A term of a model, with its classes where it has no table yet.
enum ClassifiedTerm<'m, 'c> {
    Table(&'m Factor),
    Tree(&'m SteinerTerm, &'c EquivalenceClasses),
}

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
        of: &Classified<'_>,
        trees: &mut [Trees<'_>],
        limits: TableLimits,
        interrupt: &Interrupt,
    ) -> Self {
        let mut this = Self {
            factors: Vec::new(),
            exact: true,
            constant: of.model.constant,
            limits,
            interrupt: interrupt.clone(),
        };
        for term in of.terms() {
            let (tree, classes) = match term {
                ClassifiedTerm::Table(factor) => {
                    this.factors.push(factor.clone());
                    continue;
                }
                ClassifiedTerm::Tree(tree, classes) => (tree, classes),
            };
            let trees = &mut trees[tree.graph];
            match factor::tabulate((tree, classes), trees, limits.term, interrupt) {
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
        of: &Classified<'_>,
        trees: &mut [Trees<'_>],
        limits: TableLimits,
        interrupt: &Interrupt,
    ) -> Option<Self> {
        let fit = !interrupt.is_due() && of.fit_into_tables(limits);
        fit.then(|| Self::new(of, trees, limits, interrupt)).filter(|this| this.exact)
    }

    /// The same where elimination is exact, too; else `None`, before anything is tabulated.
    pub(crate) fn to_eliminate(
        of: &Classified<'_>,
        trees: &mut [Trees<'_>],
        limits: TableLimits,
        interrupt: &Interrupt,
    ) -> Option<Self> {
        let can_be = !interrupt.is_due()
            && of.fit_into_tables(limits)
            && of.can_be_eliminated(limits, interrupt);
        can_be.then(|| Self::new(of, trees, limits, interrupt)).filter(|this| this.exact)
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
