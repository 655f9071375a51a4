//! The best assignment below a cutoff, exactly: a dynamic programme over *frontiers*.
//!
//! Variables are added one after another. Partial assignments that agree on the frontier (variables
//! with neighbours still to come) are comparable: one that costs less and demands no more at any
//! moment dominates. One whose reduced costs, by the messages of the dual, exceed the gap between
//! bound and cutoff is dropped. With a good bound few are left where elimination would tabulate
//! millions, and many equal layers of a network, which branching distinguishes, become equal sums.
//! (Decision diagrams of limited width, Bergman et al. 2016, are of this kind.)

use rustc_hash::FxHashMap;

use crate::solver::capacity::message_passing::{Link, Messages};
use crate::solver::capacity::network::INFINITE;

/// Dominating partial assignments that one is compared with.
const COMPARED: usize = 200;

/// Partial assignments before dominance, for each one allowed after it.
const EXPANSION: usize = 8;

/// The result of the programme.
pub(crate) enum WithinGap {
    /// The best assignment below the cutoff.
    Best(Vec<usize>),
    /// There is none.
    Nothing,
    /// There are too many partial assignments.
    TooMany,
}

/// Minimises below `cutoff` with at most `most` partial assignments at a time.
pub(crate) fn minimize(messages: &Messages, cutoff: f64, most: usize) -> WithinGap {
    if cutoff == INFINITE {
        return WithinGap::TooMany;
    }
    let order = order(messages);
    let programme = Programme::new(messages, &order);
    let gap = cutoff - programme.bound;
    let mut layers: Vec<Layer> = Vec::new();
    let moments = messages.network.moments.len();
    let mut front = Front { reduced: vec![0.0], demanded: vec![0.0; moments], ..Front::default() };
    for variable in order {
        let Some((next, layer)) = programme.add(&front, variable, gap, most) else {
            return WithinGap::TooMany;
        };
        if next.reduced.is_empty() {
            return WithinGap::Nothing;
        }
        front = next;
        layers.push(layer);
    }
    let mut partial = (0..front.reduced.len())
        .min_by(|&a, &b| programme.paid(&front, a).total_cmp(&programme.paid(&front, b)))
        .unwrap_or(0);
    let mut assignment = vec![0; messages.network.unary.len()];
    for layer in layers.into_iter().rev() {
        (partial, assignment[layer.variable]) = layer.steps[partial];
    }
    WithinGap::Best(assignment)
}

/// For each partial assignment after a variable was added, the one it continues and the choice.
struct Layer {
    variable: usize,
    steps: Vec<(usize, usize)>,
}

/// Partial assignments.
#[derive(Default)]
struct Front {
    /// The variables with neighbours still to come.
    frontier: Vec<usize>,
    /// The choices of the frontier, one partial assignment after another.
    states: Vec<usize>,
    /// The sums of reduced costs.
    reduced: Vec<f64>,
    /// What is demanded at each moment beyond the least, one partial assignment after another.
    demanded: Vec<f64>,
}

impl Front {
    fn demanded_by(&self, partial: usize, moments: usize) -> &[f64] {
        &self.demanded[partial * moments..(partial + 1) * moments]
    }
}

/// The network with its costs reduced by the messages.
struct Programme<'m> {
    messages: &'m Messages,
    /// The sum of the least reduced costs.
    bound: f64,
    unary: Vec<Vec<f64>>,
    least_of_table: Vec<f64>,
    /// For each variable and choice, the demand at each moment beyond the variable's least.
    demands: Vec<Vec<Vec<f64>>>,
    slack: Vec<f64>,
    /// The place of each variable in the order in which they are added.
    place: Vec<usize>,
}

