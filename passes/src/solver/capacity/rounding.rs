//! Assignments from messages: each variable in turn takes its best choice beside the choices made
//! before and the messages of those to come.

use crate::solver::capacity::message_passing::{Link, Messages};
use crate::solver::capacity::network::{INFINITE, least_index};

/// Not chosen yet.
const OPEN: usize = usize::MAX;

impl Messages {
    /// The assignment, whether or not it keeps within the slack of moments.
    pub(crate) fn round(&self) -> Vec<usize> {
        let mut assignment = vec![OPEN; self.links.len()];
        for variable in self.network.variables() {
            let costs = self.costs_beside(variable, &assignment);
            assignment[variable] = least_index(costs.into_iter());
        }
        assignment
    }

    /// The same among choices that fit beside the least demands of the others; `None` if a
    /// variable has none.
    pub(crate) fn round_within_slack(&self) -> Option<Vec<usize>> {
        let network = &self.network;
        let mut slack = network.slack_beside_least();
        let mut assignment = vec![OPEN; self.links.len()];
        for variable in network.variables() {
            let mut costs = self.costs_beside(variable, &assignment);
            for demand in network.demands[variable].iter() {
                let left = slack[demand.live.clone()].iter().copied().fold(INFINITE, f64::min);
                for (cost, number) in costs.iter_mut().zip(&demand.numbers) {
                    if number - demand.least() > left {
                        *cost = INFINITE;
                    }
                }
            }
            let choice = least_index(costs.iter().copied());
            if costs[choice] == INFINITE {
                return None;
            }
            for demand in network.demands[variable].iter() {
                let more = demand.numbers[choice] - demand.least();
                slack[demand.live.clone()].iter_mut().for_each(|left| *left -= more);
            }
            assignment[variable] = choice;
        }
        Some(assignment)
    }

    /// The cost of each choice of a variable beside the choices made.
    fn costs_beside(&self, variable: usize, assignment: &[usize]) -> Vec<f64> {
        let mut costs = self.charged[variable].clone();
        for link in &self.links[variable] {
            match assignment[link.other] {
                OPEN => add(&mut costs, self.to_variable(link).iter().copied()),
                choice => self.add_column(&mut costs, link, choice),
            }
        }
        costs
    }

    fn add_column(&self, costs: &mut [f64], link: &Link, choice: usize) {
        let table = &self.network.tables[link.table].costs;
        if link.end == 0 {
            let columns = self.network.size(link.other);
            add(costs, table.iter().skip(choice).step_by(columns).copied());
        } else {
            let start = choice * costs.len();
            let row = &table[start..start + costs.len()];
            add(costs, row.iter().copied());
        }
    }
}

fn add(costs: &mut [f64], more: impl Iterator<Item = f64>) {
    costs.iter_mut().zip(more).for_each(|(cost, more)| *cost += more);
}
