//! What the rest of a plan costs at least, whatever memory it takes.
//!
//! The dual of the problem without a limit ([`crate::solver::dual`]) splits its cost into one part
//! for each variable and one for each tree of reshards, by prices at which they agree. For the rest
//! of a plan, the part of a variable that is chosen is gone, and the part of a tree is the cheapest
//! forest from the blocks that are live to the uses that are left, at their prices. Both are
//! tabulated: for each set of uses, what a tree to them costs from each sharding.

use std::cell::RefCell;

use rustc_hash::FxHashMap;

use crate::problem::{Demand, Problem, Root};
use crate::reshard::sharding_space::ShardingSpace;
use crate::search::memory::live_blocks::block::{Block, Blocks, Form, LiveBlocks};
use crate::search::memory::live_blocks::statements::Statements;
use crate::solver::dual::{Dual, Slot};
use crate::solver::graph::Graph;
use crate::solver::interrupt::Interrupt;

/// Passes of the dual, and the relative increase below which it has converged.
const MOST_SWEEPS: usize = 60;
const CONVERGED: f64 = 1e-7;

/// Lower bounds of the seconds that the rest of a plan takes.
pub(super) struct Bound {
    /// For each statement, the least of the variables from there on.
    variables: Vec<f64>,
    /// For each definition, its tree.
    trees: Vec<TreeBound>,
}

/// Of one definition.
struct TreeBound {
    /// Which statement produces it, if any.
    root: Option<usize>,
    /// Its least from any root.
    least: f64,
    /// The statements of its uses.
    uses: Vec<usize>,
    /// For each set of its uses, the cost of a tree to them from each sharding.
    to_uses: Vec<Vec<f64>>,
    /// The same where it leads through the declared sharding first.
    through_declared: Vec<Vec<f64>>,
    /// The same where a reshard has to read the block; none where no kernel may leave it on the
    /// chip.
    resharded: Vec<Vec<f64>>,
    /// For each use, the price in each sharding: of a block that cannot be resharded.
    prices: Vec<Vec<f64>>,
    /// The cheapest trees from several blocks to sets of uses, as they were asked for.
    forests: RefCell<FxHashMap<(usize, Blocks), f64>>,
}

impl Bound {
    pub(super) fn new(
        problem: &Problem<'_>,
        statements: &Statements<'_, '_>,
        interrupt: &Interrupt,
    ) -> Self {
        let model = problem.model();
        model.prepare_metrics();
        let mut dual = Dual::new(&model, interrupt);
        let mut before = f64::NEG_INFINITY;
        for _ in 0..MOST_SWEEPS {
            let bound = dual.sweep();
            if interrupt.is_due() || bound - before <= CONVERGED * bound.abs() {
                break;
            }
            before = bound;
        }
        let trees = (0..problem.definitions.len())
            .map(|number| TreeBound::new(problem, statements, &dual, number))
            .collect();
        let mut variables: Vec<f64> = vec![0.0; problem.variables.len() + 1];
        for number in (0..problem.variables.len()).rev() {
            let mut costs = Vec::new();
            dual.price_choices(number, &dual.edges_of_variable[number], &mut costs);
            let least = costs.into_iter().fold(f64::INFINITY, f64::min);
            variables[number] = variables[number + 1] + least;
        }
        Self { variables, trees }
    }

    /// A lower bound of the seconds of all steps that follow; infinite if nothing leads to the end.
    pub(super) fn cost_to_go(&self, live: &LiveBlocks) -> f64 {
        let trees = self.trees.iter().zip(live.by_definition());
        let of_trees = trees.map(|(tree, own)| tree.cost_to_go(own, live.next));
        of_trees.fold(self.variables[live.next], |sum, seconds| sum + seconds)
    }
}

impl TreeBound {
    fn new(
        problem: &Problem<'_>,
        statements: &Statements<'_, '_>,
        dual: &Dual<'_>,
        number: usize,
    ) -> Self {
        let definition = &problem.definitions[number];
        let graph = problem.table(definition.value).graph();
        let edges = dual.edges_of_term[number].iter().map(|&edge| &dual.edges[edge]);
        let priced: FxHashMap<usize, Vec<f64>> = edges
            .map(|edge| {
                let place = if let Slot::Terminal(place) = edge.slot { place + 1 } else { 0 };
                (place, edge.of_term())
            })
            .collect();
        let prices_of = |(place, demand): (usize, &Demand)| match demand {
            Demand::Operand(..) => priced[&(place + 1)].clone(),
            Demand::Fixed(states) => {
                let is_there = |state| if states.contains(&state) { 0.0 } else { f64::INFINITY };
                (0..graph.nodes()).map(is_there).collect()
            }
        };
        let prices: Vec<Vec<f64>> = definition.demands.iter().enumerate().map(prices_of).collect();
        let to_uses = to_all_sets(graph, &prices);
        let through_declared = match &definition.declared {
            None => to_uses.clone(),
            Some(declared) => to_uses
                .iter()
                .map(|to_uses| {
                    let mut from_declared = vec![f64::INFINITY; graph.nodes()];
                    for &state in declared {
                        from_declared[state] = to_uses[state];
                    }
                    graph.metric().backward_distances(1.0, &from_declared)
                })
                .collect(),
        };
        let all = through_declared.last().expect("no use is a set, too");
        let least = priced.get(&0).map_or(0.0, |roots| {
            roots.iter().zip(all).map(|(root, rest)| root + rest).fold(f64::INFINITY, f64::min)
        });
        let root =
            if let Root::Produced(variable) = definition.root { Some(variable) } else { None };
        let uses = statements.uses(number).to_vec();
        let forests = RefCell::default();
        let resharded = if statements.may_be_on_chip(number) {
            let space = &problem.table(definition.value).space;
            to_uses.iter().map(|to_uses| after_a_reshard(space, to_uses)).collect()
        } else {
            Vec::new()
        };
        Self { root, least, uses, to_uses, through_declared, resharded, prices, forests }
    }