impl<'m> Programme<'m> {
    fn new(messages: &'m Messages, order: &[usize]) -> Self {
        let network = &messages.network;
        let mut bound = network.constant - messages.worth();
        let mut unary = messages.charged.clone();
        for (costs, links) in unary.iter_mut().zip(&messages.links) {
            for link in links {
                let sent = messages.to_variable(link);
                costs.iter_mut().zip(sent).for_each(|(cost, sent)| *cost += sent);
            }
            let least = costs.iter().copied().reduce(f64::min).unwrap_or(0.0);
            for cost in costs.iter_mut() {
                *cost -= least;
            }
            bound += least;
        }
        let mut least_of_table = vec![0.0; network.tables.len()];
        for link in messages.links.iter().flatten().filter(|link| link.end == 0) {
            let reduced = reduced_table(messages, link);
            let least = reduced.into_iter().fold(INFINITE, f64::min);
            least_of_table[link.table] = least;
            bound += least;
        }
        let demands = (0..network.unary.len()).map(|v| demands(messages, v)).collect();
        let mut place = vec![usize::MAX; network.unary.len()];
        for (i, &variable) in order.iter().enumerate() {
            place[variable] = i;
        }
        let slack = network.slack_beside_least();
        Self { messages, bound, unary, least_of_table, demands, slack, place }
    }

    /// What a partial assignment really costs, up to a constant.
    fn paid(&self, front: &Front, partial: usize) -> f64 {
        let moments = self.slack.len();
        let demanded = front.demanded_by(partial, moments).iter();
        let priced = demanded.zip(&self.messages.multipliers).map(|(n, price)| n * price);
        front.reduced[partial] - priced.sum::<f64>()
    }

    /// All partial assignments with one more variable, without those dominated; `None` if there are
    /// too many.
    fn add(&self, front: &Front, variable: usize, gap: f64, most: usize) -> Option<(Front, Layer)> {
        let expanded = self.expand(front, variable, gap, EXPANSION * most)?;
        let is_open = |of: usize| {
            let place = self.place[variable];
            self.messages.links[of].iter().any(|link| self.place[link.other] > place)
        };
        let width = front.frontier.len();
        let kept: Vec<usize> = (0..width).filter(|&i| is_open(front.frontier[i])).collect();
        let stays = is_open(variable);
        let mut groups: FxHashMap<Vec<usize>, Vec<usize>> = FxHashMap::default();
        for (number, &(parent, choice)) in expanded.steps.iter().enumerate() {
            let state = &front.states[parent * width..(parent + 1) * width];
            let key = kept.iter().map(|&place| state[place]).chain(stays.then_some(choice));
            groups.entry(key.collect()).or_default().push(number);
        }
        let mut groups: Vec<(Vec<usize>, Vec<usize>)> = groups.into_iter().collect();
        groups.sort_unstable();
        let frontier = kept.iter().map(|&place| front.frontier[place]);
        let frontier: Vec<usize> = frontier.chain(stays.then_some(variable)).collect();
        let mut next = Front { frontier, ..Front::default() };
        let mut layer = Layer { variable, steps: Vec::new() };
        for (state, members) in groups {
            for number in self.undominated(&expanded, members) {
                next.states.extend(&state);
                next.reduced.push(expanded.front.reduced[number]);
                next.demanded.extend(expanded.front.demanded_by(number, self.slack.len()));
                layer.steps.push(expanded.steps[number]);
            }
        }
        (next.reduced.len() <= most).then_some((next, layer))
    }

    /// All partial assignments with one more variable whose reduced costs are within the gap, and
    /// whose demands are within the slack.
    fn expand(&self, front: &Front, variable: usize, gap: f64, most: usize) -> Option<Expanded> {
        let moments = self.slack.len();
        let tables = self.tables_to(front, variable);
        let mut expanded = Expanded::default();
        for (parent, reduced) in front.reduced.iter().enumerate() {
            let state = &front.states[parent * front.frontier.len()..];
            let mut costs: Vec<f64> =
                self.unary[variable].iter().map(|own| own + reduced).collect();
            for (place, rows) in &tables {
                let row = &rows[state[*place] * costs.len()..];
                costs.iter_mut().zip(row).for_each(|(cost, more)| *cost += more);
            }
            let before = front.demanded_by(parent, moments);
            for (choice, cost) in costs.into_iter().enumerate().filter(|(_, cost)| *cost <= gap) {
                let demanded = before.iter().zip(&self.demands[variable][choice]);
                let demanded: Vec<f64> = demanded.map(|(before, more)| before + more).collect();
                if demanded.iter().zip(&self.slack).all(|(sum, slack)| sum <= slack) {
                    expanded.steps.push((parent, choice));
                    expanded.front.reduced.push(cost);
                    expanded.front.demanded.extend(demanded);
                }
            }
            if expanded.steps.len() > most {
                return None;
            }
        }
        Some(expanded)
    }

