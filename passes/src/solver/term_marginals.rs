//! Min-marginals of one term: its least cost for each label of each of its ends, given the prices
//! of the labels.
//!
//! For a Steiner-tree term they are computed by the dynamic programme of
//! [`crate::solver::marginals`], through the group of nodes that the tree must pass, if there is
//! one. A tree to many terminals is replaced by trees to groups of them, at shares of the weight of
//! every edge ([`crate::solver::edge_shares`]); where these take too much memory, each at its share
//! of the whole cost: the tree costs at least as much as each of them, so at least their mean,
//! which is a valid bound. Shares take twice as long, and are used when even ones add nothing more.

use std::borrow::Cow;

use crate::solver::dual::Slot;
use crate::solver::edge_shares::{EdgeShares, TreeShares};
use crate::solver::factor::Factor;
use crate::solver::graph::Node;
use crate::solver::marginals::{
    Inside, Marginals, Metric, UNREACHABLE, inside, lesser, marginals, seconds,
};
use crate::solver::model::{End, SteinerTerm};

/// The limit of terminals of one tree, and of the numbers evaluated for it: both double with each
/// terminal.
const TOGETHER: usize = 8;
const EVALUATIONS: usize = 1 << 22;

/// Terminals in each of several groups, at most.
const GROUP: usize = 6;

/// The trees to groups of a term's terminals; none if they are not known.
pub(crate) type Subtrees = Vec<Inside>;

/// What is wanted of a tree beside its least cost for each label of the root.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    /// The same for terminals.
    pub(crate) terminals: bool,
    /// With it, the edges that trees use which cost at most so much more than the least one.
    pub(crate) edges_within: Option<f64>,
}

/// Min-marginals of a term.
pub(crate) struct TermMarginals {
    /// Over all labels.
    pub(crate) least: f64,
    /// For each edge, the least with each label; for terminals only if requested.
    pub(crate) of_edges: Vec<Option<Vec<f64>>>,
    /// Which edges of a tree's graph are used, in the order of the edges into nodes; none if not
    /// requested, or if the tree is bounded by parts of it.
    pub(crate) used: Option<Vec<bool>>,
    /// Numbers evaluated.
    pub(crate) work: usize,
}

/// Of a table, where each variable of its scope pays these prices.
pub(crate) fn of_table(factor: &Factor, prices: &[(Slot, Vec<f64>)]) -> TermMarginals {
    let mut least = UNREACHABLE;
    let mut of_edges: Vec<Vec<f64>> =
        prices.iter().map(|(_, prices)| vec![UNREACHABLE; prices.len()]).collect();
    for (place, &weight) in factor.table.iter().enumerate() {
        let label = |i: usize| place / factor.strides[i] % prices[i].1.len();
        let paid: f64 = prices.iter().enumerate().map(|(i, (_, prices))| prices[label(i)]).sum();
        let cost = seconds(weight) + paid;
        least = lesser(least, cost);
        for (i, of_edge) in of_edges.iter_mut().enumerate() {
            of_edge[label(i)] = lesser(of_edge[label(i)], cost);
        }
    }
    let work = factor.table.len() * prices.len();
    let of_edges = of_edges.into_iter().map(Some).collect();
    TermMarginals { least, of_edges, used: None, work }
}

