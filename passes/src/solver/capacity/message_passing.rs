//! A lower bound of a network: sequential reweighted message passing (TRW-S; Kolmogorov 2006),
//! hard or smoothed, with the moments priced by multipliers.
//!
//! The network is decomposed into chains that are monotonic in the order of the variables. A pass
//! gives all chains through a variable the same share of what its choices cost. At a *temperature*
//! above zero each chain's minimum is replaced by a soft minimum, `-t ln Σ exp(-cost / t)`
//! (Meltzer, Globerson and Weiss 2009): hard passes stop at points that are not the maximum of the
//! dual, soft ones do not, and their limit for ever lower temperatures is the linear relaxation's
//! value. Soft marginals are also the probabilities from which multipliers
//! ([`crate::solver::capacity::multipliers`]), roundings and branches follow. The bound that counts
//! is always that of a hard pass.

use rustc_hash::FxHashMap;

use crate::solver::capacity::network::{INFINITE, Network};

/// Messages by the variables of their tables.
pub(crate) type Sent = FxHashMap<[usize; 2], [Vec<f64>; 2]>;

/// A table, as one of its variables sees it.
#[derive(Clone, Copy)]
pub(crate) struct Link {
    pub(crate) table: usize,
    pub(crate) other: usize,
    /// 0 if the variable is the table's first one, else 1.
    pub(crate) end: usize,
}

/// The messages of a network's tables, and the multipliers of its moments.
#[derive(Clone)]
pub(crate) struct Messages {
    pub(crate) network: Network,
    pub(crate) links: Vec<Vec<Link>>,
    /// For each table, what each of its two variables was sent for its choices.
    sent: Vec<[Vec<f64>; 2]>,
    /// The number of chains through each variable.
    chains: Vec<f64>,
    pub(crate) multipliers: Vec<f64>,
    /// The unary costs with the demands at their multipliers.
    pub(crate) charged: Vec<Vec<f64>>,
    /// What each choice costs with all messages, as of the last pass.
    pub(crate) costs: Vec<Vec<f64>>,
    /// The bound of the last hard pass, and of the one before, at which [`Self::costs`] hold.
    pub(crate) bound: f64,
    before: f64,
    /// Entries of tables visited.
    pub(crate) work: usize,
}

impl Messages {
    /// Without messages, at these multipliers.
    pub(crate) fn new(network: Network, multipliers: Vec<f64>) -> Self {
        let variables = network.unary.len();
        let mut links: Vec<Vec<Link>> = vec![Vec::new(); variables];
        let mut sent = Vec::with_capacity(network.tables.len());
        for (number, table) in network.tables.iter().enumerate() {
            if table.costs.is_empty() {
                sent.push([Vec::new(), Vec::new()]);
                continue;
            }
            let [first, second] = table.ends;
            links[first].push(Link { table: number, other: second, end: 0 });
            links[second].push(Link { table: number, other: first, end: 1 });
            sent.push(table.ends.map(|end| vec![0.0; network.size(end)]));
        }
        let chains = links.iter().enumerate().map(|(variable, links)| {
            let later = links.iter().filter(|link| link.other > variable).count();
            later.max(links.len() - later).max(1) as f64
        });
        let mut this = Self {
            chains: chains.collect(),
            network,
            links,
            sent,
            multipliers,
            charged: Vec::new(),
            costs: vec![Vec::new(); variables],
            bound: f64::NEG_INFINITY,
            before: f64::NEG_INFINITY,
            work: 0,
        };
        this.charge();
        this
    }

    /// Adds the demands at their multipliers to the unary costs.
    pub(crate) fn charge(&mut self) {
        let mut sums = vec![0.0; self.multipliers.len() + 1];
        for (moment, multiplier) in self.multipliers.iter().enumerate() {
            sums[moment + 1] = sums[moment] + multiplier;
        }
        self.charged.clone_from(&self.network.unary);
        for (charged, demands) in self.charged.iter_mut().zip(&self.network.demands) {
            for demand in demands.iter() {
                let price = sums[demand.live.end] - sums[demand.live.start];
                if price != 0.0 {
                    let entries = charged.iter_mut().zip(&demand.numbers);
                    entries.for_each(|(cost, number)| *cost += price * number);
                }
            }
        }
    }

