//! Cost tables over the choices of several variables.
//!
//! The cost of a Steiner-tree term depends on the choices only through the nodes that they name, so
//! a factor stores one number for each combination of *equivalence classes* (choices that name the
//! same nodes), which is far less than one for each combination of choices.

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use smallvec::{SmallVec, smallvec};

use crate::solver::dreyfus_wagner::{MOST_NUMBERS, MOST_TERMINALS, Terminal, Trees};
use crate::solver::graph::Node;
use crate::solver::interrupt::Interrupt;
use crate::solver::model::{End, Placement, SteinerTerm};
use crate::solver::weight::Weight;

/// A table over classes of choices.
#[derive(Clone, Debug)]
pub(crate) struct Factor {
    /// The variables, in order.
    pub(crate) scope: Vec<usize>,
    /// For each variable of the scope, the class of each of its choices.
    pub(crate) classes: Vec<Vec<u32>>,
    /// For each variable of the scope, how far apart its classes lie in the table.
    pub(crate) strides: Vec<usize>,
    /// One cost for each combination of classes.
    pub(crate) table: Vec<Weight>,
}

impl Factor {
    /// The cost under an assignment of choices to all variables.
    pub(crate) fn price(&self, assignment: &[usize]) -> Weight {
        let place: usize =
            (0..self.scope.len()).map(|i| self.offset(i, assignment[self.scope[i]])).sum();
        self.table[place]
    }

    /// The number of classes of the scope's `i`-th variable.
    pub(crate) fn classes_of(&self, i: usize) -> usize {
        let end = self.strides.get(i + 1).copied().unwrap_or(self.table.len());
        end / self.strides[i]
    }

    /// The offset in the table of the choice of the scope's `i`-th variable.
    pub(crate) fn offset(&self, i: usize, choice: usize) -> usize {
        self.classes[i][choice] as usize * self.strides[i]
    }
}

/// Numbers things in order of first appearance.
pub(crate) fn classify<T: std::hash::Hash + Eq>(
    items: impl Iterator<Item = T>,
) -> (Vec<u32>, Vec<T>) {
    let mut seen: IndexMap<T, (), FxBuildHasher> = IndexMap::default();
    let classes = items.map(|item| seen.insert_full(item, ()).0 as u32).collect();
    (classes, seen.into_keys().collect())
}

/// Strides of a dense table over class counts, and its size; `None` above `limit`.
pub(crate) fn strides(counts: &[usize], limit: usize) -> Option<(Vec<usize>, usize)> {
    let mut size = 1_usize;
    let mut strides = Vec::with_capacity(counts.len());
    for &count in counts {
        strides.push(size);
        size = size.checked_mul(count).filter(|&size| size <= limit)?;
    }
    Some((strides, size))
}

/// The tabulated cost of a term.
pub(crate) enum Tabulated {
    /// One table: exact.
    Exact(Factor),
    /// One small table for each terminal, where there are too many combinations: their sum is a
    /// lower bound.
    Relaxed(Vec<Factor>),
}

/// The cost of a term for every combination of choices; where that ends before its last entry, the
/// bound is that of the parts with a table.
pub(crate) fn tabulate(
    (term, classes): (&SteinerTerm, &EquivalenceClasses),
    trees: &mut Trees<'_>,
    limit: usize,
    interrupt: &Interrupt,
) -> Tabulated {
    let is_small = term.terminals.len() <= MOST_TERMINALS;
    let exact = is_small.then(|| table((term, classes), trees, limit, interrupt));
    match exact.flatten() {
        Some(factor) => Tabulated::Exact(factor),
        None => Tabulated::Relaxed(relaxed(term, trees, limit, interrupt)),
    }
}

/// Whether one table of at most `limit` costs holds those of a term on a graph of `nodes` nodes,
/// and takes at most `most` evaluations.
pub(crate) fn is_small(
    (term, classes): (&SteinerTerm, &EquivalenceClasses),
    nodes: usize,
    limit: usize,
    most: usize,
) -> bool {
    term.terminals.len() <= MOST_TERMINALS
        && classes.size() <= limit
        && evaluations_of_subsets(term, classes, nodes) <= MOST_NUMBERS * EVALUATIONS_OF_A_TREE
        && evaluations((term, classes), nodes) <= most
}

