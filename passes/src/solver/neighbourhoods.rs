//! Large neighbourhoods: a solution is improved by elimination over a few variables that are near
//! each other, all others kept (Shaw 1998; very large-scale neighbourhoods: Ahuja et al. 2002).
//!
//! Coordinate descent changes one variable at a time and stops where two would have to change
//! together: a value gathered for one reader only pays if the next reader takes it, too. Around
//! each variable in turn, those that share a term with it, and then with these, are free among
//! their few best choices by reduced cost; the minimum over all of these is exact. Terms of many
//! variables do not make neighbours of them: a parameter that everything reads would. Where tables
//! over all of them would be too large, those nearest to the first change without the others.

use std::collections::BTreeSet;

use crate::solver::model::{Model, Term};

/// Variables that change together, and those where tables over so many would be too large.
const SIZE: usize = 10;
const FEW: usize = 6;

/// Variables of a term that makes neighbours of them, at most.
const MOST_OF_TERM: usize = 6;

/// For each variable, those that are near it.
pub(crate) struct Neighbourhoods {
    /// The terms that depend on each variable.
    terms_of: Vec<Vec<usize>>,
    /// For each variable, itself and those near it, the nearest first.
    near: Vec<Vec<usize>>,
}

impl Neighbourhoods {
    /// The neighbourhoods of a model.
    pub(crate) fn new(model: &Model) -> Self {
        let scopes: Vec<Vec<usize>> = model.terms.iter().map(scope).collect();
        let mut terms_of = vec![Vec::new(); model.unary.len()];
        for (term, scope) in scopes.iter().enumerate() {
            for &variable in scope {
                terms_of[variable].push(term);
            }
        }
        let is_narrow = |term: &&usize| scopes[**term].len() <= MOST_OF_TERM;
        let around = |centre: usize| {
            let mut near = vec![centre];
            let mut next = 0;
            while next < near.len() && near.len() < SIZE {
                let narrow = terms_of[near[next]].iter().filter(is_narrow);
                let reached = narrow.flat_map(|&term| &scopes[term]);
                for &variable in reached {
                    if near.len() < SIZE && !near.contains(&variable) {
                        near.push(variable);
                    }
                }
                next += 1;
            }
            near
        };
        let near = (0..model.unary.len()).map(around).collect();
        Self { terms_of, near }
    }

    /// The variables near one after another: all that change together, and the nearest of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = impl Iterator<Item = &[usize]>> {
        self.near.iter().map(|near| {
            std::iter::once(near.as_slice()).chain((near.len() > FEW).then(|| &near[..FEW]))
        })
    }

    /// The terms that depend on any of some variables, in order.
    pub(crate) fn terms(&self, variables: &[usize]) -> Vec<usize> {
        let terms: BTreeSet<usize> =
            variables.iter().flat_map(|&variable| &self.terms_of[variable]).copied().collect();
        terms.into_iter().collect()
    }
}

fn scope(term: &Term) -> Vec<usize> {
    match term {
        Term::Table(table) => table.factor.scope.clone(),
        Term::Tree(tree) => tree.scope(),
    }
}