    /// The slack of all moments at their multipliers.
    pub(crate) fn worth(&self) -> f64 {
        let moments = self.multipliers.iter().zip(&self.network.moments);
        moments.map(|(multiplier, moment)| multiplier * moment.slack).sum()
    }

    /// A link's messages to its variable.
    pub(crate) fn to_variable(&self, link: &Link) -> &[f64] {
        &self.sent[link.table][link.end]
    }

    /// A link's messages to the variable at the other end.
    pub(crate) fn to_other(&self, link: &Link) -> &[f64] {
        &self.sent[link.table][1 - link.end]
    }

    /// A pass through all variables; returns the bound, at a temperature above zero a smoothed one.
    pub(crate) fn pass(&mut self, forwards: bool, temperature: f64) -> f64 {
        let variables = self.links.len();
        let mut bound = self.network.constant - self.worth();
        for i in 0..variables {
            let variable = if forwards { i } else { variables - 1 - i };
            if !self.network.is_gone(variable) {
                bound += self.update(variable, forwards, temperature);
            }
        }
        if temperature == 0.0 {
            self.before = std::mem::replace(&mut self.bound, bound);
        }
        bound
    }

    /// Receives the messages of earlier variables and sends those to later ones; returns the value
    /// of the chains that end here.
    fn update(&mut self, variable: usize, forwards: bool, temperature: f64) -> f64 {
        let links = std::mem::take(&mut self.links[variable]);
        let is_later = |link: &Link| (link.other > variable) == forwards;
        let mut costs = self.charged[variable].clone();
        for link in &links {
            if !is_later(link) {
                self.sent[link.table][link.end] = self.marginals(link, costs.len(), temperature);
            }
            let sent = &self.sent[link.table][link.end];
            costs.iter_mut().zip(sent).for_each(|(cost, sent)| *cost += sent);
        }
        let share = 1.0 / self.chains[variable];
        for link in links.iter().filter(|link| is_later(link)) {
            for (sent, cost) in self.sent[link.table][link.end].iter_mut().zip(&costs) {
                *sent = if *cost < INFINITE { *sent - share * cost } else { 0.0 };
            }
        }
        let ending =
            self.chains[variable] - links.iter().filter(|link| is_later(link)).count() as f64;
        let value = if ending > 0.0 { soft_minimum(&costs, share, temperature) } else { 0.0 };
        self.costs[variable] = costs;
        self.links[variable] = links;
        ending * value
    }

    /// For each of the `size` choices of a link's variable, the (soft) least entry of its table,
    /// less what the other variable is sent.
    fn marginals(&mut self, link: &Link, size: usize, temperature: f64) -> Vec<f64> {
        let table = &self.network.tables[link.table].costs;
        let sent = &self.sent[link.table][1 - link.end];
        self.work += table.len();
        if link.end == 0 {
            table.chunks(sent.len()).map(|row| of_row(row, sent, temperature)).collect()
        } else {
            of_columns(table, sent, size, temperature)
        }
    }

    /// The probability of each choice at a temperature, as of the last pass.
    pub(crate) fn probabilities(&self, variable: usize, temperature: f64) -> Vec<f64> {
        let costs = &self.costs[variable];
        let least = costs.iter().copied().fold(INFINITE, f64::min);
        let scale = self.chains[variable] * temperature;
        let odds: Vec<f64> = costs.iter().map(|cost| (-(cost - least) / scale).exp()).collect();
        let sum: f64 = odds.iter().sum();
        odds.into_iter().map(|odds| odds / sum).collect()
    }

    /// The curvature of the smoothed bound in a variable's costs, for a variance of one.
    pub(crate) fn curvature(&self, variable: usize, temperature: f64) -> f64 {
        1.0 / (self.chains[variable] * temperature)
    }

