//! The message of an eliminated variable: for each combination of its neighbours' classes, the
//! best of its choices. Entries are computed side by side, in pieces.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use crate::solver::factor::{Factor, classify, strides};
use crate::solver::interrupt::Interrupt;
use crate::solver::weight::Weight;

/// The variables beside the one eliminated, with the equivalence classes of their choices in all
/// factors together.
pub(super) struct Others {
    pub(super) variables: Vec<usize>,
    pub(super) classes: Vec<Vec<u32>>,
    /// A choice of each class.
    examples: Vec<Vec<usize>>,
}

impl Others {
    pub(super) fn new(variable: usize, factors: &[&Factor]) -> Self {
        let mut views: BTreeMap<usize, Vec<&[u32]>> = BTreeMap::new();
        for factor in factors {
            for (&other, classes) in factor.scope.iter().zip(&factor.classes) {
                if other != variable {
                    views.entry(other).or_default().push(classes);
                }
            }
        }
        let (classes, examples) = views.values().map(|views| joined(views)).unzip();
        Self { variables: views.into_keys().collect(), classes, examples }
    }

    pub(super) fn counts(&self) -> Vec<usize> {
        self.examples.iter().map(Vec::len).collect()
    }

    pub(super) fn size(&self, limit: usize) -> Option<usize> {
        strides(&self.counts(), limit).map(|(_, size)| size)
    }
}

/// The classes of the choices that all views of a variable have in one class, in order of first
/// appearance, and the first choice of each.
fn joined(views: &[&[u32]]) -> (Vec<u32>, Vec<usize>) {
    let [first, rest @ ..] = views else { return (Vec::new(), Vec::new()) };
    let (mut classes, _) = classify(first.iter());
    for view in rest {
        (classes, _) = classify(classes.iter().zip(*view));
    }
    let mut examples = Vec::new();
    for (choice, &class) in classes.iter().enumerate() {
        if class as usize == examples.len() {
            examples.push(choice);
        }
    }
    (classes, examples)
}

/// A message, and how far it came.
pub(super) struct Message {
    pub(super) factor: Factor,
    /// The number of combinations.
    pub(super) evaluations: usize,
    /// Whether the time was over before the last entry: the others are bounds.
    pub(super) was_cut_short: bool,
}

/// For each combination of the others' classes, the best of the variable's choices.
pub(super) fn message(
    variable: usize,
    own: &[Weight],
    factors: &[&Factor],
    others: Others,
    interrupt: &Interrupt,
) -> Message {
    let counts = others.counts();
    let (strides, size) = strides(&counts, usize::MAX).unwrap_or_default();
    // Choices that all factors treat alike form a class, represented by its cheapest.
    let (class, moves) = classify((0..own.len()).map(|choice| {
        let offset = |factor: &&Factor| {
            factor.scope.iter().position(|&v| v == variable).map_or(0, |i| factor.offset(i, choice))
        };
        factors.iter().map(offset).collect::<Vec<usize>>()
    }));
    let mut cheapest = vec![Weight::INFINITE; moves.len()];
    for (&class, &weight) in class.iter().zip(own) {
        cheapest[class as usize] = cheapest[class as usize].min(weight);
    }
    let (cheapest, moves): (Vec<Weight>, Vec<Vec<usize>>) =
        cheapest.into_iter().zip(moves).filter(|(weight, _)| weight.is_finite()).unzip();
    // For each factor, the offsets of all moves.
    let offsets: Vec<Vec<usize>> = (0..factors.len())
        .map(|factor| moves.iter().map(|offsets| offsets[factor]).collect())
        .collect();
    let best = |places: &Places, sums: &mut Vec<Weight>| {
        sums.clone_from(&cheapest);
        for ((factor, base), offsets) in factors.iter().zip(&places.bases).zip(&offsets) {
            let costs = &factor.table[*base..];
            sums.iter_mut().zip(offsets).for_each(|(sum, &offset)| *sum = *sum + costs[offset]);
        }
        sums.iter().copied().min().unwrap_or(Weight::INFINITE)
    };
    let mut table = vec![Weight::ZERO; size.max(1)];
    let first = Places::new(factors, &others);
    let was_cut_short = AtomicBool::new(false);
    table.par_chunks_mut(AT_ONCE).enumerate().for_each(|(chunk, entries)| {
        if chunk > 0 && interrupt.is_due() {
            was_cut_short.store(true, Ordering::Relaxed);
            return;
        }
        let mut places = first.at(chunk * AT_ONCE);
        let mut sums = Vec::with_capacity(cheapest.len());
        for entry in entries {
            *entry = best(&places, &mut sums);
            places.advance();
        }
    });
    let evaluations = table.len().saturating_mul(moves.len() * factors.len().max(1));
    let factor = Factor { scope: others.variables, classes: others.classes, strides, table };
    Message { factor, evaluations, was_cut_short: was_cut_short.into_inner() }
}

/// Entries of a message that are computed one after another.
const AT_ONCE: usize = 1 << 12;

/// Where one combination of the others' classes lies in the table of each factor; changed from
/// combination to combination, not computed for each.
#[derive(Clone)]
struct Places {
    /// The class of each of the others.
    picked: Vec<usize>,
    /// For each of the others and each of its classes, the offset in each factor's table.
    offsets: Vec<Vec<Vec<usize>>>,
    /// The index in each factor's table.
    bases: Vec<usize>,
}

impl Places {
    /// The first combination.
    fn new(factors: &[&Factor], others: &Others) -> Self {
        let offsets_of = |variable: usize, choice: usize| {
            let offset = |factor: &&Factor| {
                let place = factor.scope.iter().position(|&v| v == variable);
                place.map_or(0, |i| factor.offset(i, choice))
            };
            factors.iter().map(offset).collect::<Vec<usize>>()
        };
        let variables = others.variables.iter().zip(&others.examples);
        let offsets: Vec<Vec<Vec<usize>>> = variables
            .map(|(&v, examples)| examples.iter().map(|&choice| offsets_of(v, choice)).collect())
            .collect();
        let first = |factor: usize| offsets.iter().map(|classes| classes[0][factor]).sum();
        let bases = (0..factors.len()).map(first).collect();
        Self { picked: vec![0; offsets.len()], offsets, bases }
    }

    /// The combination of this number.
    fn at(&self, number: usize) -> Self {
        let mut rest = number;
        let mut places = self.clone();
        for (digit, classes) in places.picked.iter_mut().zip(&self.offsets) {
            (*digit, rest) = (rest % classes.len(), rest / classes.len());
        }
        let of_factor = |factor: usize| {
            places.picked.iter().zip(&self.offsets).map(|(&digit, of)| of[digit][factor]).sum()
        };
        places.bases = (0..self.bases.len()).map(of_factor).collect();
        places
    }

    /// The next combination; the first variable runs fastest, as in [`strides`].
    fn advance(&mut self) {
        for (digit, classes) in self.picked.iter_mut().zip(&self.offsets) {
            let before = &classes[*digit];
            *digit = (*digit + 1) % classes.len();
            let now = &classes[*digit];
            for ((base, before), now) in self.bases.iter_mut().zip(before).zip(now) {
                *base = *base + now - before;
            }
            if *digit > 0 {
                return;
            }
        }
    }
}