/// Evaluations of nodes for the table of a term, including the trees to subsets of its terminals.
pub(crate) fn evaluations(
    (term, classes): (&SteinerTerm, &EquivalenceClasses),
    nodes: usize,
) -> usize {
    let size = classes.size();
    evaluations_of_entry(term, nodes)
        .saturating_mul(size / classes.roots())
        .saturating_add(size)
        .saturating_add(evaluations_of_subsets(term, classes, nodes))
}

/// Those for the trees to the proper subsets of terminals.
fn evaluations_of_subsets(term: &SteinerTerm, classes: &EquivalenceClasses, nodes: usize) -> usize {
    if term.terminals.len() < 2 {
        return 0;
    }
    let own_root = classes.root();
    let places = (0..classes.scope.len()).filter(|&i| Some(i) != own_root);
    let counts = || places.clone().map(|i| classes.signatures[i].len());
    let all = counts().fold(1_usize, usize::saturating_mul);
    let with_none = counts().fold(1_usize, |product, count| product.saturating_mul(count + 1));
    with_none.saturating_sub(all).saturating_mul(EVALUATIONS_OF_A_TREE * nodes)
}

/// Evaluations of each node for the distances from or to one node.
const EVALUATIONS_OF_A_TREE: usize = 16;

/// As many as it takes to find the trees to one subset.
const EVALUATIONS_OF_A_LOOKUP: usize = 64;

/// Evaluations of nodes for the trees from all roots to one combination of terminals, which may
/// fork at any node.
fn evaluations_of_entry(term: &SteinerTerm, nodes: usize) -> usize {
    let terminals = term.terminals.len();
    if terminals < 2 {
        return 1;
    }
    let forks = 1 << (terminals.min(MOST_TERMINALS) - 1);
    nodes * (EVALUATIONS_OF_A_TREE + forks) + 2 * forks * EVALUATIONS_OF_A_LOOKUP
}

/// Each terminal alone, at its share of the cost: a tree costs at least as much as its costliest
/// terminal, so at least the average.
fn relaxed(
    term: &SteinerTerm,
    trees: &mut Trees<'_>,
    limit: usize,
    interrupt: &Interrupt,
) -> Vec<Factor> {
    let parts = term.terminals.len() as u64;
    let alone = term.terminals.iter().filter_map(|terminal| {
        let alone = SteinerTerm { terminals: vec![terminal.clone()], ..term.clone() };
        table((&alone, &EquivalenceClasses::of(&alone)), trees, limit, interrupt)
    });
    alone
        .map(|mut factor| {
            factor.table.iter_mut().for_each(|weight| *weight = weight.divided(parts));
            factor
        })
        .collect()
}

/// Combinations of terminals between two looks at the clock, times nodes: milliseconds.
const BETWEEN_LOOKS: usize = 1 << 13;

/// One combination of terminals after another, with the trees from all roots to it.
fn table(
    (term, classes): (&SteinerTerm, &EquivalenceClasses),
    trees: &mut Trees<'_>,
    limit: usize,
    interrupt: &Interrupt,
) -> Option<Factor> {
    let EquivalenceClasses { scope, classes: of_choices, signatures } = classes;
    let counts: Vec<usize> = signatures.iter().map(Vec::len).collect();
    let (strides, size) = strides(&counts, limit)?;
    let own_root = classes.root();
    let (apart, root_count) = own_root.map_or((size, 1), |i| (strides[i], counts[i]));
    let mut ends = Ends::of(term);
    trees.limit_rows();
    let mut table = vec![Weight::ZERO; size];
    let between_looks = (BETWEEN_LOOKS / trees.graph().nodes().max(1)).max(1);
    for number in 0..size / root_count {
        if number.is_multiple_of(between_looks) && interrupt.is_due() {
            return None;
        }
        let first = number / apart * apart * root_count + number % apart;
        let picked = signatures
            .iter()
            .zip(&strides)
            .map(|(signature, stride)| &signature[first / stride % signature.len()]);
        let root = ends.pick(picked);
        let root_of = |class: usize| match own_root {
            Some(i) => signatures[i][class].0,
            None => root,
        };
        let roots: SmallVec<[Node; 64]> = (0..root_count)
            .map(|class| root_of(class).expect("the root's variable is in the scope"))
            .collect();
        for (class, cost) in term.costs_of(&roots, &ends.terminals, trees).enumerate() {
            table[first + class * apart] = cost;
        }
    }
    Some(Factor { scope: scope.clone(), classes: of_choices.clone(), strides, table })
}

