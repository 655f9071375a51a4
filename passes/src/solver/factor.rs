//! Prices that depend on several variables' choices.
//!
//! A source's tree depends on its producer's and consumers' choices only through the states that
//! they give and need, so a factor stores one number for each combination of *classes* (choices
//! alike in that respect), which is far less than one for each combination of choices.

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use crate::reshard::sharding_space::State;
use crate::search::problem::{Demand, Problem, Root, Source};
use crate::solver::dreyfus_wagner::{MOST_TERMINALS, Terminal, Trees};
use crate::solver::weight::Weight;

/// A table over classes of choices.
#[derive(Clone, Debug)]
pub struct Factor {
    /// The variables, in order.
    pub scope: Vec<usize>,
    /// For each variable of the scope, the class of each of its choices.
    pub classes: Vec<Vec<u32>>,
    /// For each variable of the scope, how far apart its classes lie in the table.
    pub strides: Vec<usize>,
    /// One price for each combination of classes.
    pub table: Vec<Weight>,
}

impl Factor {
    /// The price under an assignment of choices to all variables.
    pub fn price(&self, assignment: &[usize]) -> Weight {
        let place: usize =
            (0..self.scope.len()).map(|i| self.offset(i, assignment[self.scope[i]])).sum();
        self.table[place]
    }

    /// How far the choice of the scope's `i`-th variable moves the place in the table.
    pub fn offset(&self, i: usize, choice: usize) -> usize {
        self.classes[i][choice] as usize * self.strides[i]
    }
}

/// Numbers things in order of first appearance.
pub fn classify<T: std::hash::Hash + Eq>(items: impl Iterator<Item = T>) -> (Vec<u32>, Vec<T>) {
    let mut seen: IndexMap<T, (), FxBuildHasher> = IndexMap::default();
    let classes = items.map(|item| seen.insert_full(item, ()).0 as u32).collect();
    (classes, seen.into_keys().collect())
}

/// Strides of a dense table over class counts, and its size; `None` above `limit`.
pub fn strides(counts: &[usize], limit: usize) -> Option<(Vec<usize>, usize)> {
    let mut size = 1_usize;
    let mut strides = Vec::with_capacity(counts.len());
    for &count in counts {
        strides.push(size);
        size = size.checked_mul(count).filter(|&size| size <= limit)?;
    }
    Some((strides, size))
}

/// The states of one choice that matter to a source: what it gives, and what it needs, demand by
/// demand.
type Signature = (Option<State>, Vec<State>);

/// How a source's price is written down.
pub enum Pricing {
    /// In one table: exact.
    Exact(Factor),
    /// Too many combinations: one small table for each demand, a lower bound together.
    Relaxed(Vec<Factor>),
}

/// The price of `source` for every combination of choices.
pub fn price_source(
    problem: &Problem<'_>,
    source: &Source,
    trees: &mut Trees<'_>,
    limit: usize,
) -> Pricing {
    if source.demands.len() > MOST_TERMINALS {
        return Pricing::Relaxed(relaxed(problem, source, trees, limit));
    }
    match table(problem, source, &source.demands, trees, limit) {
        Some(factor) => Pricing::Exact(factor),
        None => Pricing::Relaxed(relaxed(problem, source, trees, limit)),
    }
}

/// Whether one table of at most `limit` prices holds those of `source`, and takes at most `most`
/// looks at states.
pub fn is_small(problem: &Problem<'_>, source: &Source, limit: usize, most: usize) -> bool {
    let size = size(&signed(problem, source, &source.demands));
    source.demands.len() <= MOST_TERMINALS
        && size <= limit
        && looks_at(problem, source).saturating_mul(size) <= most
}

/// Looks at states that its table takes, and the trees to parts of its uses that it is made of.
pub(crate) fn looks(problem: &Problem<'_>, source: &Source) -> usize {
    let signed = signed(problem, source, &source.demands);
    let ends: usize = signed.signatures.iter().map(Vec::len).sum();
    let size = size(&signed);
    let parts = if source.demands.len() > 2 {
        size.saturating_mul(1 << source.demands.len().min(MOST_TERMINALS))
    } else {
        0
    };
    let trees = parts
        .saturating_add(ends)
        .saturating_mul(LOOKS_OF_A_TREE * problem.table(source.value).space.len());
    looks_at(problem, source).saturating_mul(size).saturating_add(trees)
}

/// Looks at each state while the ways from or to one are found.
const LOOKS_OF_A_TREE: usize = 16;

/// Entries of a source's table.
fn size(signed: &Signed) -> usize {
    signed.signatures.iter().fold(1, |size, signatures| size.saturating_mul(signatures.len()))
}

