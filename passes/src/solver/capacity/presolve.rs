//! Exact reductions, repeated until none applies.
//!
//! Choices without support are removed; tables that are sums of unary costs are split; variables
//! that follow from another are merged into it; dominated choices are removed; variables with at
//! most two neighbours and no demands are eliminated; a variable with one neighbour and demands
//! joins it, as those pairs of choices that no other pair dominates. Networks of 40,000 variables
//! of neural networks shrink to a few hundred.

use crate::solver::capacity::consistency::{fitting, supported};
use crate::solver::capacity::network::{Demand, INFINITE, Network};

/// Rounds at most.
const ROUNDS: usize = 30;

/// Entries by which tables may grow where a variable merges into a larger one, or is eliminated.
const GROWTH: usize = 4096;

/// Comparisons for the dominated choices of one variable.
const COMPARISONS: usize = 20_000_000;

impl Network {
    /// Applies all reductions.
    pub(crate) fn presolve(&mut self, is_due: &dyn Fn() -> bool) {
        for _ in 0..ROUNDS {
            if !self.make_consistent() {
                return;
            }
            let mut changed = self.split_tables();
            changed |= self.merge_followers();
            changed |= self.reduce_moments();
            if self.is_infeasible || is_due() {
                return;
            }
            changed |= self.remove_dominated(COMPARISONS);
            changed |= self.eliminate_narrow();
            changed |= self.join_leaves();
            if !changed {
                return;
            }
        }
    }

    /// Removes choices that no assignment within the capacity has; `false` if none is left.
    fn make_consistent(&mut self) -> bool {
        loop {
            let without = supported(self);
            let is_stable = without.is_empty();
            for (variable, kept) in without {
                self.restrict(variable, kept);
            }
            let Some(fitting) = fitting(self) else {
                self.is_infeasible = true;
                return false;
            };
            if is_stable && fitting.is_empty() || self.is_infeasible {
                return !self.is_infeasible;
            }
            for (variable, kept) in fitting {
                self.restrict(variable, kept);
            }
        }
    }

    /// Replaces tables that are the sum of a cost for each end.
    fn split_tables(&mut self) -> bool {
        let mut any = false;
        for table in 0..self.tables.len() {
            let [first, second] = self.tables[table].ends;
            let columns = self.size(second);
            if !is_sum(&self.tables[table].costs, columns) {
                continue;
            }
            let costs = self.remove_table(table);
            for (sum, row) in self.unary[first].iter_mut().zip(costs.chunks(columns)) {
                *sum += row[0];
            }
            for (sum, cost) in self.unary[second].iter_mut().zip(costs.iter()) {
                *sum += cost - costs[0];
            }
            any = true;
        }
        any
    }

    /// Merges variables whose choice follows from a neighbour's.
    fn merge_followers(&mut self) -> bool {
        let mut any = false;
        let mut table = 0;
        while table < self.tables.len() {
            let [first, second] = self.tables[table].ends;
            for (leader, variable) in [(first, second), (second, first)] {
                if !self.tables[table].costs.is_empty()
                    && let Some(choices) = self.function(table, leader)
                    && self.growth(variable, leader) <= GROWTH
                {
                    self.follow(variable, leader, choices);
                    any = true;
                }
            }
            table += 1;
        }
        any
    }

    /// For each choice of `leader`, the only one of the other end; `None` if there are several.
    fn function(&self, table: usize, leader: usize) -> Option<Vec<usize>> {
        let rows = self.rows(table, leader);
        let columns = rows.len() / self.size(leader);
        let only = |row: &[f64]| {
            let mut finite = (0..columns).filter(|&y| row[y] < INFINITE);
            finite.next().filter(|_| finite.next().is_none())
        };
        rows.chunks(columns).map(only).collect()
    }

    /// Entries by which the tables of a variable grow if it merges into `leader`.
    fn growth(&self, variable: usize, leader: usize) -> usize {
        let more = self.size(leader).saturating_sub(self.size(variable));
        let others = self.tables_of[variable].iter().map(|&t| self.size(self.other(t, variable)));
        others.map(|size| size * more).sum()
    }

    /// Eliminates variables without demands that have at most two neighbours.
    fn eliminate_narrow(&mut self) -> bool {
        let mut any = false;
        let mut queue: Vec<usize> = self.variables().collect();
        while let Some(variable) = queue.pop() {
            let is_narrow = self.demands[variable].is_empty()
                && self.tables_of[variable].len() <= 2
                && !self.is_gone(variable);
            if !is_narrow {
                continue;
            }
            let tables = self.tables_of[variable].iter();
            let neighbours: Vec<usize> = tables.map(|&t| self.other(t, variable)).collect();
            if let [first, second] = neighbours[..] {
                let (first, second) = (self.size(first), self.size(second));
                let now = self.size(variable) * (first + second);
                if first * second > GROWTH.max(2 * now) {
                    continue;
                }
            }
            self.eliminate(variable);
            any = true;
            queue.extend(neighbours);
        }
        any
    }

    /// Joins variables that have one neighbour with it.
    fn join_leaves(&mut self) -> bool {
        let mut any = false;
        for variable in 0..self.unary.len() {
            let [table] = self.tables_of[variable][..] else { continue };
            let neighbour = self.other(table, variable);
            let pairs = self.undominated_pairs(table, neighbour, variable);
            let size = self.size(neighbour);
            let tables = self.tables_of[neighbour].iter().filter(|&&other| other != table);
            let beside: usize = tables.map(|&t| self.size(self.other(t, neighbour))).sum();
            let before = size * (beside + self.size(variable));
            if pairs.len() > size && pairs.len() * beside > before + GROWTH {
                continue;
            }
            let (kept, choices) = pairs.into_iter().unzip();
            self.restrict(neighbour, kept);
            self.follow(variable, neighbour, choices);
            any = true;
        }
        any
    }

    /// For each choice of `neighbour`, the choices of `variable` that no other one dominates.
    fn undominated_pairs(
        &self,
        table: usize,
        neighbour: usize,
        variable: usize,
    ) -> Vec<(usize, usize)> {
        let rows = self.rows(table, neighbour);
        let size = self.size(variable);
        let demands = &self.demands[variable];
        let mut pairs = Vec::new();
        for (x, row) in rows.chunks(size).enumerate() {
            let cost = |y: usize| row[y] + self.unary[variable][y];
            let is_at_most = |z: usize, y: usize| {
                let less = |demand: &Demand| demand.numbers[z] <= demand.numbers[y];
                cost(z) <= cost(y) && demands.iter().all(less)
            };
            let is_dominated = |y: usize| {
                (0..size).any(|z| z != y && is_at_most(z, y) && (z < y || !is_at_most(y, z)))
            };
            let left = (0..size).filter(|&y| cost(y) < INFINITE && !is_dominated(y));
            pairs.extend(left.map(|y| (x, y)));
        }
        pairs
    }
}

/// Whether every entry is the sum of a number for its row and one for its column.
fn is_sum(costs: &[f64], columns: usize) -> bool {
    let is_so = |row: &[f64]| {
        let mut entries = row.iter().zip(costs);
        entries.all(|(cost, top)| {
            *cost < INFINITE && (cost - row[0]).total_cmp(&(top - costs[0])).is_eq()
        })
    };
    !costs.is_empty() && costs.chunks(columns).all(is_so)
}
