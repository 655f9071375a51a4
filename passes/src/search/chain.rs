//! Single chains of statements that wait for each other, as costs of a problem.
//!
//! The critical path ([`crate::search::critical_path`]) takes the layouts that are best for each
//! value alone, and a sum over links those that are best for the links. The length of one chain is
//! a sum over statements, and over the ways of values between them: it adds to the sums over the
//! links of the same plan. So a search for a schedule weighs chains as it weighs resources
//! ([`crate::search::combined`]).
//!
//! A chain bounds the makespan of every plan, whether or not it is the longest of that plan. Those
//! worth a weight are found from plans ([`crate::search::longest_chain`]).
//!
//! The way of a value to one use is a tree with one terminal, on a graph of its own whose edges
//! have the times of steps. It is the shortest one, whatever tree the plan has: the sum stays a
//! bound where they differ. Alternatives: *tables* over the choices at both ends of a way have as
//! many entries as pairs of shardings; *the edges of the value's own tree*, with a larger weight,
//! count what leads to other uses, which is no bound.

use std::sync::Arc;

use indexmap::IndexMap;

use crate::problem::Problem;
use crate::reshard::sharding_space::State;
use crate::search::critical_path::CriticalPath;
use crate::solver::model::{Model, SteinerTerm, Term};
use crate::solver::weight::Weight;

/// The way of a value from its definition to the use with this number among its demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Way {
    pub definition: usize,
    pub demand: usize,
}

/// How often each part of a chain counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Chain {
    statements: IndexMap<usize, u64>,
    ways: IndexMap<Way, u64>,
}

impl Chain {
    /// Adds a statement so many times.
    pub(super) fn add_statement(&mut self, statement: usize, times: u64) {
        *self.statements.entry(statement).or_default() += times;
    }

    /// Adds a way so many times.
    pub(super) fn add_way(&mut self, way: Way, times: u64) {
        *self.ways.entry(way).or_default() += times;
    }

    /// Adds another chain so many times.
    pub(super) fn add(&mut self, other: &Self, times: u64) {
        for (&statement, &own) in &other.statements {
            self.add_statement(statement, own * times);
        }
        for (&way, &own) in &other.ways {
            self.add_way(way, own * times);
        }
    }

    /// Its length, from those of its parts.
    pub(super) fn length(
        &self,
        statement: impl Fn(usize) -> Weight,
        way: impl Fn(Way) -> Weight,
    ) -> Weight {
        let statements = self.statements.iter().map(|(&it, &times)| statement(it).times(times));
        let ways = self.ways.iter().map(|(&it, &times)| way(it).times(times));
        statements.chain(ways).sum()
    }
}

/// What a second of each part of some chains weighs.
#[derive(Clone, Debug, Default)]
pub(super) struct ChainWeights {
    statements: IndexMap<usize, f64>,
    ways: IndexMap<Way, f64>,
    /// Of all ways of each definition together.
    definitions: IndexMap<usize, f64>,
}

impl ChainWeights {
    /// Of chains with a share each.
    pub(super) fn new<'c>(chains: impl Iterator<Item = (&'c Chain, f64)>) -> Self {
        let mut weights = Self::default();
        for (chain, share) in chains.filter(|(_, share)| *share > 0.0) {
            for (&statement, &times) in &chain.statements {
                *weights.statements.entry(statement).or_default() += share * times as f64;
            }
            for (&way, &times) in &chain.ways {
                *weights.ways.entry(way).or_default() += share * times as f64;
                *weights.definitions.entry(way.definition).or_default() += share * times as f64;
            }
        }
        weights
    }

    /// Adds statements to the prices of the choices of a problem, which are those of the path.
    pub(super) fn add_to(&self, problem: &mut Problem<'_>, path: &CriticalPath<'_>) {
        for (&statement, &weight) in &self.statements {
            let choices = problem.variables[statement].choices.iter_mut();
            for (choice, &seconds) in choices.zip(path.seconds(statement)) {
                choice.weight = choice.weight + seconds.scaled(weight);
            }
        }
    }

    /// The model of a problem with the ways beside its trees.
    pub(super) fn model(&self, problem: &Problem<'_>, path: &CriticalPath<'_>) -> Model {
        let mut model = problem.model();
        for (&Way { definition, demand }, &weight) in &self.ways {
            let graph = path.graph(definition).reweighted(|seconds| seconds.scaled(weight));
            let tree = problem.term(&problem.definitions[definition]);
            let terminals = vec![tree.terminals[demand].clone()];
            let graph_number = model.graphs.len();
            model.graphs.push(Arc::new(graph));
            let way = SteinerTerm { graph: graph_number, terminals, multiplicity: 1, ..tree };
            model.terms.push(Term::Tree(way));
        }
        model
    }

    /// What all ways of a definition are longer by at most, from another state or to another.
    pub(super) fn detour(
        &self,
        path: &CriticalPath<'_>,
        definition: usize,
        from: State,
        to: State,
    ) -> Weight {
        let distance = || path.graph(definition).distance(from, to);
        let weight = self.definitions.get(&definition);
        weight.map_or(Weight::ZERO, |&weight| distance().scaled(weight))
    }
}
