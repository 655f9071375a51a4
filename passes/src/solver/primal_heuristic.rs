//! A good assignment from the dual's prices: one variable after another takes its best choice.
//!
//! The first pass takes the variables in order, with the dual's prices for those not chosen yet
//! (sequential rounding, Kolmogorov 2006); further passes keep all others fixed, until nothing
//! improves (coordinate descent). Either way all choices of a variable are priced at once: for
//! every term of the variable, the trees to the other ends give the cost of each node as this end
//! ([`crate::solver::marginals::of_one`]). So a pass over the variables takes about as long as a
//! sweep of the dual, however many choices there are. The alternative, to evaluate choices one by
//! one, could afford a few dozen choices a variable and took ten times as long.
//!
//! The result is an upper bound only. Work counts towards the dual's limit.

use crate::solver::dual::{Dual, Slot};
use crate::solver::edge_shares::EdgeShares;
use crate::solver::factor::Factor;
use crate::solver::graph::Node;
use crate::solver::marginals::{Metric, UNREACHABLE, lesser, of_one, of_root, seconds};
use crate::solver::model::{End, SteinerTerm, Term};
use crate::solver::term_marginals::{at, only};

/// The limit of passes over the variables.
const PASSES: usize = 12;

/// Other ends of a term that are taken together; what has more is priced by the first of them.
const ENDS: usize = 8;

/// Terminals of a term that are considered for them, on either side in the order of the term: a
/// term may have ten thousand.
const NEIGHBOURS: usize = 32;

/// Ends taken together of a term that has more terminals than that.
const FEW_ENDS: usize = 2;

/// No pass begins once this many numbers were evaluated: a second or two.
const MOST_WORK: usize = 300_000_000;

/// The least relative improvement: sums in floating point differ in their last bits.
const ROUNDING: f64 = 1e-12;

/// A partial assignment.
pub(crate) struct PrimalHeuristic<'d, 'm> {
    dual: &'d mut Dual<'m>,
    chosen: Vec<Option<usize>>,
    /// The edge of each terminal of each term, if it is a variable's.
    edges_of_terminals: Vec<Vec<Option<usize>>>,
    /// The time of the last change of an end of each term, and of the last pricing of each
    /// variable.
    moved: Vec<usize>,
    priced: Vec<usize>,
    clock: usize,
}

impl<'d, 'm> PrimalHeuristic<'d, 'm> {
    /// With nothing chosen.
    pub(crate) fn new(dual: &'d mut Dual<'m>) -> Self {
        let (variables, terms) = (dual.unary.len(), dual.model.terms.len());
        let terminals = |term: &Term| match term {
            Term::Table(table) => table.factor.scope.len(),
            Term::Tree(tree) => tree.terminals.len(),
        };
        let mut edges_of_terminals: Vec<Vec<Option<usize>>> =
            dual.model.terms.iter().map(|term| vec![None; terminals(term)]).collect();
        for (number, edge) in dual.edges.iter().enumerate() {
            if let Slot::Terminal(i) = edge.slot {
                edges_of_terminals[edge.term][i] = Some(number);
            }
        }
        Self {
            dual,
            chosen: vec![None; variables],
            edges_of_terminals,
            moved: vec![0; terms],
            priced: vec![0; variables],
            clock: 1,
        }
    }

    /// With all chosen already.
    pub(crate) fn from(dual: &'d mut Dual<'m>, assignment: &[usize]) -> Self {
        let chosen = assignment.iter().copied().map(Some).collect();
        let mut this = Self { chosen, ..Self::new(dual) };
        this.moved.fill(1);
        this
    }

    /// A choice of every variable, if a feasible assignment was found in time.
    pub(crate) fn run(mut self) -> Option<Vec<usize>> {
        let before = self.dual.work;
        for pass in 0..PASSES {
            let mut improved = false;
            for i in 0..self.chosen.len() {
                if self.dual.interrupt.is_due() {
                    return self.chosen.into_iter().collect();
                }
                let variable = if pass % 2 == 0 { i } else { self.chosen.len() - 1 - i };
                improved |= self.improve(variable)?;
            }
            if !improved || self.dual.work > before + MOST_WORK {
                break;
            }
        }
        self.chosen.into_iter().collect()
    }

