//! A lower bound for any model, however wide, in time that grows with its length: block-coordinate
//! ascent on the dual of its linear relaxation.
//!
//! The model is decomposed into its variables (each alone takes its cheapest choice) and its terms
//! (each alone takes its cheapest tree or table entry, see [`crate::solver::marginals`]), which
//! must agree on a label wherever a term depends on a variable: a *consistency edge*. An edge has a
//! dual price for each label that the variable pays and the term gets back; for any prices, the sum
//! of all minima is a lower bound of the cost of every assignment. Messages change the prices so
//! that the sum grows: forwards and backwards through the order of the variables, every subproblem
//! sends what its choices cost more than its least (its *min-marginals*) on to those that come
//! next, in even shares (sequential reweighted message passing: TRW-S, Kolmogorov 2006, and SRMP,
//! Kolmogorov 2015; MPLP, Globerson and Jaakkola 2007, is the parallel relative). The sum never
//! falls.
//!
//! Beside the bound this yields, for every choice, a lower bound of the assignments with it.
//! Reduced-cost fixing removes each choice whose *reduced cost* exceeds the optimality gap to a
//! known solution; mostly few choices remain, for which elimination is exact. Good solutions are
//! searched among the choices with the least reduced costs. [`crate::solver::anytime`] combines the
//! three. Alternatives: mini-buckets alone leave gaps of ten percent on three-axis sharding
//! problems; a general linear-programming solver takes minutes for what these sweeps do in
//! milliseconds, for the trees are dynamic programmes.

use std::sync::Arc;

use crate::solver::edge_shares::TreeShares;
use crate::solver::graph::Node;
use crate::solver::interrupt::Interrupt;
use crate::solver::marginals::{UNREACHABLE, lesser, seconds};
use crate::solver::model::{End, Model, Placement, SteinerTerm, Term, UnaryCosts};
use crate::solver::term_marginals::{self, Subtrees, TermMarginals, Wanted};
use crate::solver::used_edges::UsedEdges;

/// Relative differences below this are rounding errors.
const ROUNDING: f64 = 1e-9;

/// An end of a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// The root of a tree.
    Root,
    /// A terminal of a tree, or a variable of a table's scope.
    Terminal(usize),
}

/// A variable and a term that must agree on a label: a node of a tree's graph, or a class of a
/// table.
#[derive(Clone)]
pub(crate) struct ConsistencyEdge {
    pub(crate) variable: usize,
    pub(crate) term: usize,
    pub(crate) slot: Slot,
    /// The label that each choice of the variable has here: contiguous, for there may be a million
    /// choices.
    labels: Arc<[u32]>,
    /// The price that the variable pays, and the term receives, for each label.
    price: Vec<f64>,
    /// Labels that some assignment below the upper bound may have here.
    live: Vec<bool>,
}

impl ConsistencyEdge {
    fn new((variable, term, slot): (usize, usize, Slot), labels: Arc<[u32]>, count: usize) -> Self {
        let mut live = vec![false; count];
        for &label in &*labels {
            live[label as usize] = true;
        }
        Self { variable, term, slot, labels, price: vec![0.0; count], live }
    }

    /// The label of a choice.
    pub(crate) fn label(&self, choice: usize) -> Node {
        self.labels[choice] as Node
    }

    /// How many labels there are.
    pub(crate) fn count(&self) -> usize {
        self.price.len()
    }

    /// For every choice of the variable, its label.
    pub(crate) fn labels(&self) -> impl Iterator<Item = Node> {
        self.labels.iter().map(|&label| label as Node)
    }

    /// Whether another edge joins the same variable and term with the same labels.
    pub(crate) fn is_repeated_by(&self, other: &Self) -> bool {
        other.term == self.term && other.labels == self.labels
    }

    /// What the variable pays for a label.
    fn of_variable(&self, label: u32) -> f64 {
        let label = label as usize;
        if self.live[label] { self.price[label] } else { UNREACHABLE }
    }