/// Looks at states for one entry: a tree to several uses may fork in any.
fn looks_at(problem: &Problem<'_>, source: &Source) -> usize {
    let uses = source.demands.len();
    if uses > 1 { problem.table(source.value).space.len() << uses.min(MOST_TERMINALS) } else { 1 }
}

/// Each demand alone, at its share of the price: the dearest demand costs at least the average of
/// all.
fn relaxed(
    problem: &Problem<'_>,
    source: &Source,
    trees: &mut Trees<'_>,
    limit: usize,
) -> Vec<Factor> {
    let parts = source.demands.len() as u32;
    let alone = source
        .demands
        .iter()
        .filter_map(|demand| table(problem, source, std::slice::from_ref(demand), trees, limit));
    alone
        .map(|mut factor| {
            factor.table.iter_mut().for_each(|weight| *weight = weight.divided(parts));
            factor
        })
        .collect()
}

fn table(
    problem: &Problem<'_>,
    source: &Source,
    demands: &[Demand],
    trees: &mut Trees<'_>,
    limit: usize,
) -> Option<Factor> {
    let part = Source { demands: demands.to_vec(), ..source.clone() };
    let Signed { scope, classes, signatures } = signed(problem, source, demands);
    let counts: Vec<usize> = signatures.iter().map(Vec::len).collect();
    let (strides, size) = strides(&counts, limit)?;
    let table = (0..size)
        .map(|place| {
            let picked = signatures
                .iter()
                .zip(&strides)
                .map(|(signature, stride)| &signature[place / stride % signature.len()]);
            price(&part, picked, trees)
        })
        .collect();
    Some(Factor { scope, classes, strides, table })
}

/// The choices of a source's variables, classed by what they mean to it.
struct Signed {
    scope: Vec<usize>,
    classes: Vec<Vec<u32>>,
    signatures: Vec<Vec<Signature>>,
}

fn signed(problem: &Problem<'_>, source: &Source, demands: &[Demand]) -> Signed {
    let part = Source { demands: demands.to_vec(), ..source.clone() };
    let scope = problem.scope(&part);
    let mut classes = Vec::new();
    let mut signatures: Vec<Vec<Signature>> = Vec::new();
    for &variable in &scope {
        let (class, signature) =
            classify(problem.variables[variable].choices.iter().map(|choice| {
                let gives = (part.root == Root::Produced(variable)).then_some(choice.gives);
                let needs = demands.iter().filter_map(|demand| match demand {
                    Demand::Operand(v, k) if *v == variable => Some(choice.needs[*k]),
                    _ => None,
                });
                (gives, needs.collect())
            }));
        classes.push(class);
        signatures.push(signature);
    }
    Signed { scope, classes, signatures }
}

fn price<'s>(
    source: &Source,
    picked: impl Iterator<Item = &'s Signature>,
    trees: &mut Trees<'_>,
) -> Weight {
    let mut root = if let Root::Fixed(state) = source.root { Some(state) } else { None };
    let mut uses: Vec<Terminal> = fixed_uses(source);
    for (gives, needs) in picked {
        root = root.or(*gives);
        uses.extend(needs.iter().map(|&state| vec![state]));
    }
    let root = root.expect("a source's producer is in its scope");
    price_from(source, root, &uses, trees)
}

fn fixed_uses(source: &Source) -> Vec<Terminal> {
    let fixed = source.demands.iter().filter_map(|demand| match demand {
        Demand::Fixed(states) => Some(states.clone()),
        Demand::Operand(..) => None,
    });
    fixed.collect()
}

/// By way of the home, if there is one: every use starts from it.
fn price_from(source: &Source, root: State, uses: &[Terminal], trees: &mut Trees<'_>) -> Weight {
    trees.cost_via(root, source.home.as_deref(), uses).times(source.times)
}

/// The uses of a source under an assignment, in the order of its demands, and the state it comes to
/// be in.
pub fn realised(
    problem: &Problem<'_>,
    source: &Source,
    assignment: &[usize],
) -> (State, Vec<Terminal>) {
    let choice = |variable: usize| &problem.variables[variable].choices[assignment[variable]];
    let root = match source.root {
        Root::Fixed(state) => state,
        Root::Produced(variable) => choice(variable).gives,
    };
    let uses = source.demands.iter().map(|demand| match demand {
        Demand::Operand(variable, k) => vec![choice(*variable).needs[*k]],
        Demand::Fixed(states) => states.clone(),
    });
    (root, uses.collect())
}

/// What a source costs under an assignment.
pub fn source_price(
    problem: &Problem<'_>,
    source: &Source,
    assignment: &[usize],
    trees: &mut Trees<'_>,
) -> Weight {
    let (root, uses) = realised(problem, source, assignment);
    price_from(source, root, &uses, trees)
}