    /// Takes the best choice of a variable given all others; returns whether it changed, or `None`
    /// if no choice is feasible.
    fn improve(&mut self, variable: usize) -> Option<bool> {
        let edges = &self.dual.edges_of_variable[variable];
        let stale = edges
            .iter()
            .any(|&edge| self.moved[self.dual.edges[edge].term] >= self.priced[variable]);
        let before = self.chosen[variable];
        if before.is_some() && !stale {
            return Some(false);
        }
        let costs = self.costs(variable);
        self.priced[variable] = self.clock;
        self.clock += 1;
        let least = costs.iter().copied().fold(UNREACHABLE, f64::min);
        if least == UNREACHABLE {
            return None;
        }
        let enough = least + ROUNDING * least.abs();
        if before.is_some_and(|before| costs[before] <= enough) {
            return Some(false);
        }
        let best = costs.iter().position(|&cost| cost <= enough)?;
        self.chosen[variable] = Some(best);
        for &edge in &self.dual.edges_of_variable[variable] {
            self.moved[self.dual.edges[edge].term] = self.clock;
        }
        // Its own change leaves its choice the best.
        self.clock += 1;
        self.priced[variable] = self.clock;
        Some(true)
    }

    /// The cost of each choice of a variable, with all its terms.
    fn costs(&mut self, variable: usize) -> Vec<f64> {
        let known = self.dual.unary[variable].iter().zip(&self.dual.reduced_cost[variable]);
        let left = |(&own, &reduced): (&f64, &f64)| {
            if reduced < UNREACHABLE { own } else { UNREACHABLE }
        };
        let mut costs: Vec<f64> = known.map(left).collect();
        let edges = self.dual.edges_of_variable[variable].clone();
        for (i, &number) in edges.iter().enumerate() {
            // Where two ends of a tree are always at the same node, one is enough.
            let edge = &self.dual.edges[number];
            let mut earlier = edges[..i].iter().map(|&other| &self.dual.edges[other]);
            if earlier.any(|other| edge.is_repeated_by(other)) {
                continue;
            }
            let of_labels = self.of_labels(number);
            costs
                .iter_mut()
                .zip(self.dual.edges[number].labels())
                .for_each(|(cost, label)| *cost += of_labels[label]);
        }
        costs
    }

    /// The cost of the term of an edge for every label of this end, given the chosen places of
    /// other ends.
    fn of_labels(&mut self, edge: usize) -> Vec<f64> {
        let asked = &self.dual.edges[edge];
        let model = self.dual.model;
        match &model.terms[asked.term] {
            Term::Table(table) => self.of_classes(edge, &table.factor),
            Term::Tree(tree) => self.of_nodes(edge, tree, model.graphs[tree.graph].metric()),
        }
    }

    /// The same for a table.
    fn of_classes(&mut self, asked: usize, factor: &Factor) -> Vec<f64> {
        let edges = &self.dual.edges_of_term[self.dual.edges[asked].term];
        let prices: Vec<Vec<f64>> = edges
            .iter()
            .map(|&edge| match self.label(edge) {
                _ if edge == asked => vec![0.0; self.dual.edges[edge].count()],
                Some(label) => (0..self.dual.edges[edge].count())
                    .map(|other| if other == label { 0.0 } else { UNREACHABLE })
                    .collect(),
                None => self.dual.edges[edge].of_term(),
            })
            .collect();
        let here = edges.iter().position(|&edge| edge == asked).unwrap_or(0);
        let mut least = vec![UNREACHABLE; prices[here].len()];
        for (place, &weight) in factor.table.iter().enumerate() {
            let label = |i: usize| place / factor.strides[i] % prices[i].len();
            let paid: f64 = prices.iter().enumerate().map(|(i, prices)| prices[label(i)]).sum();
            least[label(here)] = lesser(least[label(here)], seconds(weight) + paid);
        }
        self.dual.work += factor.table.len() * prices.len();
        least
    }