    /// What the term pays for each label.
    pub(crate) fn of_term(&self) -> Vec<f64> {
        let labels = self.live.iter().zip(&self.price);
        labels.map(|(&live, &price)| if live { -price } else { UNREACHABLE }).collect()
    }

    /// Makes the min-marginals of the labels from the costs of the choices.
    fn marginal_of(&self, costs: &[f64], marginal: &mut Vec<f64>) {
        marginal.clear();
        marginal.resize(self.price.len(), UNREACHABLE);
        for (&label, &cost) in self.labels.iter().zip(costs) {
            let least = &mut marginal[label as usize];
            *least = lesser(*least, cost);
        }
    }

    /// Subtracts `share` of the min-marginals of the labels from the variable (or, if negative,
    /// from the term).
    fn send_message(&mut self, marginal: &[f64], least: f64, share: f64) {
        for (price, marginal) in
            self.price.iter_mut().zip(marginal).filter(|(_, marginal)| **marginal < UNREACHABLE)
        {
            *price -= share * (marginal - least);
        }
    }
}

/// A variable or a term: minimised independently of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Variable(usize),
    Term(usize),
}

/// The dual prices of all consistency edges, with the bound and the reduced costs that follow.
#[derive(Clone)]
pub(crate) struct Dual<'m> {
    pub(crate) model: &'m Model,
    pub(crate) edges: Vec<ConsistencyEdge>,
    pub(crate) edges_of_variable: Vec<Vec<usize>>,
    pub(crate) edges_of_term: Vec<Vec<usize>>,
    /// All blocks in the order of a forward pass.
    order: Vec<Block>,
    position_of_variable: Vec<usize>,
    position_of_term: Vec<usize>,
    /// The unary costs.
    pub(crate) unary: Vec<Vec<f64>>,
    least_of_variable: Vec<f64>,
    least_of_term: Vec<f64>,
    /// Trees to the terminals of each term as of the backward pass: nothing that they depend on
    /// changes until the forward pass reaches the term.
    kept: Vec<Subtrees>,
    /// For each term, the edges that trees below the upper bound may use.
    used_edges: Vec<UsedEdges>,
    /// For each term, the shares of edges of a tree to many terminals; none until they are used.
    pub(crate) shares: Vec<TreeShares>,
    /// For each choice, its reduced cost as of the last sweep: the least excess over the bound of
    /// an assignment with it; infinite if the choice was removed.
    pub(crate) reduced_cost: Vec<Vec<f64>>,
    /// The upper bound: the cost of a known assignment, in seconds.
    pub(crate) upper_bound: f64,
    /// The bound before the current pass.
    before: f64,
    /// Numbers evaluated so far.
    pub(crate) work: usize,
    /// The costs of choices and the min-marginals of labels that are computed now: memory that is
    /// used again and again.
    buffers: (Vec<f64>, Vec<f64>),
    /// What ends a pass before its last block.
    pub(crate) interrupt: Interrupt,
}

impl<'m> Dual<'m> {
    /// With all prices at zero.
    pub(crate) fn new(model: &'m Model, interrupt: &Interrupt) -> Self {
        let (variables, terms) = (model.unary.len(), model.terms.len());
        let in_seconds = |costs: &Vec<_>| costs.iter().copied().map(seconds).collect();
        let mut this = Self {
            model,
            edges: Vec::new(),
            edges_of_variable: vec![Vec::new(); variables],
            edges_of_term: vec![Vec::new(); terms],
            order: Vec::new(),
            position_of_variable: vec![0; variables],
            position_of_term: vec![0; terms],
            unary: model.unary.iter().map(in_seconds).collect(),
            least_of_variable: vec![0.0; variables],
            least_of_term: vec![0.0; terms],
            kept: vec![Subtrees::default(); terms],
            used_edges: vec![UsedEdges::ALL; terms],
            shares: Vec::new(),
            reduced_cost: model.unary.iter().map(|costs| vec![0.0; costs.len()]).collect(),
            upper_bound: UNREACHABLE,
            before: 0.0,
            work: 0,
            buffers: Default::default(),
            interrupt: interrupt.clone(),
        };
        for (number, term) in model.terms.iter().enumerate() {
            this.connect(number, term);
        }
        this.set_order();
        this
    }

