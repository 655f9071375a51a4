//! Multipliers of moments: Newton steps on the smoothed dual.
//!
//! The smoothed bound is concave and differentiable in the multipliers. Its gradient is by how much
//! the *expected* demand exceeds the slack, its curvature about the covariance of demands; few
//! moments have a multiplier at a time (those with one, and the one exceeded most), so that a step
//! is a quadratic programme of a few variables, solved by coordinate ascent. No step more than
//! doubles a multiplier, and a step after which the bound falls is halved.
//!
//! Subgradient steps and bundles of hard bounds were the alternatives: both need the minimum of
//! the network at each multiplier, and converge slowly where hundreds of neighbouring
//! ones demand nearly the same.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::solver::capacity::message_passing::Messages;

/// The factor of a step, at most, and at least after steps that were too long.
pub(crate) const LONGEST: f64 = 0.7;
const SHORTEST: f64 = 0.01;

/// How a factor changes after a step that raised the bound, and one that did not.
const RISE: f64 = 1.1;
const FALL: f64 = 0.5;

/// The first multiplier of a moment, as a share of the price at which its slack is worth the bound.
const FIRST: f64 = 1e-3;

/// Passes over the coordinates of a quadratic programme.
const SWEEPS: usize = 100;

/// A choice that is taken with this probability counts as certain.
const CERTAIN: f64 = 1.0 - 1e-6;

impl Messages {
    /// Raises the smoothed bound in rounds of two passes and a step of the multipliers; `factor`
    /// is that of steps, and adapts.
    pub(crate) fn ascend(&mut self, rounds: usize, temperature: f64, factor: &mut f64) {
        let mut best = f64::NEG_INFINITY;
        let mut before = self.multipliers.clone();
        for _ in 0..rounds {
            self.pass(true, temperature);
            let bound = self.pass(false, temperature);
            if bound < best - 1e-9 * best.abs() {
                *factor = (*factor * FALL).max(SHORTEST);
                for (multiplier, before) in self.multipliers.iter_mut().zip(&before) {
                    *multiplier = f64::midpoint(*multiplier, *before);
                }
                self.charge();
                best = bound;
            } else {
                *factor = (*factor * RISE).min(LONGEST);
                best = bound;
                before.clone_from(&self.multipliers);
                self.step(temperature, *factor);
            }
        }
    }

    /// One step of the multipliers.
    fn step(&mut self, temperature: f64, factor: f64) {
        let probabilities: Vec<Vec<f64>> = (0..self.network.unary.len())
            .map(|v| {
                let is_free = self.network.demands[v].is_empty();
                if is_free { Vec::new() } else { self.probabilities(v, temperature) }
            })
            .collect();
        let excess = self.expected_excess(&probabilities);
        let moments = self.moments_to_price(&excess);
        if moments.is_empty() {
            return;
        }
        let mut curvature = self.curvatures(&moments, &probabilities, temperature);
        let slack = self.network.moments.iter().map(|moment| moment.slack).fold(1.0, f64::max);
        let first = FIRST * self.bound.abs().max(1.0) / slack;
        for (i, &moment) in moments.iter().enumerate() {
            let most = self.multipliers[moment] + first;
            curvature[i][i] = curvature[i][i].max(excess[moment].abs() / most) * (1.0 + 1e-3);
        }
        let gradient: Vec<f64> = moments.iter().map(|&moment| excess[moment]).collect();
        let least: Vec<f64> = moments.iter().map(|&moment| -self.multipliers[moment]).collect();
        let change = maximize_quadratic(&gradient, &curvature, &least);
        for (&moment, change) in moments.iter().zip(change) {
            let multiplier = &mut self.multipliers[moment];
            *multiplier = (*multiplier + factor * change).max(0.0);
        }
        self.charge();
    }

    /// By how much the expected demand exceeds the slack of each moment.
    fn expected_excess(&self, probabilities: &[Vec<f64>]) -> Vec<f64> {
        let demands = self.network.demands.iter().zip(probabilities);
        self.network.over(demands.flat_map(|(demands, probabilities)| {
            demands.iter().map(|demand| (demand.live.clone(), mean(probabilities, &demand.numbers)))
        }))
    }

    /// The moments with a multiplier, and the one exceeded most.
    fn moments_to_price(&self, excess: &[f64]) -> Vec<usize> {
        let worst = (0..excess.len()).max_by(|&a, &b| excess[a].total_cmp(&excess[b]));
        let worst = worst.filter(|&worst| excess[worst] > 0.0);
        let is_priced = |&moment: &usize| self.multipliers[moment] > 0.0 || worst == Some(moment);
        (0..excess.len()).filter(is_priced).collect()
    }

