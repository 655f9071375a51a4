//! The solver's input: a sum of costs over variables with finite domains.
//!
//! A model is a *weighted constraint satisfaction problem* (Cooper et al. 2010) with two kinds of
//! terms. A [`CostTable`] lists the cost of every combination of a few variables' choices. A
//! [`SteinerTerm`] costs as much as the cheapest tree in a graph from a root to its terminals,
//! where the choices of variables determine the nodes at the ends of the tree: a table of it would
//! grow with the product of the domains, while its bounds are computed on the graph
//! ([`crate::solver::marginals`]). A [`Capacity`] limits what
//! single choices demand at moments. An infeasible choice costs [`Weight::INFINITE`].

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use smallvec::smallvec;

use crate::solver::dreyfus_wagner::{Terminal, Trees};
use crate::solver::factor::{Factor, classify};
use crate::solver::graph::{Graph, Node};
use crate::solver::weight::Weight;

/// The costs of single choices: for each variable, one number a choice.
pub type UnaryCosts = Vec<Vec<Weight>>;

/// A minimisation problem over finite domains.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// The unary cost of every choice of every variable; the lengths are the sizes of the domains.
    /// Of equally good choices the first is preferred.
    pub unary: UnaryCosts,
    /// The terms: costs of combinations of choices.
    pub terms: Vec<Term>,
    /// The graphs of the Steiner-tree terms.
    pub graphs: Vec<Arc<Graph>>,
    /// The capacity that an assignment must keep.
    pub capacity: Capacity,
    /// A constant cost.
    pub constant: Weight,
}

/// A cost that depends on the choices of several variables.
#[derive(Clone, Debug)]
pub enum Term {
    /// A cost for each combination.
    Table(CostTable),
    /// A tree between nodes that the choices name.
    Tree(SteinerTerm),
}

/// A cost for each combination of choices of a few variables.
#[derive(Clone, Debug)]
pub struct CostTable {
    pub(crate) factor: Factor,
}

impl CostTable {
    /// Tabulates `cost` over each combination of the `scope`'s choices, where the
    /// variables of the scope, all different, have domains of these sizes.
    pub fn new(scope: Vec<usize>, domains: &[usize], cost: impl Fn(&[usize]) -> Weight) -> Self {
        let mut strides = Vec::with_capacity(domains.len());
        let size = domains.iter().fold(1, |size, &domain| {
            strides.push(size);
            size * domain
        });
        let combination = |place: usize| -> Vec<usize> {
            strides.iter().zip(domains).map(|(stride, domain)| place / stride % domain).collect()
        };
        let table = (0..size).map(|place| cost(&combination(place))).collect();
        let classes = domains.iter().map(|&domain| (0..domain as u32).collect()).collect();
        Self { factor: Factor { scope, classes, strides, table } }
    }

    /// Tabulates a cost that depends on the choices of the `scope`'s variables only through a
    /// number for each choice. Of variables that would make more than `most` combinations the last
    /// ones are left out.
    pub(crate) fn over_numbers(
        mut scope: Vec<usize>,
        numbers: &[Vec<f64>],
        most: usize,
        cost: impl Fn(&[f64]) -> Weight,
    ) -> Self {
        let mut classes = Vec::with_capacity(scope.len());
        let mut distinct: Vec<Vec<f64>> = Vec::with_capacity(scope.len());
        let mut size = 1;
        for numbers in numbers {
            let (of_choices, of_classes) = classify(numbers.iter().map(|number| number.to_bits()));
            size *= of_classes.len();
            if size > most {
                break;
            }
            classes.push(of_choices);
            distinct.push(of_classes.into_iter().map(f64::from_bits).collect());
        }
        scope.truncate(classes.len());
        let counts: Vec<usize> = distinct.iter().map(Vec::len).collect();
        let of_classes = Self::new(scope.clone(), &counts, |combination| {
            let numbers = distinct.iter().zip(combination).map(|(of, &class)| of[class]);
            cost(&numbers.collect::<Vec<f64>>())
        });
        Self { factor: Factor { classes, ..of_classes.factor } }
    }

    /// Whether every combination costs nothing.
    pub(crate) fn is_zero(&self) -> bool {
        self.factor.table.iter().all(|&cost| cost == Weight::ZERO)
    }
}

/// The cheapest tree from a root to terminals, its edges paid `multiplicity` times.
#[derive(Clone, Debug)]
pub struct SteinerTerm {
    /// The number of its graph among [`Model::graphs`].
    pub graph: usize,
    /// The root.
    pub root: End<Node>,
    /// Nodes, one of which the tree must pass before it forks, if any.
    pub via: Option<Terminal>,
    /// The terminals.
    pub terminals: Vec<End<Terminal>>,
    /// How often the weight of each edge counts.
    pub multiplicity: u64,
}