/// The nodes that a choice names: of the root, and of terminals in their order.
type Signature = (Option<Node>, SmallVec<[Node; 2]>);

/// The choices of a term's variables in classes of the same signature.
pub(crate) struct EquivalenceClasses {
    scope: Vec<usize>,
    classes: Vec<Vec<u32>>,
    signatures: Vec<Vec<Signature>>,
}

impl EquivalenceClasses {
    pub(crate) fn of(term: &SteinerTerm) -> Self {
        let scope = term.scope();
        let (mut classes, mut signatures) = (Vec::new(), Vec::new());
        let mut placements: SmallVec<[&Placement; 4]> =
            term.terminals.iter().filter_map(End::placement).collect();
        // Those of a variable are side by side, in the order of the terminals.
        placements.sort_by_key(|placement| placement.variable);
        let mut rest = &placements[..];
        for &variable in &scope {
            let root = term.root.placement().filter(|placement| placement.variable == variable);
            let count = rest.iter().take_while(|placement| placement.variable == variable).count();
            let terminals;
            (terminals, rest) = rest.split_at(count);
            let choices =
                root.or(terminals.first().copied()).map_or(0, |placement| placement.nodes.len());
            let signature = |choice: usize| -> Signature {
                let nodes = terminals.iter().map(|placement| placement.node(choice));
                (root.map(|placement| placement.node(choice)), nodes.collect())
            };
            let (class, signature) = classify((0..choices).map(signature));
            classes.push(class);
            signatures.push(signature);
        }
        Self { scope, classes, signatures }
    }

    /// The place in the scope of the variable that moves the root and no terminal, if there is one.
    fn root(&self) -> Option<usize> {
        self.signatures.iter().position(|signatures| {
            signatures.iter().all(|(root, terminals)| root.is_some() && terminals.is_empty())
        })
    }

    /// How many roots there are for each combination of terminals.
    fn roots(&self) -> usize {
        self.root().map_or(1, |i| self.signatures[i].len())
    }

    /// The variables, with the class of each of their choices.
    pub(crate) fn scopes(&self) -> (Vec<usize>, Vec<Vec<u32>>) {
        (self.scope.clone(), self.classes.clone())
    }

    /// Entries of the table over all classes.
    pub(crate) fn size(&self) -> usize {
        self.signatures.iter().fold(1, |size, signatures| size.saturating_mul(signatures.len()))
    }
}

/// The ends of a term's tree, one combination of choices after another.
struct Ends<'t> {
    term: &'t SteinerTerm,
    /// The terminals; those that no choice moves come first.
    terminals: Vec<Terminal>,
    fixed: usize,
}

impl<'t> Ends<'t> {
    fn of(term: &'t SteinerTerm) -> Self {
        let fixed = term.terminals.iter().filter_map(|terminal| match terminal {
            End::Fixed(nodes) => Some(nodes.clone()),
            End::Chosen(_) => None,
        });
        let terminals: Vec<Terminal> = fixed.collect();
        Self { term, fixed: terminals.len(), terminals }
    }

    /// Takes the terminals where choices of these signatures are made; returns the root.
    fn pick<'s>(&mut self, picked: impl Iterator<Item = &'s Signature>) -> Option<Node> {
        let mut root = if let End::Fixed(node) = self.term.root { Some(node) } else { None };
        self.terminals.truncate(self.fixed);
        for (at_root, nodes) in picked {
            root = root.or(*at_root);
            self.terminals.extend(nodes.iter().map(|&node| -> Terminal { smallvec![node] }));
        }
        root
    }
}
