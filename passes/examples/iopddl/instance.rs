//! Instances: their file format, the model that the solver is given, and the cost of a solution,
//! computed on the instance alone.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use shardwise_passes::solver::{Capacity, CostTable, Demand, Model, Term, Weight};

/// Costs from which on the format means "not allowed".
const FORBIDDEN: i64 = 1_000_000_000_000_000;

#[derive(Deserialize)]
struct File {
    problem: Instance,
}

/// An instance: nodes that each take one of several strategies, at a cost and with a usage of
/// memory during an interval; edges with a cost for each combination; and a limit of the usage.
#[derive(Deserialize)]
pub(crate) struct Instance {
    name: String,
    nodes: Nodes,
    edges: Edges,
    #[serde(default)]
    usage_limit: Option<i64>,
}

#[derive(Deserialize)]
struct Nodes {
    intervals: Vec<(usize, usize)>,
    costs: Vec<Vec<i64>>,
    usages: Vec<Vec<i64>>,
}

#[derive(Deserialize)]
struct Edges {
    nodes: Vec<Vec<usize>>,
    costs: Vec<Vec<i64>>,
}

impl Instance {
    /// Reads an instance, and checks that its parts fit together.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, String> {
        let File { problem } = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let Self { nodes, edges, .. } = &problem;
        let sizes: Vec<usize> = nodes.costs.iter().map(Vec::len).collect();
        let is_same =
            |usages: &Vec<Vec<i64>>| usages.iter().map(Vec::len).eq(sizes.iter().copied());
        if nodes.intervals.len() != sizes.len() || !is_same(&nodes.usages) {
            return Err("nodes need an interval, and as many usages as costs".to_owned());
        }
        let combinations = |of: &Vec<usize>| {
            of.iter().try_fold(1, |product, &node| Some(product * sizes.get(node)?))
        };
        let has_all = |(of, costs): (&Vec<usize>, &Vec<i64>)| combinations(of) == Some(costs.len());
        if edges.nodes.len() != edges.costs.len()
            || !edges.nodes.iter().zip(&edges.costs).all(has_all)
        {
            return Err("edges need a cost for each combination of their nodes".to_owned());
        }
        Ok(problem)
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The number of each node's strategies.
    #[cfg(test)]
    pub(crate) fn strategies(&self) -> Vec<usize> {
        self.nodes.costs.iter().map(Vec::len).collect()
    }

    /// Replaces the limit of the usage.
    #[cfg(test)]
    pub(crate) fn limit_usage(&mut self, limit: i64) {
        self.usage_limit = Some(limit);
    }

    /// The model: a unit of cost is a femtosecond.
    pub(crate) fn model(&self) -> Model {
        let weights = |costs: &Vec<i64>| costs.iter().copied().map(weight).collect();
        Model {
            unary: self.nodes.costs.iter().map(weights).collect(),
            terms: self.edges.nodes.iter().zip(&self.edges.costs).map(|e| self.term(e)).collect(),
            capacity: self.capacity(),
            ..Model::default()
        }
    }

    /// The table of an edge; a node may be at several of its ends.
    fn term(&self, (nodes, costs): (&Vec<usize>, &Vec<i64>)) -> Term {
        let mut scope = nodes.clone();
        scope.sort_unstable();
        scope.dedup();
        let domains: Vec<usize> = scope.iter().map(|&node| self.nodes.costs[node].len()).collect();
        let place: BTreeMap<usize, usize> = scope.iter().copied().zip(0..).collect();
        let table = CostTable::new(scope, &domains, |choices| {
            let chosen = nodes.iter().map(|node| (choices[place[node]], *node));
            weight(costs[self.combination(chosen)])
        });
        Term::Table(table)
    }

    /// The place of a combination of strategies in an edge's costs: the last node's run fastest.
    fn combination(&self, chosen: impl Iterator<Item = (usize, usize)>) -> usize {
        chosen.fold(0, |place, (strategy, node)| place * self.nodes.costs[node].len() + strategy)
    }

    fn capacity(&self) -> Capacity {
        let Some(limit) = self.usage_limit else { return Capacity::default() };
        let live = |node: usize| self.interval(node);
        let demands = (0..self.nodes.usages.len()).filter(|&node| !live(node).is_empty());
        let demands = demands.map(|variable| Demand {
            variable,
            live: live(variable),
            numbers: self.nodes.usages[variable].iter().map(|&usage| usage as f64).collect(),
        });
        Capacity {
            constants: vec![0.0; self.end()],
            demands: demands.collect(),
            limit: limit as f64,
        }
    }

    fn interval(&self, node: usize) -> Range<usize> {
        let (start, end) = self.nodes.intervals[node];
        start..end
    }

    fn end(&self) -> usize {
        self.nodes.intervals.iter().map(|interval| interval.1).max().unwrap_or(0)
    }

    /// What a solution costs, in the order and with the sums of the instance's own definition; an
    /// error if it is forbidden or uses more than the limit.
    pub(crate) fn evaluate(&self, chosen: &[usize]) -> Result<i128, String> {
        let mut used = vec![0_i128; self.end()];
        let mut cost = 0;
        for (node, &strategy) in chosen.iter().enumerate() {
            cost += i128::from(self.nodes.costs[node][strategy]);
            for moment in self.interval(node) {
                used[moment] += i128::from(self.nodes.usages[node][strategy]);
            }
        }
        for (nodes, costs) in self.edges.nodes.iter().zip(&self.edges.costs) {
            let strategies = nodes.iter().map(|&node| (chosen[node], node));
            cost += i128::from(costs[self.combination(strategies)]);
        }
        if cost >= i128::from(FORBIDDEN) {
            return Err("the solution is forbidden".to_owned());
        }
        let limit = self.usage_limit.map_or(i128::MAX, i128::from);
        match used.iter().position(|&used| used > limit) {
            Some(moment) => Err(format!("the solution uses more than the limit at {moment}")),
            None => Ok(cost),
        }
    }
}

fn weight(cost: i64) -> Weight {
    match u64::try_from(cost) {
        Ok(cost) if cost < FORBIDDEN as u64 => Weight::from_femtoseconds(cost),
        Ok(_) => Weight::INFINITE,
        Err(_) => Weight::ZERO,
    }
}