    /// For each choice, by how much every assignment with it exceeds the bound of the hard pass
    /// before the last one.
    pub(crate) fn reduced_costs(&self, variable: usize) -> impl Iterator<Item = f64> + '_ {
        let costs = &self.costs[variable];
        let least = costs.iter().copied().fold(INFINITE, f64::min);
        costs.iter().map(move |cost| cost - least)
    }

    /// The bound that reduced costs add to.
    pub(crate) fn base(&self) -> f64 {
        self.before
    }

    /// The messages, to return to after hard passes.
    pub(crate) fn sent(&self) -> Vec<[Vec<f64>; 2]> {
        self.sent.clone()
    }

    /// Returns to earlier messages.
    pub(crate) fn restore(&mut self, sent: Vec<[Vec<f64>; 2]>) {
        self.sent = sent;
    }

    /// The messages by the `numbers` of variables.
    pub(crate) fn by_variables(&self, numbers: &[usize]) -> Sent {
        let tables = self.network.tables.iter().zip(&self.sent);
        let there = tables.filter(|(table, _)| !table.costs.is_empty());
        there.map(|(table, sent)| (table.ends.map(|end| numbers[end]), sent.clone())).collect()
    }

    /// Takes over messages of earlier tables that have as many choices, where they are finite:
    /// a choice may be another one now, and for it any finite message is right.
    pub(crate) fn resume(&mut self, known: &Sent, numbers: &[usize]) {
        let tables = self.network.tables.iter().zip(&mut self.sent);
        for (table, sent) in tables.filter(|(table, _)| !table.costs.is_empty()) {
            let ends = table.ends.map(|end| numbers.get(end).copied().unwrap_or(usize::MAX));
            if let Some(known) = known.get(&ends)
                && known[0].len() == sent[0].len()
                && known[1].len() == sent[1].len()
            {
                let finite = |of: &Vec<f64>| {
                    of.iter().map(|&m| if m.is_finite() { m } else { 0.0 }).collect()
                };
                *sent = [finite(&known[0]), finite(&known[1])];
            }
        }
    }

    /// Hard passes, forth and back.
    pub(crate) fn harden(&mut self, times: usize) {
        for _ in 0..times {
            self.pass(true, 0.0);
            self.pass(false, 0.0);
        }
    }

    /// Keeps these choices of a variable.
    pub(crate) fn restrict(&mut self, variable: usize, kept: Vec<usize>) {
        let pick = |of: &Vec<f64>| kept.iter().map(|&choice| of[choice]).collect::<Vec<f64>>();
        for link in &self.links[variable] {
            let sent = &mut self.sent[link.table][link.end];
            *sent = pick(sent);
        }
        self.charged[variable] = pick(&self.charged[variable]);
        if !self.costs[variable].is_empty() {
            self.costs[variable] = pick(&self.costs[variable]);
        }
        self.network.restrict(variable, kept);
    }
}

/// Exponents below this count as nothing.
const NEGLIGIBLE: f64 = 20.0;

/// The (soft) minimum of a share of the costs.
fn soft_minimum(costs: &[f64], share: f64, temperature: f64) -> f64 {
    let least = costs.iter().copied().fold(INFINITE, f64::min);
    if temperature == 0.0 || least == INFINITE {
        return share * least;
    }
    let odds = costs.iter().map(|cost| (-(cost - least) * share / temperature).exp());
    share * least - temperature * odds.sum::<f64>().ln()
}

/// The (soft) least entry of a row, less what its columns are sent.
fn of_row(row: &[f64], sent: &[f64], temperature: f64) -> f64 {
    let least = row.iter().zip(sent).fold(INFINITE, |least, (cost, sent)| least.min(cost - sent));
    if temperature == 0.0 || least == INFINITE {
        return least;
    }
    let mut sum = 0.0;
    for (cost, sent) in row.iter().zip(sent) {
        let above = (cost - sent - least) / temperature;
        if above < NEGLIGIBLE {
            sum += (-above).exp();
        }
    }
    least - temperature * sum.ln()
}

/// The (soft) least entry of each column, less what its rows are sent.
fn of_columns(table: &[f64], sent: &[f64], columns: usize, temperature: f64) -> Vec<f64> {
    let mut least = vec![INFINITE; columns];
    for (row, sent) in table.chunks(columns).zip(sent) {
        least.iter_mut().zip(row).for_each(|(least, cost)| *least = least.min(cost - sent));
    }
    if temperature == 0.0 {
        return least;
    }
    let mut sums = vec![0.0; columns];
    for (row, sent) in table.chunks(columns).zip(sent) {
        for ((sum, least), cost) in sums.iter_mut().zip(&least).zip(row) {
            let above = (cost - sent - least) / temperature;
            if above < NEGLIGIBLE {
                *sum += (-above).exp();
            }
        }
    }
    let entries = least.into_iter().zip(sums);
    let soft = |(least, sum): (f64, f64)| {
        if least < INFINITE { least - temperature * sum.ln() } else { least }
    };
    entries.map(soft).collect()
}