    /// Uses shares of edges for trees to many terminals from now on; whether that is new.
    pub(crate) fn share_edges(&mut self) -> bool {
        let has_shares = |term: &Term| match term {
            Term::Table(_) => false,
            Term::Tree(tree) => term_marginals::has_shares(
                self.model.graphs[tree.graph].metric(),
                tree.terminals.len(),
            ),
        };
        let terms = &self.model.terms;
        let is_new = self.shares.is_empty() && terms.iter().any(has_shares);
        if is_new {
            self.shares = vec![TreeShares::default(); terms.len()];
        }
        is_new
    }

    /// Begins again from prices of zero, with shares of edges: prices at which even shares raise
    /// the bound no more hold the others back as well. Choices and edges that were removed stay
    /// removed.
    pub(crate) fn restart(&mut self) {
        let shares = vec![TreeShares::default(); self.shares.len()];
        let reduced_cost = std::mem::take(&mut self.reduced_cost);
        let used_edges = std::mem::take(&mut self.used_edges);
        let (upper_bound, work) = (self.upper_bound, self.work);
        let fresh = Self::new(self.model, &self.interrupt);
        *self = Self { used_edges, shares, reduced_cost, upper_bound, work, ..fresh };
    }

    fn connect(&mut self, number: usize, term: &Term) {
        let mut add = |variable: usize, slot: Slot, labels: Arc<[u32]>, count: usize| {
            self.edges_of_variable[variable].push(self.edges.len());
            self.edges_of_term[number].push(self.edges.len());
            self.edges.push(ConsistencyEdge::new((variable, number, slot), labels, count));
        };
        match term {
            Term::Table(table) => {
                let factor = &table.factor;
                for (i, (&variable, classes)) in
                    factor.scope.iter().zip(&factor.classes).enumerate()
                {
                    add(variable, Slot::Terminal(i), classes[..].into(), factor.classes_of(i));
                }
            }
            // It would keep what it is sent.
            Term::Tree(tree) if tree.is_free() => {}
            Term::Tree(tree) => {
                let nodes = self.model.graphs[tree.graph].nodes();
                if let End::Chosen(Placement { variable, nodes: labels }) = &tree.root {
                    add(*variable, Slot::Root, Arc::clone(labels), nodes);
                }
                for (i, terminal) in tree.terminals.iter().enumerate() {
                    if let End::Chosen(Placement { variable, nodes: labels }) = terminal {
                        add(*variable, Slot::Terminal(i), Arc::clone(labels), nodes);
                    }
                }
            }
        }
    }

    /// A tree comes after the variable that places its root, any other term before the first
    /// variable of its scope.
    fn set_order(&mut self) {
        let place = |(number, edges): (usize, &Vec<usize>)| {
            let root = edges.iter().map(|&edge| &self.edges[edge]).find(|e| e.slot == Slot::Root);
            let first = edges.iter().map(|&edge| self.edges[edge].variable).min().unwrap_or(0);
            let place = root.map_or((first, 0), |edge| (edge.variable, 2));
            (place, Block::Term(number))
        };
        let terms = self.edges_of_term.iter().enumerate().map(place);
        let variables = (0..self.edges_of_variable.len())
            .map(|variable| ((variable, 1), Block::Variable(variable)));
        let mut placed: Vec<((usize, usize), Block)> = terms.chain(variables).collect();
        placed.sort_by_key(|(place, _)| *place);
        self.order = placed.into_iter().map(|(_, block)| block).collect();
        for (position, block) in self.order.iter().enumerate() {
            match *block {
                Block::Variable(variable) => self.position_of_variable[variable] = position,
                Block::Term(term) => self.position_of_term[term] = position,
            }
        }
    }