    /// The same for a tree.
    fn of_nodes(&mut self, edge: usize, tree: &SteinerTerm, metric: &Metric) -> Vec<f64> {
        let asked = &self.dual.edges[edge];
        let (slot, times) = (asked.slot, tree.multiplicity as f64);
        let root = match tree.root {
            End::Fixed(node) => at(metric, &[node]),
            End::Chosen(_) if slot == Slot::Root => Vec::new(),
            End::Chosen(_) => self.root(metric, asked.term),
        };
        if let (Slot::Terminal(i), Some(shares)) = (slot, self.shares_while_open(asked.term)) {
            let start = match &tree.via {
                Some(via) => only(via, &metric.forward_distances(times, &root)),
                None => root,
            };
            let paths = shares.to_terminal(metric, times, &start, i);
            self.dual.work += metric.size();
            return paths;
        }
        let ends = self.other_ends(metric, tree, edge);
        let ends: Vec<&[f64]> = ends.iter().map(Vec::as_slice).collect();
        self.dual.work += metric.size() << ends.len();
        match (slot, &tree.via) {
            (Slot::Root, None) => of_root(metric, times, &ends),
            (Slot::Root, Some(via)) => {
                metric.backward_distances(times, &only(via, &of_root(metric, times, &ends)))
            }
            (Slot::Terminal(_), None) => of_one(metric, times, &root, &ends),
            (Slot::Terminal(_), Some(via)) => {
                of_one(metric, times, &only(via, &metric.forward_distances(times, &root)), &ends)
            }
        }
    }

    /// The shares of edges of a tree to many terminals, while some of them are not chosen yet: they
    /// lead all terminals to the same nodes, which one terminal alone would not pay for.
    fn shares_while_open(&self, term: usize) -> Option<&EdgeShares> {
        let shares = self.dual.shares.get(term).map(|shares| &shares.of_paths)?;
        let is_open = |&edge: &usize| self.chosen[self.dual.edges[edge].variable].is_none();
        // The last ones are chosen last.
        let mut edges = self.dual.edges_of_term[term].iter().rev();
        (shares.is_set() && edges.any(is_open)).then_some(shares)
    }

    /// The prices of the nodes of other terminals of a tree, each different one once.
    fn other_ends(&self, metric: &Metric, tree: &SteinerTerm, asked: usize) -> Vec<Vec<f64>> {
        let asked = &self.dual.edges[asked];
        let here = if let Slot::Terminal(i) = asked.slot { i } else { 0 };
        let around = here.saturating_sub(NEIGHBOURS)..tree.terminals.len().min(here + NEIGHBOURS);
        let most = if tree.terminals.len() > NEIGHBOURS { FEW_ENDS } else { ENDS };
        let (mut ends, mut seen): (Vec<Vec<f64>>, Vec<Node>) = (Vec::new(), Vec::new());
        for i in around.filter(|&i| asked.slot != Slot::Terminal(i)) {
            match (&tree.terminals[i], self.edges_of_terminals[asked.term][i]) {
                (End::Fixed(nodes), _) => ends.push(at(metric, nodes)),
                (End::Chosen(end), Some(edge)) if end.variable != asked.variable => {
                    match self.label(edge) {
                        Some(node) if seen.contains(&node) => {}
                        Some(node) => {
                            seen.push(node);
                            ends.push(at(metric, &[node]));
                        }
                        None => ends.push(self.dual.edges[edge].of_term()),
                    }
                }
                (End::Chosen(_), _) => {}
            }
            if ends.len() == most {
                break;
            }
        }
        ends
    }

    /// The prices of the nodes at which a tree may begin.
    fn root(&self, metric: &Metric, term: usize) -> Vec<f64> {
        let mut edges = self.dual.edges_of_term[term].iter().copied();
        let edge = edges
            .find(|&edge| self.dual.edges[edge].slot == Slot::Root)
            .expect("a chosen root has an edge with its variable");
        self.label(edge).map_or_else(|| self.dual.edges[edge].of_term(), |node| at(metric, &[node]))
    }

    /// The label of an edge, if its variable is chosen.
    fn label(&self, edge: usize) -> Option<Node> {
        let edge = &self.dual.edges[edge];
        self.chosen[edge.variable].map(|choice| edge.label(choice))
    }
}