    /// The covariances of demands at moments, times the curvature of each variable: what a variable
    /// demands is the same over runs of moments, so that each pair of runs adds a rectangle.
    fn curvatures(
        &self,
        moments: &[usize],
        probabilities: &[Vec<f64>],
        temperature: f64,
    ) -> Vec<Vec<f64>> {
        let mut sums = vec![vec![0.0; moments.len() + 1]; moments.len() + 1];
        for (variable, of_choices) in probabilities.iter().enumerate() {
            if of_choices.iter().any(|probability| *probability >= CERTAIN) {
                continue;
            }
            let curvature = self.curvature(variable, temperature);
            let runs = self.runs(variable, moments, of_choices);
            for (number, (one, first)) in runs.iter().enumerate() {
                let weighted: Vec<f64> = first.iter().zip(of_choices).map(|(x, p)| x * p).collect();
                for (other, second) in &runs[number..] {
                    let more = curvature * mean(&weighted, second);
                    add_rectangle(&mut sums, one, other, more);
                    if one != other {
                        add_rectangle(&mut sums, other, one, more);
                    }
                }
            }
        }
        cumulated(sums)
    }

    /// The runs of some moments over which a variable demands the same, each with what its choices
    /// demand above the mean.
    fn runs(
        &self,
        variable: usize,
        moments: &[usize],
        of_choices: &[f64],
    ) -> Vec<(Range<usize>, Vec<f64>)> {
        let place = |moment: usize| moments.partition_point(|&other| other < moment);
        let mut changes: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        let mut add = |at: usize, sign: f64, centred: &[f64]| {
            let sums = changes.entry(at).or_insert_with(|| vec![0.0; centred.len()]);
            sums.iter_mut().zip(centred).for_each(|(sum, number)| *sum += sign * number);
        };
        for demand in &*self.network.demands[variable] {
            let (start, end) = (place(demand.live.start), place(demand.live.end));
            if start < end {
                let mean = mean(of_choices, &demand.numbers);
                let centred: Vec<f64> = demand.numbers.iter().map(|number| number - mean).collect();
                add(start, 1.0, &centred);
                add(end, -1.0, &centred);
            }
        }
        let starts: Vec<usize> = changes.keys().copied().collect();
        let mut now = vec![0.0; of_choices.len()];
        let until = |(changes, (start, end)): (Vec<f64>, (usize, usize))| {
            now.iter_mut().zip(changes).for_each(|(now, change)| *now += change);
            (start..end, now.clone())
        };
        let ranges = starts.iter().copied().zip(starts.iter().copied().skip(1));
        changes.into_values().zip(ranges).map(until).collect()
    }
}

/// Adds a number at all pairs of two ranges, as differences.
fn add_rectangle(sums: &mut [Vec<f64>], rows: &Range<usize>, columns: &Range<usize>, more: f64) {
    sums[rows.start][columns.start] += more;
    sums[rows.start][columns.end] -= more;
    sums[rows.end][columns.start] -= more;
    sums[rows.end][columns.end] += more;
}

/// The sums of the entries up to each, without the last row and column.
fn cumulated(mut sums: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let count = sums.len() - 1;
    for x in 0..count {
        for y in 1..count {
            sums[x][y] += sums[x][y - 1];
        }
        if x > 0 {
            let (above, below) = sums.split_at_mut(x);
            below[0].iter_mut().zip(&above[x - 1]).for_each(|(sum, above)| *sum += above);
        }
        sums[x].truncate(count);
    }
    sums.truncate(count);
    sums
}

fn mean(probabilities: &[f64], numbers: &[f64]) -> f64 {
    probabilities.iter().zip(numbers).map(|(probability, number)| probability * number).sum()
}

/// Maximises `gradient · d - d · curvature · d / 2` where no number is below its `least`.
fn maximize_quadratic(gradient: &[f64], curvature: &[Vec<f64>], least: &[f64]) -> Vec<f64> {
    let mut change = vec![0.0; gradient.len()];
    for _ in 0..SWEEPS {
        for i in 0..change.len() {
            let own = curvature[i][i];
            if own > 0.0 {
                let slope = gradient[i] - mean(&curvature[i], &change);
                change[i] = f64::max(change[i] + slope / own, least[i]);
            }
        }
    }
    change
}