    /// The lower bound, in seconds.
    pub(crate) fn bound(&self) -> f64 {
        let blocks = self.least_of_variable.iter().chain(&self.least_of_term);
        seconds(self.model.constant) + blocks.sum::<f64>()
    }

    /// Replaces the unary costs, infinite for forbidden choices; the prices of the edges stay, and
    /// all removed choices are restored.
    pub(crate) fn reprice(&mut self, unary: &UnaryCosts) {
        self.unary = unary
            .iter()
            .map(|costs| costs.iter().map(|&weight| seconds(weight)).collect())
            .collect();
        let reset = |&own: &f64| if own < UNREACHABLE { 0.0 } else { UNREACHABLE };
        self.reduced_cost =
            self.unary.iter().map(|costs| costs.iter().map(reset).collect()).collect();
        // Until a pass computes them.
        self.least_of_variable.fill(f64::NEG_INFINITY);
        self.least_of_term.fill(f64::NEG_INFINITY);
        self.kept.fill(Subtrees::default());
        self.used_edges.fill(UsedEdges::ALL);
        for edge in &mut self.edges {
            edge.live.fill(false);
            let allowed = edge.labels.iter().zip(&self.unary[edge.variable]);
            for (&label, _) in allowed.filter(|(_, own)| **own < UNREACHABLE) {
                edge.live[label as usize] = true;
            }
        }
    }

    /// A forward and a backward pass; returns the bound.
    pub(crate) fn sweep(&mut self) -> f64 {
        self.pass(true);
        self.pass(false);
        self.bound()
    }

    /// One pass. It may end at any block: a message only raises the minimum of its receiver, so
    /// the minima that are known bound those that were not computed again.
    fn pass(&mut self, forwards: bool) {
        self.before = self.bound();
        let last = self.order.len();
        for i in 0..last {
            if self.interrupt.is_due() {
                return;
            }
            match self.order[if forwards { i } else { last - 1 - i }] {
                Block::Variable(variable) => self.balance_variable(variable, forwards),
                Block::Term(term) => self.balance_term(term, forwards),
            }
        }
    }

    /// Whether an edge leads from a block to a later one.
    fn is_next(&self, edge: usize, block: Block, forwards: bool) -> bool {
        let ConsistencyEdge { variable, term, .. } = self.edges[edge];
        let (variable, term) = (self.position_of_variable[variable], self.position_of_term[term]);
        let is_later = match block {
            Block::Variable(_) => term > variable,
            Block::Term(_) => variable > term,
        };
        is_later == forwards
    }

    /// The share that is sent along each edge that leads to a later block.
    fn share(&self, edges: &[usize], block: Block) -> f64 {
        let ahead = edges.iter().filter(|&&edge| self.is_next(edge, block, true)).count();
        1.0 / ahead.max(edges.len() - ahead).max(1) as f64
    }

    /// The largest excess of a block over its minimum in an assignment below the upper bound. It is
    /// computed from the bound before this pass, which only rises.
    fn optimality_gap(&self) -> f64 {
        self.upper_bound * (1.0 + ROUNDING) - self.before
    }

    /// Makes the cost of each choice of a variable, with the prices of its edges.
    pub(crate) fn price_choices(&self, variable: usize, edges: &[usize], costs: &mut Vec<f64>) {
        let known = self.unary[variable].iter().zip(&self.reduced_cost[variable]);
        let left = |(&own, &reduced): (&f64, &f64)| {
            if reduced < UNREACHABLE { own } else { UNREACHABLE }
        };
        costs.clear();
        costs.extend(known.map(left));
        for edge in edges.iter().map(|&edge| &self.edges[edge]) {
            let choices = costs.iter_mut().zip(edge.labels.iter());
            choices.for_each(|(cost, &label)| *cost += edge.of_variable(label));
        }
    }

