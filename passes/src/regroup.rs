//! Sums and products in another grouping: `(Q *D K) *S V` as `Q *D (K *S V)`, `X *D A + X *D B` as
//! `X *D (A + B)`.
//!
//! Before, with 8192 queries `T` and keys `S`, and heads of 128 elements `D` and `E`:
//!
//! ```text
//! Scores = Q *D K
//! Out = Scores *S V
//! ```
//!
//! After:
//!
//! ```text
//! Out.1 = K *S V
//! Out = Q *D Out.1
//! ```
//!
//! A *site* is a tree of sums and products whose inner values nothing else reads (`site`). Its
//! *term* is rewritten by three laws in both directions (`laws`): sums and products are associative
//! and commutative, and products distribute over sums. [`Site::candidates`] follows
//! the laws from the term with the best estimate, which knows sizes but no shardings, to a bounded
//! number of terms. Which of them are planned is decided where plans are made: a grouping is part
//! of what a plan is asked for, and this pass writes it.
//!
//! It comes before gradients, which are then those of the new grouping, and before kernels.
//!
//! Alternatives: *choices of the search*, an operation with several forms, would let the search
//! weigh grouping against sharding in one model; but values that exist in some forms only have no
//! place in its tables, and its proof would be of a larger problem for the many programs that have
//! no such site. *A pass after gradients* would find sites among the gradients, too; but a gradient
//! reads what the forward part keeps, and a forward part that is regrouped alone computes values
//! for its gradients again. *Equality saturation* shares the parts of all terms; terms here are
//! small, and a priority queue of whole terms is simpler and as exact as its bound.
//!
//! Not regrouped are: values with brackets, outputs, what a `checkpoint` or an `assert` names, and
//! terms of several dtypes, where rounding would be another. No term has more outer products than
//! the program: their results are larger than all that they are made of. A value that the author
//! named is not replaced by a product of weights: a sketch leaves out the functions between layers
//! (`Tmp = In *D Win`, `Out = Tmp *F Wout`), and `Win *F Wout` would make two layers one. Nor are
//! weights combined whose gradients have a dtype of their own, `gradients=f32`: the gradient of
//! `n * w` is summed over devices in the dtype of `n * w`, and that of `w` follows from the sum.

mod estimate;
mod laws;
mod site;
mod term;
mod write;

use std::collections::BTreeSet;

use shardwise_ir::program::Program;

use estimate::seconds;
pub use site::Site;
use term::Term;

use crate::solver::finite::Finite;

/// The most terms that are considered for a site.
const MOST_TERMS: usize = 200;

/// A site, and the term that is computed there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Regrouping {
    /// The name of its result.
    pub result: String,
    /// As a statement: `Out = Q *D (K *S V)`.
    pub text: String,
    /// The names of its operands, and the term that the program has.
    of: (Vec<String>, Term),
    term: Term,
}

/// Another grouping of a site.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Which.
    pub regrouping: Regrouping,
    /// Its estimated time, as a multiple of that of the grouping as written.
    pub share: f64,
}

impl Site {
    /// Other groupings, those with the shortest estimated time first.
    pub fn candidates(&self, program: &Program) -> Vec<Candidate> {
        let written_s = seconds(program, self, &self.term).max(f64::MIN_POSITIVE);
        let (result, of) = (self.result(program), (self.operand_names(program), self.term.clone()));
        let named = |term: Term| {
            let text = format!("{result} = {}", term.text(program, self));
            Regrouping { result: result.clone(), text, of: of.clone(), term }
        };
        let others = reachable(program, self).into_iter().filter(|(_, term)| *term != self.term);
        others
            .map(|(s, term)| Candidate { regrouping: named(term), share: s / written_s })
            .collect()
    }
}

/// The places of a program where terms can be regrouped, in program order.
pub fn sites(program: &Program) -> Vec<Site> {
    site::find(program)
}

/// The program with its sites in these groupings.
pub fn apply(mut program: Program, regroupings: &[Regrouping]) -> Program {
    if regroupings.is_empty() {
        return program;
    }
    let sites = sites(&program);
    let chosen: Vec<(&Site, &Term)> = sites
        .iter()
        .filter_map(|site| {
            let result = site.result(&program);
            let chosen = regroupings.iter().find(|regrouping| regrouping.result == result)?;
            // A program that was edited since may compute something else there.
            if chosen.of != (site.operand_names(&program), site.term.clone()) {
                return None;
            }
            Some((site, &chosen.term))
        })
        .collect();
    write::write(&mut program, &chosen);
    program
}

/// The terms that laws lead to, the best first: the neighbours of the best one that is left are
/// considered next.
fn reachable(program: &Program, site: &Site) -> Vec<(f64, Term)> {
    let estimated = |term: Term| (Finite(seconds(program, site, &term)), term);
    let mut found = BTreeSet::from([site.term.clone()]);
    let mut left = BTreeSet::from([estimated(site.term.clone())]);
    let mut all = BTreeSet::new();
    while let Some(next) = left.pop_first() {
        for term in laws::rewritten(&next.1, &site.dims) {
            if found.len() < MOST_TERMS && site.allows(&term) && found.insert(term.clone()) {
                left.insert(estimated(term));
            }
        }
        all.insert(next);
    }
    all.into_iter().map(|(Finite(s), term)| (s, term)).collect()
}