/// Of a tree, where its ends pay these prices; nothing if it is free. `kept` are the trees to
/// its terminals as of an evaluation without the terminals' marginals, which leaves them there.
pub(crate) fn of_tree(
    term: &SteinerTerm,
    metric: &Metric,
    prices: &[(Slot, Vec<f64>)],
    (kept, shares): (&mut Subtrees, Option<&mut TreeShares>),
    wanted: Wanted,
) -> Option<TermMarginals> {
    let with_terminals = wanted.terminals;
    let (mut at_root, mut at_terminals) = (None, vec![None; term.terminals.len()]);
    for (slot, prices) in prices {
        match *slot {
            Slot::Root => at_root = Some(prices),
            Slot::Terminal(i) => at_terminals[i] = Some(prices),
        }
    }
    let root: Cow<'_, [f64]> = match &term.root {
        End::Fixed(node) => at(metric, &[*node]).into(),
        End::Chosen(_) => at_root?.into(),
    };
    let ends = term.terminals.iter().enumerate().map(|(i, terminal)| match terminal {
        End::Fixed(nodes) => Some(at(metric, nodes).into()),
        End::Chosen(_) => at_terminals[i].map(Cow::from),
    });
    let mut ends: Vec<Cow<'_, [f64]>> = ends.collect::<Option<_>>()?;
    match &term.via {
        _ if !ends.is_empty() => {}
        None => return None,
        // It ends where it has passed them.
        Some(via) => ends.push(at(metric, via).into()),
    }
    let times = term.multiplicity as f64;
    let start = term.via.as_ref().map(|via| only(via, &metric.forward_distances(times, &root)));
    let ends: Vec<&[f64]> = ends.iter().map(AsRef::as_ref).collect();
    let from = start.as_deref().unwrap_or(&root);
    let most = together(metric, ends.len());
    if let Some(shares) = shares.filter(|_| has_shares(metric, ends.len())) {
        let found = shares.of_groups.marginals(metric, times, from, (&ends, most), with_terminals);
        if !with_terminals {
            shares.of_paths.marginals(metric, times, from, (&ends, 1), false);
        }
        let passes = 1 + usize::from(with_terminals);
        let work = ends.len().div_ceil(most) * ((passes * metric.size()) << most);
        return Some(of_edges(term, metric, (prices, &root), found, work));
    }
    let mut trees = std::mem::take(kept);
    let mut passes = usize::from(with_terminals);
    if trees.is_empty() {
        trees = ends
            .chunks(together(metric, ends.len()))
            .map(|group| inside(metric, times * share(group, &ends), group))
            .collect();
        passes += 1;
    }
    let found = grouped(metric, times, from, (&ends, &trees), with_terminals);
    let used = match (&trees[..], wanted.edges_within) {
        ([whole], Some(gap)) if with_terminals && term.via.is_none() => {
            Some(found.edges_within(metric, times, whole, gap))
        }
        _ => None,
    };
    if !with_terminals {
        *kept = trees;
    }
    let together = together(metric, ends.len());
    let work =
        ends.len().div_ceil(together) * ((passes * metric.size()) << ends.len().min(together));
    Some(TermMarginals { used, ..of_edges(term, metric, (prices, &root), found, work) })
}

/// The marginals of a tree by the edges that pay `prices`, through the nodes that it must pass.
fn of_edges(
    term: &SteinerTerm,
    metric: &Metric,
    (prices, root): (&[(Slot, Vec<f64>)], &[f64]),
    mut found: Marginals,
    work: usize,
) -> TermMarginals {
    let mut from_root = match &term.via {
        None => std::mem::take(&mut found.from_root),
        Some(via) => {
            let times = term.multiplicity as f64;
            metric.backward_distances(times, &only(via, &found.from_root))
        }
    };
    let of_edge = |(slot, _): &(Slot, Vec<f64>)| match *slot {
        Slot::Root => {
            from_root.iter_mut().zip(root).for_each(|(on, root)| *on += root);
            Some(std::mem::take(&mut from_root))
        }
        Slot::Terminal(i) => found.of_terminal.get_mut(i).map(std::mem::take),
    };
    let of_edges = prices.iter().map(of_edge).collect();
    TermMarginals { least: found.least, of_edges, used: None, work }
}

/// Whether a tree to so many terminals has shares of edges, where they are used.
pub(crate) fn has_shares(metric: &Metric, terminals: usize) -> bool {
    terminals > together(metric, terminals) && EdgeShares::fit(metric, terminals, 1)
}

/// The number of terminals in each group, for so many terminals.
fn together(metric: &Metric, terminals: usize) -> usize {
    let fits = |&terminals: &usize| metric.size() << terminals <= EVALUATIONS;
    let most = (2..=TOGETHER).rev().find(fits).unwrap_or(2);
    if terminals <= most { most } else { most.min(GROUP) }
}

/// Price zero at these nodes, infinite at all others.
pub(crate) fn at(metric: &Metric, nodes: &[Node]) -> Vec<f64> {
    only(nodes, &vec![0.0; metric.nodes()])
}

/// These prices at these nodes only.
pub(crate) fn only(nodes: &[Node], prices: &[f64]) -> Vec<f64> {
    let mut kept = vec![UNREACHABLE; prices.len()];
    for &node in nodes {
        kept[node] = prices[node];
    }
    kept
}

/// The marginals of a tree to all ends, or of trees to groups of them, each at its share of the
/// cost. The root's min-marginal at a node is the least of what each group can spare there at its
/// share.
fn grouped(
    metric: &Metric,
    times: f64,
    root: &[f64],
    (ends, trees): (&[&[f64]], &[Inside]),
    with_terminals: bool,
) -> Marginals {
    if let [whole] = trees {
        return marginals(metric, times, root, (ends, whole), with_terminals);
    }
    let mut all = Marginals { from_root: vec![UNREACHABLE; root.len()], ..Marginals::default() };
    for (group, trees) in ends.chunks(together(metric, ends.len())).zip(trees) {
        let share = share(group, ends);
        let own_root: Vec<f64> = root.iter().map(|price| price * share).collect();
        let part = marginals(metric, times * share, &own_root, (group, trees), with_terminals);
        all.add(part, share);
    }
    all.above_least()
}

/// A group's share of the cost: as large as its share of the terminals.
fn share(group: &[&[f64]], ends: &[&[f64]]) -> f64 {
    group.len() as f64 / ends.len() as f64
}
