//! The laws that terms are rewritten by: sums and products are associative and commutative, and
//! products distribute over sums.
//!
//! A dimension is summed in the innermost product that has all of its occurrences: in
//! `(a *K b) *J c`, `J` is summed in `b *J c` unless `a` has it too. A dimension that a factor sums
//! over is another one outside of it, so that what has it there cannot be moved into the factor.

use shardwise_ir::ids::DimId;

use super::term::Term;

/// The terms that one law, applied once, leads to.
pub(super) fn rewritten(term: &Term, dims: &[Vec<DimId>]) -> Vec<Term> {
    let mut all = match term {
        Term::Operand(_) => Vec::new(),
        Term::Product { factors, summed } => of_product(factors, summed, dims),
        Term::Sum { terms, minus } => of_sum(terms, *minus, dims),
    };
    for place in [0, 1] {
        let Some(parts) = term.parts() else { continue };
        for part in rewritten(&parts[place], dims) {
            let mut parts = parts.clone();
            parts[place] = part;
            all.extend(with_parts(term, parts, dims));
        }
    }
    all
}

/// The term with other parts.
fn with_parts(term: &Term, parts: [Term; 2], dims: &[Vec<DimId>]) -> Option<Term> {
    match term {
        Term::Operand(_) => None,
        Term::Product { summed, .. } => Term::product(parts, summed.clone(), dims),
        Term::Sum { minus, .. } => Some(Term::sum(parts, *minus)),
    }
}

fn of_product(factors: &[Term; 2], summed: &[DimId], dims: &[Vec<DimId>]) -> Vec<Term> {
    let mut all = Vec::new();
    for place in [0, 1] {
        let (inner, other) = (&factors[place], &factors[1 - place]);
        match inner {
            Term::Operand(_) => {}
            Term::Product { factors, summed: within } => {
                let gone = other.dims(dims);
                if within.iter().any(|dim| gone.contains(dim)) {
                    continue;
                }
                let together: Vec<DimId> = within.iter().chain(summed).copied().collect();
                for first in [0, 1] {
                    let three = [&factors[first], &factors[1 - first], other];
                    all.extend(associated(three, &together, dims));
                }
            }
            Term::Sum { terms, minus } => {
                let times = |term: &Term| {
                    Term::product([term.clone(), other.clone()], summed.to_vec(), dims)
                };
                if let (Some(left), Some(right)) = (times(&terms[0]), times(&terms[1])) {
                    all.push(Term::sum([left, right], *minus));
                }
            }
        }
    }
    all
}

/// `first * (second * third)`, with each dimension summed where all of its occurrences are.
fn associated(
    [first, second, third]: [&Term; 3],
    summed: &[DimId],
    dims: &[Vec<DimId>],
) -> Option<Term> {
    let outside = first.dims(dims);
    let (outer, inner): (Vec<DimId>, Vec<DimId>) =
        summed.iter().partition(|dim| outside.contains(dim));
    let inner = Term::product([second.clone(), third.clone()], inner, dims)?;
    Term::product([first.clone(), inner], outer, dims)
}

fn of_sum(terms: &[Term; 2], minus: bool, dims: &[Vec<DimId>]) -> Vec<Term> {
    let mut all: Vec<Term> = factored(terms, minus, dims).into_iter().collect();
    if let Term::Sum { terms: inner, minus: within } = &terms[0] {
        all.extend(reordered([&inner[0], &inner[1], &terms[1]], [*within, minus]));
    }
    if let Term::Sum { terms: inner, minus: within } = &terms[1] {
        all.extend(reordered([&terms[0], &inner[0], &inner[1]], [minus, minus ^ within]));
    }
    all
}

/// The groupings of `a ± b ± c`, of which `minus` says whether `b` and `c` are subtracted.
fn reordered([a, b, c]: [&Term; 3], [minus_b, minus_c]: [bool; 2]) -> [Term; 3] {
    let sum = |left: Term, right: &Term, minus| Term::sum([left, right.clone()], minus);
    let inner = sum(b.clone(), c, minus_b ^ minus_c);
    [
        sum(sum(a.clone(), b, minus_b), c, minus_c),
        sum(sum(a.clone(), c, minus_c), b, minus_b),
        sum(a.clone(), &inner, minus_b),
    ]
}

/// `a * b ± a * c` as `a * (b ± c)`.
fn factored(terms: &[Term; 2], minus: bool, dims: &[Vec<DimId>]) -> Option<Term> {
    let [Term::Product { factors: left, summed }, Term::Product { factors: right, summed: same }] =
        terms
    else {
        return None;
    };
    let places = [(0, 0), (0, 1), (1, 0), (1, 1)];
    let (one, other) = places.into_iter().find(|&(one, other)| left[one] == right[other])?;
    let inner = Term::sum([left[1 - one].clone(), right[1 - other].clone()], minus);
    (summed == same)
        .then(|| Term::product([left[one].clone(), inner], summed.clone(), dims))
        .flatten()
}
