//! Choices that no assignment within the capacity has: those without a partner in some table
//! (arc consistency, AC-3; Mackworth 1977), and those that do not fit beside the least demands of
//! all other variables.

use crate::solver::capacity::network::{INFINITE, Network};

/// A variable, and those of its choices that are left.
pub(crate) type Kept = (usize, Vec<usize>);

/// For each variable with choices that lack a partner, the choices left.
pub(crate) fn supported(network: &Network) -> Vec<Kept> {
    let mut alive: Vec<Vec<bool>> =
        network.unary.iter().map(|of| of.iter().map(|cost| *cost < INFINITE).collect()).collect();
    let is_there = |&table: &usize| !network.tables[table].costs.is_empty();
    let mut queue: Vec<usize> = (0..network.tables.len()).filter(is_there).collect();
    let mut is_queued = vec![true; network.tables.len()];
    while let Some(table) = queue.pop() {
        is_queued[table] = false;
        let changed = revise(network, table, &mut alive);
        let ends = network.tables[table].ends.into_iter().zip(changed);
        for (end, _) in ends.filter(|(_, changed)| *changed) {
            for &other in &network.tables_of[end] {
                if !std::mem::replace(&mut is_queued[other], true) {
                    queue.push(other);
                }
            }
        }
    }
    network.variables().filter_map(|v| kept(v, &alive[v])).collect()
}

/// Removes choices of a table's variables without a partner; returns which of the two lost any.
fn revise(network: &Network, table: usize, alive: &mut [Vec<bool>]) -> [bool; 2] {
    let [first, second] = network.tables[table].ends;
    let columns = network.size(second);
    let mut has_partner = vec![false; columns];
    let mut changed = [false; 2];
    for (x, row) in network.tables[table].costs.chunks(columns).enumerate() {
        if !alive[first][x] {
            continue;
        }
        let mut any = false;
        for (y, cost) in row.iter().enumerate() {
            if *cost < INFINITE && alive[second][y] {
                any = true;
                has_partner[y] = true;
            }
        }
        alive[first][x] = any;
        changed[0] |= !any;
    }
    for (alive, has_partner) in alive[second].iter_mut().zip(has_partner) {
        changed[1] |= *alive && !has_partner;
        *alive &= has_partner;
    }
    changed
}

fn kept(variable: usize, alive: &[bool]) -> Option<Kept> {
    let left = || (0..alive.len()).filter(|&choice| alive[choice]).collect();
    alive.contains(&false).then(|| (variable, left()))
}

/// For each variable with choices that do not fit, the choices left; `None` if nothing fits.
pub(crate) fn fitting(network: &Network) -> Option<Vec<Kept>> {
    if network.moments.is_empty() {
        return Some(Vec::new());
    }
    let left = network.slack_beside_least();
    if left.iter().any(|left| *left < 0.0) {
        return None;
    }
    let left = RangeMinima::new(left);
    let of_variable = |v: usize| {
        let rooms = network.demands[v]
            .iter()
            .map(|demand| demand.least() + left.least(demand.live.start, demand.live.end).max(0.0));
        let rooms: Vec<f64> = rooms.collect();
        let fits = |choice: usize| {
            let mut demands = network.demands[v].iter().zip(&rooms);
            demands.all(|(demand, slack)| demand.numbers[choice] <= *slack)
        };
        kept(v, &(0..network.size(v)).map(fits).collect::<Vec<bool>>())
    };
    Some(network.variables().filter_map(of_variable).collect())
}

/// The least number in any range, by ranges of lengths that are powers of two.
struct RangeMinima {
    levels: Vec<Vec<f64>>,
}

impl RangeMinima {
    fn new(numbers: Vec<f64>) -> Self {
        let (mut levels, mut width) = (vec![numbers], 1);
        while 2 * width <= levels[0].len() {
            let last = &levels[levels.len() - 1];
            let next = (0..last.len() - width).map(|i| last[i].min(last[i + width])).collect();
            levels.push(next);
            width *= 2;
        }
        Self { levels }
    }

    /// The least number of a range that is not empty.
    fn least(&self, start: usize, end: usize) -> f64 {
        let level = (end - start).ilog2() as usize;
        let numbers = &self.levels[level];
        numbers[start].min(numbers[end - (1 << level)])
    }
}