    /// Of the blocks of this definition that are live before statement `next`.
    fn cost_to_go(&self, blocks: &[Block], next: usize) -> f64 {
        if self.root.is_some_and(|root| root >= next) {
            return self.least;
        }
        let left = self.uses.iter().enumerate().filter(|(_, at)| **at >= next);
        let left: usize = left.map(|(place, _)| 1 << place).sum();
        match blocks {
            &[block] => self.tree(block, left),
            _ if left == 0 => 0.0,
            [] => f64::INFINITY,
            _ => {
                let key =
                    (left, blocks.iter().map(|block| Block { read_for: 0, ..*block }).collect());
                let known = self.forests.borrow().get(&key).copied();
                known.unwrap_or_else(|| {
                    let least = self.forest(blocks, left);
                    self.forests.borrow_mut().insert(key, least);
                    least
                })
            }
        }
    }

    /// The cheapest trees from some blocks to a set of uses: from the last block to each of its
    /// subsets, and with one block before it after another.
    fn forest(&self, blocks: &[Block], uses: usize) -> f64 {
        let Some((&last, before)) = blocks.split_last() else { return f64::INFINITY };
        let mut least = vec![f64::INFINITY; uses + 1];
        for set in subsets(uses) {
            least[set] = self.tree(last, set);
        }
        let mut own_tree = vec![f64::INFINITY; uses + 1];
        for &block in before.iter().rev() {
            for set in subsets(uses) {
                own_tree[set] = self.tree(block, set);
            }
            // The subsets of a set are smaller numbers, and change after it.
            for set in subsets(uses) {
                let with_own = |own: usize| own_tree[own] + least[set & !own];
                least[set] = subsets(set).map(with_own).fold(f64::INFINITY, f64::min);
            }
        }
        least[uses]
    }

    /// The cheapest tree from a block to a set of uses.
    fn tree(&self, block: Block, uses: usize) -> f64 {
        let state = block.state();
        match block.form {
            Form::Undeclared => self.through_declared[uses][state],
            Form::Memory | Form::Unread | Form::Resident => self.to_uses[uses][state],
            Form::Written => {
                let of_part =
                    |part: usize| self.resharded[part][state] + self.to_uses[uses & !part][state];
                let parts = subsets(uses).filter(|&part| part != 0);
                parts.map(of_part).fold(f64::INFINITY, f64::min)
            }
            Form::OnChip => {
                let of_set = self.prices.iter().enumerate();
                let of_set = of_set.filter(|(place, _)| uses >> place & 1 == 1);
                of_set.map(|(_, prices)| prices[state]).sum()
            }
        }
    }
}

/// The subsets of a set, itself first, in descending order.
fn subsets(of: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(of), move |&set| (set > 0).then(|| (set - 1) & of))
}

/// What a tree costs from each sharding whose first edge is a reshard.
fn after_a_reshard(space: &ShardingSpace, to_uses: &[f64]) -> Vec<f64> {
    let from = |state| {
        let edges = space.edges(state);
        let trees = edges.map(|edge| edge.weight.as_seconds() + to_uses[edge.to]);
        trees.fold(f64::INFINITY, f64::min)
    };
    (0..space.len()).map(from).collect()
}

/// For each set of uses, what the cheapest tree to them costs from each sharding (Dreyfus and
/// Wagner 1971).
fn to_all_sets(graph: &Graph, prices: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut to_sets: Vec<Vec<f64>> = vec![vec![0.0; graph.nodes()]];
    for set in 1..1_usize << prices.len() {
        let first = set & set.wrapping_neg();
        let mut least = if set == first {
            prices[set.trailing_zeros() as usize].clone()
        } else {
            vec![f64::INFINITY; graph.nodes()]
        };
        let mut part = (set - 1) & set;
        while part > 0 {
            if part & first != 0 {
                let both = to_sets[part].iter().zip(&to_sets[set & !part]);
                least.iter_mut().zip(both).for_each(|(least, (a, b))| *least = least.min(a + b));
            }
            part = (part - 1) & set;
        }
        to_sets.push(graph.metric().backward_distances(1.0, &least));
    }
    to_sets
}