    fn balance_variable(&mut self, variable: usize, forwards: bool) {
        let edges = std::mem::take(&mut self.edges_of_variable[variable]);
        let (mut costs, mut marginal) = std::mem::take(&mut self.buffers);
        self.price_choices(variable, &edges, &mut costs);
        let least = costs.iter().copied().fold(UNREACHABLE, f64::min);
        self.work += costs.len() * (1 + edges.len());
        self.least_of_variable[variable] = least;
        if least < UNREACHABLE {
            self.send_of_variable(variable, forwards, (&edges, least), (&mut costs, &mut marginal));
        }
        self.edges_of_variable[variable] = edges;
        self.buffers = (costs, marginal);
    }

    /// Sends what the choices of a variable cost more than the least.
    fn send_of_variable(
        &mut self,
        variable: usize,
        forwards: bool,
        (edges, least): (&[usize], f64),
        (costs, marginal): (&mut [f64], &mut Vec<f64>),
    ) {
        let gap = self.optimality_gap();
        for (cost, reduced) in costs.iter_mut().zip(&mut self.reduced_cost[variable]) {
            *reduced = if *cost - least > gap { UNREACHABLE } else { *cost - least };
            *cost = *reduced + least;
        }
        let block = Block::Variable(variable);
        let share = self.share(edges, block);
        for &number in edges {
            let next = self.is_next(number, block, forwards);
            let edge = &mut self.edges[number];
            edge.marginal_of(costs, marginal);
            for (live, marginal) in edge.live.iter_mut().zip(&*marginal) {
                *live &= *marginal < UNREACHABLE;
            }
            if next {
                edge.send_message(marginal, least, share);
            }
        }
    }

    fn balance_term(&mut self, number: usize, forwards: bool) {
        let edges = self.edges_of_term[number].clone();
        let block = Block::Term(number);
        let share = self.share(&edges, block);
        let is_next = |edge: usize| self.is_next(edge, block, forwards);
        let with_terminals =
            edges.iter().any(|&edge| is_next(edge) && self.edges[edge].slot != Slot::Root);
        let Some((least, marginals)) = self.of_term(number, &edges, with_terminals) else {
            self.least_of_term[number] = 0.0;
            return;
        };
        self.least_of_term[number] = least;
        if least == UNREACHABLE {
            return;
        }
        let gap = self.optimality_gap();
        for (edge, marginal) in edges.into_iter().zip(marginals) {
            let next = self.is_next(edge, block, forwards);
            let (edge, Some(marginal)) = (&mut self.edges[edge], marginal) else { continue };
            for (live, marginal) in edge.live.iter_mut().zip(&marginal) {
                *live &= marginal - least <= gap;
            }
            if next {
                edge.send_message(&marginal, least, -share);
            }
        }
    }

    /// A term's minimum, and for each of its edges the minimum for each label, for terminals only
    /// if requested; `None` for a tree that is free.
    fn of_term(
        &mut self,
        number: usize,
        edges: &[usize],
        with_terminals: bool,
    ) -> Option<(f64, Vec<Option<Vec<f64>>>)> {
        let prices: Vec<(Slot, Vec<f64>)> =
            edges.iter().map(|&edge| (self.edges[edge].slot, self.edges[edge].of_term())).collect();
        let found = match &self.model.terms[number] {
            Term::Table(table) => term_marginals::of_table(&table.factor, &prices),
            Term::Tree(tree) => self.of_tree(number, tree, &prices, with_terminals)?,
        };
        self.work += found.work;
        Some((found.least, found.of_edges))
    }

    fn of_tree(
        &mut self,
        number: usize,
        tree: &SteinerTerm,
        prices: &[(Slot, Vec<f64>)],
        terminals: bool,
    ) -> Option<TermMarginals> {
        let gap = self.optimality_gap();
        let edges_within = self.used_edges[number].smaller_gap(gap);
        let state = (&mut self.kept[number], self.shares.get_mut(number));
        let all = self.model.graphs[tree.graph].metric();
        let metric = self.used_edges[number].metric(all);
        let wanted = Wanted { terminals, edges_within };
        let found = term_marginals::of_tree(tree, metric, prices, state, wanted)?;
        if let Some(used) = &found.used {
            self.used_edges[number].reduce(all, used, gap);
        }
        Some(found)
    }
}