/// The place of an end of a tree.
#[derive(Clone, Debug)]
pub enum End<Fixed> {
    /// A fixed node.
    Fixed(Fixed),
    /// The node that a choice names.
    Chosen(Placement),
}

/// A node for each choice of a variable.
#[derive(Clone, Debug)]
pub struct Placement {
    /// The variable.
    pub variable: usize,
    /// One node a choice; shared, for there may be a million choices.
    pub nodes: Arc<[u32]>,
}

/// A limit on what choices demand at each of several moments:
/// `constant of the moment + Σ numbers of the choices that are live then ≤ limit`.
///
/// A demand is live during an interval of moments, as a tensor is in memory, so that thousands of
/// rows with thousands of entries each take one entry for each variable.
#[derive(Clone, Debug, Default)]
pub struct Capacity {
    /// For each moment, the constant part; without moments nothing is limited.
    pub constants: Vec<f64>,
    /// What choices demand.
    pub demands: Vec<Demand>,
    /// The limit of the sum at each moment.
    pub limit: f64,
}

/// What each choice of a variable demands while it is live.
#[derive(Clone, Debug)]
pub struct Demand {
    /// The variable.
    pub variable: usize,
    /// The moments at which it is live.
    pub live: Range<usize>,
    /// A number for each choice.
    pub numbers: Arc<[f64]>,
}

impl Capacity {
    /// By how much an assignment exceeds the limit at each moment; negative where it stays below.
    pub fn excess(&self, assignment: &[usize]) -> Vec<f64> {
        let mut changes = vec![0.0; self.constants.len() + 1];
        for Demand { variable, live, numbers } in &self.demands {
            changes[live.start] += numbers[assignment[*variable]];
            changes[live.end] -= numbers[assignment[*variable]];
        }
        let mut sum = -self.limit;
        let moments = self.constants.iter().zip(changes);
        moments
            .map(|(constant, change)| {
                sum += change;
                sum + constant
            })
            .collect()
    }

    /// Whether an assignment keeps the limit at every moment.
    pub fn holds(&self, assignment: &[usize]) -> bool {
        let tolerance = ROUNDING * self.limit.abs();
        self.excess(assignment).into_iter().all(|excess| excess <= tolerance)
    }
}

/// Rounding errors of sums of demands, as a share of the limit.
const ROUNDING: f64 = 1e-12;

impl Model {
    /// The model without its capacity and with only the choices `kept`, each variable's in
    /// ascending order.
    pub(crate) fn restricted(&self, kept: &[Vec<usize>]) -> Self {
        self.restricted_to(kept, &self.terms)
    }

