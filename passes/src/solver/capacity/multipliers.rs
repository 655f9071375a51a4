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

    /// The covariances of demands at moments, times the curvature of each variable: demands are
    /// live at runs of moments, so that each pair of them adds a rectangle.
    fn curvatures(
        &self,
        moments: &[usize],
        probabilities: &[Vec<f64>],
        temperature: f64,
    ) -> Vec<Vec<f64>> {
        let place = |moment: usize| moments.partition_point(|&other| other < moment);
        let mut sums = vec![vec![0.0; moments.len() + 1]; moments.len() + 1];
        for (variable, of_choices) in probabilities.iter().enumerate() {
            if of_choices.iter().any(|probability| *probability >= CERTAIN) {
                continue;
            }
            let curvature = self.curvature(variable, temperature);
            let live = self.network.demands[variable].iter().filter_map(|demand| {
                let (start, end) = (place(demand.live.start), place(demand.live.end));
                let mean = mean(of_choices, &demand.numbers);
                let centred = demand.numbers.iter().map(move |number| number - mean);
                (start < end).then(|| (start, end, centred.collect::<Vec<f64>>()))
            });
            let live: Vec<_> = live.collect();
            for (start, end, first) in &live {
                for (start_of_second, end_of_second, second) in &live {
                    let products = first.iter().zip(second).zip(of_choices);
                    let covariance: f64 = products.map(|((x, y), p)| x * y * p).sum();
                    let more = curvature * covariance;
                    sums[*start][*start_of_second] += more;
                    sums[*start][*end_of_second] -= more;
                    sums[*end][*start_of_second] -= more;
                    sums[*end][*end_of_second] += more;
                }
            }
        }
        cumulated(sums)
    }
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
