//! Large neighbourhoods: a solution is improved by elimination over a few variables that are near
//! each other, all others kept (Shaw 1998; very large-scale neighbourhoods: Ahuja et al. 2002).
//!
//! Coordinate descent changes one variable at a time and stops where two would have to change
//! together: a value gathered for one reader only pays if the next reader takes it, too. Around
//! each variable in turn, those that share a term with it, and then with these, are free among
//! their few best choices by reduced cost; the minimum over all of these is exact. Terms of many
//! variables do not make neighbours of them: a parameter that everything reads would.

use crate::solver::model::{Model, Term};

/// Variables that change together.
const SIZE: usize = 10;

/// Variables of a term that makes neighbours of them, at most.
const MOST_OF_TERM: usize = 6;

/// Variables that change together.
pub(crate) struct Neighbourhood {
    /// Those near one of them, which is the first.
    pub(crate) variables: Vec<usize>,
    /// The terms that depend on any of them, in order.
    pub(crate) terms: Vec<usize>,
}

/// For each variable, those that are near it.
pub(crate) struct Neighbourhoods {
    of: Vec<Neighbourhood>,
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
            let mut terms: Vec<usize> =
                near.iter().flat_map(|&near| &terms_of[near]).copied().collect();
            terms.sort_unstable();
            terms.dedup();
            Neighbourhood { variables: near, terms }
        };
        Self { of: (0..model.unary.len()).map(around).collect() }
    }

    /// One neighbourhood after another.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Neighbourhood> {
        self.of.iter()
    }
}

fn scope(term: &Term) -> Vec<usize> {
    match term {
        Term::Table(table) => table.factor.scope.clone(),
        Term::Tree(tree) => tree.scope(),
    }
}