    /// The same with some of the terms.
    pub(crate) fn restricted_to<'t>(
        &self,
        kept: &[Vec<usize>],
        terms: impl IntoIterator<Item = &'t Term>,
    ) -> Self {
        let pick = |variable: usize, of: &[Weight]| -> Vec<Weight> {
            kept[variable].iter().map(|&choice| of[choice]).collect()
        };
        let unary = self.unary.iter().enumerate().map(|(v, costs)| pick(v, costs)).collect();
        let terms = terms.into_iter().map(|term| term.restricted(kept)).collect();
        Self {
            unary,
            terms,
            graphs: self.graphs.clone(),
            capacity: Capacity::default(),
            constant: self.constant,
        }
    }

    /// An empty table of Dreyfus and Wagner for each graph.
    pub fn tree_tables(&self) -> Vec<Trees<'_>> {
        self.graphs.iter().map(|graph| Trees::new(graph)).collect()
    }

    /// Prepares the graphs for bounds, side by side.
    pub(crate) fn prepare_metrics(&self) {
        self.graphs.par_iter().for_each(|graph| {
            graph.metric();
        });
    }

    /// The cost of an assignment; infinite if it is infeasible. The capacity is ignored.
    pub fn cost(&self, assignment: &[usize], trees: &mut [Trees<'_>]) -> Weight {
        let unary: Weight =
            self.unary.iter().zip(assignment).map(|(costs, &choice)| costs[choice]).sum();
        let terms: Weight = self.terms.iter().map(|term| term.cost(assignment, trees)).sum();
        self.constant + unary + terms
    }

    /// Whether every term of an assignment has a finite cost. The capacity is ignored.
    ///
    /// The first trees of a large graph take longest: those of different graphs are computed side
    /// by side.
    pub(crate) fn is_feasible(&self, assignment: &[usize], trees: &mut [Trees<'_>]) -> bool {
        let mut of_graph: Vec<Vec<&SteinerTerm>> = vec![Vec::new(); trees.len()];
        for term in &self.terms {
            match term {
                Term::Table(table) if table.factor.price(assignment).is_finite() => {}
                Term::Table(_) => return false,
                Term::Tree(tree) => of_graph[tree.graph].push(tree),
            }
        }
        trees.par_iter_mut().zip(of_graph).all(|(trees, terms)| {
            terms.into_iter().all(|term| term.cost(assignment, trees).is_finite())
        })
    }
}

impl Term {
    /// Its cost under an assignment.
    pub(crate) fn cost(&self, assignment: &[usize], trees: &mut [Trees<'_>]) -> Weight {
        match self {
            Self::Table(table) => table.factor.price(assignment),
            Self::Tree(tree) => tree.cost(assignment, &mut trees[tree.graph]),
        }
    }

    fn restricted(&self, kept: &[Vec<usize>]) -> Self {
        match self {
            Self::Table(CostTable { factor }) => {
                let pick = |(classes, &variable): (&Vec<u32>, &usize)| {
                    kept[variable].iter().map(|&choice| classes[choice]).collect()
                };
                let classes = factor.classes.iter().zip(&factor.scope).map(pick).collect();
                Self::Table(CostTable { factor: Factor { classes, ..factor.clone() } })
            }
            Self::Tree(tree) => Self::Tree(SteinerTerm {
                root: tree.root.restricted(kept),
                terminals: tree.restricted_terminals(kept),
                ..tree.clone()
            }),
        }
    }
}

impl SteinerTerm {
    /// The terminals with only the choices `kept`; those that are left at one node once a node.
    fn restricted_terminals(&self, kept: &[Vec<usize>]) -> Vec<End<Terminal>> {
        let (mut fixed, mut terminals) = (Vec::new(), Vec::new());
        for end in &self.terminals {
            let end = match end.restricted(kept) {
                End::Chosen(placement) => placement
                    .only_node()
                    .map_or(End::Chosen(placement), |node| End::Fixed(smallvec![node])),
                end @ End::Fixed(_) => end,
            };
            match end {
                End::Fixed(nodes) if fixed.contains(&nodes) => {}
                End::Fixed(nodes) => {
                    fixed.push(nodes.clone());
                    terminals.push(End::Fixed(nodes));
                }
                end @ End::Chosen(_) => terminals.push(end),
            }
        }
        terminals
    }

    /// Whether it costs nothing, whatever its root is.
    pub(crate) fn is_free(&self) -> bool {
        self.terminals.is_empty() && self.via.is_none()
    }

    /// The variables that its cost depends on, each once, in order.
    pub(crate) fn scope(&self) -> Vec<usize> {
        let root = self.root.placement().into_iter();
        let ends = root.chain(self.terminals.iter().filter_map(End::placement));
        let mut scope: Vec<usize> = ends.map(|placement| placement.variable).collect();
        scope.sort_unstable();
        scope.dedup();
        scope
    }

    /// Its cost under an assignment.
    pub(crate) fn cost(&self, assignment: &[usize], trees: &mut Trees<'_>) -> Weight {
        let root = match &self.root {
            End::Fixed(node) => *node,
            End::Chosen(placement) => placement.node(assignment[placement.variable]),
        };
        let terminals = self.terminals.iter().map(|end| match end {
            End::Fixed(nodes) => nodes.clone(),
            End::Chosen(placement) => smallvec![placement.node(assignment[placement.variable])],
        });
        self.cost_of(root, &terminals.collect::<Vec<_>>(), trees)
    }

    /// Its cost with its ends at these nodes.
    pub(crate) fn cost_of(
        &self,
        root: Node,
        terminals: &[Terminal],
        trees: &mut Trees<'_>,
    ) -> Weight {
        trees.cost_via(root, self.via.as_deref(), terminals).times(self.multiplicity)
    }

    /// The costs from each of several roots.
    pub(crate) fn costs_of(
        &self,
        roots: &[Node],
        terminals: &[Terminal],
        trees: &mut Trees<'_>,
    ) -> impl Iterator<Item = Weight> {
        let costs = trees.costs_via(roots, self.via.as_deref(), terminals);
        costs.into_iter().map(|cost| cost.times(self.multiplicity))
    }
}

impl<Fixed: Clone> End<Fixed> {
    /// The placement, if the end is chosen.
    pub(crate) fn placement(&self) -> Option<&Placement> {
        if let Self::Chosen(placement) = self { Some(placement) } else { None }
    }

    fn restricted(&self, kept: &[Vec<usize>]) -> Self {
        match self {
            Self::Fixed(at) => Self::Fixed(at.clone()),
            Self::Chosen(Placement { variable, nodes }) => {
                let nodes = kept[*variable].iter().map(|&choice| nodes[choice]).collect();
                Self::Chosen(Placement { variable: *variable, nodes })
            }
        }
    }
}

impl Placement {
    /// The node of all choices, if it is the same.
    pub(crate) fn only_node(&self) -> Option<Node> {
        let first = *self.nodes.first()?;
        self.nodes.iter().all(|&node| node == first).then_some(first as Node)
    }

    /// The node of a choice.
    pub(crate) fn node(&self, choice: usize) -> Node {
        self.nodes[choice] as Node
    }
}