    /// The reduced tables between a variable and those in the frontier, by rows of the latter, with
    /// their places.
    fn tables_to(&self, front: &Front, variable: usize) -> Vec<(usize, Vec<f64>)> {
        let links = self.messages.links[variable].iter();
        let to_frontier = links.filter_map(|link| {
            let place = front.frontier.iter().position(|&other| other == link.other)?;
            let least = self.least_of_table[link.table];
            let mut rows = reduced_table(self.messages, link);
            for cost in &mut rows {
                *cost -= least;
            }
            Some((place, rows))
        });
        to_frontier.collect()
    }

    /// Those of equal state that no other one dominates.
    fn undominated(&self, expanded: &Expanded, mut members: Vec<usize>) -> Vec<usize> {
        let moments = self.slack.len();
        let paid = |number: usize| self.paid(&expanded.front, number);
        members.sort_by(|&a, &b| paid(a).total_cmp(&paid(b)).then(a.cmp(&b)));
        let demanded = |number: usize| expanded.front.demanded_by(number, moments);
        let mut kept: Vec<usize> = Vec::new();
        for number in members {
            let is_above = |&other: &usize| {
                demanded(other).iter().zip(demanded(number)).all(|(other, own)| other <= own)
            };
            if !kept.iter().rev().take(COMPARED).any(is_above) {
                kept.push(number);
            }
        }
        kept
    }
}

/// Partial assignments without their states, and the one that each continues with its choice.
#[derive(Default)]
struct Expanded {
    steps: Vec<(usize, usize)>,
    front: Front,
}

/// A table less what both ends are sent, by rows of the variable at the other end.
fn reduced_table(messages: &Messages, link: &Link) -> Vec<f64> {
    let network = &messages.network;
    let rows = network.rows(link.table, link.other);
    let (own, other) = (messages.to_variable(link), messages.to_other(link));
    let reduced = rows
        .chunks(own.len())
        .zip(other)
        .flat_map(|(row, sent)| row.iter().zip(own).map(move |(cost, own)| cost - own - sent));
    reduced.collect()
}

/// For each choice of a variable, its demand at each moment beyond the least.
fn demands(messages: &Messages, variable: usize) -> Vec<Vec<f64>> {
    let network = &messages.network;
    let mut sums = vec![vec![0.0; network.moments.len()]; network.size(variable)];
    for demand in network.demands[variable].iter() {
        let least = demand.least();
        for (sums, number) in sums.iter_mut().zip(&demand.numbers) {
            sums[demand.live.clone()].iter_mut().for_each(|sum| *sum += number - least);
        }
    }
    sums
}

/// The variables, each time the one that leaves the smallest frontier.
fn order(messages: &Messages) -> Vec<usize> {
    let network = &messages.network;
    let bits = |variable: usize| (network.size(variable) as f64).log2();
    let mut open: Vec<usize> = messages.links.iter().map(Vec::len).collect();
    let mut is_in_frontier = vec![false; open.len()];
    let mut left: Vec<usize> = network.variables().collect();
    let mut order = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let growth = |&variable: &usize| {
            let beside = || {
                let links = messages.links[variable].iter().map(|link| link.other);
                links.filter(|&other| is_in_frontier[other])
            };
            let closed: f64 = beside().filter(|&other| open[other] == 1).map(bits).sum();
            let own = if open[variable] > 0 { bits(variable) } else { 0.0 };
            (own - closed, beside().next().is_none(), open[variable], variable)
        };
        let ranks: Vec<_> = left.iter().map(growth).collect();
        let next = (0..left.len()).min_by(|&a, &b| {
            let (first, second) = (ranks[a], ranks[b]);
            let rest = |rank: (f64, bool, usize, usize)| (rank.1, rank.2, rank.3);
            first.0.total_cmp(&second.0).then(rest(first).cmp(&rest(second)))
        });
        let variable = left.remove(next.unwrap_or(0));
        for link in &messages.links[variable] {
            open[link.other] -= 1;
            is_in_frontier[link.other] &= open[link.other] > 0;
        }
        is_in_frontier[variable] = open[variable] > 0;
        order.push(variable);
    }
    order
}
