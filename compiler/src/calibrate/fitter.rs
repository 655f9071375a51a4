//! The fit of figures to rows: where it starts, which of them the rows determine, and whether a
//! switch reduces.

use indexmap::IndexSet;
use shardwise_ir::hardware::Hardware;
use shardwise_ir::rates::MeasuredRates;

use super::fit::{Figure, Group, Row, predict};
use super::least_squares::{LEAST_NOISE, Range, Task};
use crate::hardware::numbers::{self, Number, Scale};

/// A figure is determined if its standard error is at most this share of it; a time also if that is
/// at most a tenth of the shortest measured one.
const DETERMINED: f64 = 0.3;

/// The end of keys of the share at which a switch itself reduces; some do not.
const IN_SWITCH: &str = "_in_switch";
/// A choice has to lower the loss by so many times the variance of a measurement: chance alone does
/// that for one figure in 200 (the F-test).
const WORTH_A_FIGURE: f64 = 8.0;

/// The end of keys of times that the number of devices multiplies: over any single number, they and
/// the fixed time of a collective are one sum.
const PER_DEVICE: &str = "_per_device";

pub(super) type Keys = Vec<&'static Number>;

/// The rows that are fitted, and the chip that the fit starts from.
#[derive(Clone)]
pub(super) struct Fitter<'r> {
    pub(super) base: Hardware,
    pub(super) rows: Vec<&'r Row>,
}

/// Fitted figures, and the chip whose other figures hold.
pub(super) struct Fit<'r> {
    fitter: Fitter<'r>,
    pub(super) keys: Keys,
    values: Vec<f64>,
    /// Standard errors of the values.
    errors: Vec<f64>,
    /// Keys that the rows do not determine.
    pub(super) held: Vec<&'static str>,
    /// Keys without whose figures the rows are met better.
    pub(super) removed: Vec<&'static str>,
}

impl<'r> Fitter<'r> {
    /// The rates of the chip with other figures under these keys.
    fn rates(&self, keys: &[&'static Number], values: &[f64]) -> MeasuredRates {
        let mut hardware = self.base.clone();
        for ((.., field), &value) in keys.iter().zip(values) {
            *field(&mut hardware) = Some(value);
        }
        hardware.measured
    }

    /// The keys of the group that prices depend on, and those that no fit could determine: times
    /// of a device where all that depends on them is over one number of devices.
    pub(super) fn keys(&self, group: &Group) -> (Keys, Keys) {
        let all: Keys = numbers::MEASURED
            .iter()
            .filter(|(key, ..)| group.prefixes.iter().any(|prefix| key.starts_with(prefix)))
            .collect();
        let start = self.start(&all);
        let at = predict(&self.rows, &self.rates(&all, &start));
        let (mut fitted, mut undetermined) = (Keys::new(), Keys::new());
        for (number, &key) in all.iter().enumerate() {
            let mut values = start.clone();
            values[number] *= 0.8;
            let changed = predict(&self.rows, &self.rates(&all, &values));
            let reads = (0..at.len()).filter(|&row| at[row].total_cmp(&changed[row]).is_ne());
            let reads: Vec<&Row> = reads.map(|row| self.rows[row]).collect();
            if key.0.ends_with(PER_DEVICE) && !reads.is_empty() && are_over_one_number(&reads) {
                undetermined.push(key);
            } else if !reads.is_empty() {
                fitted.push(key);
            }
        }
        (fitted, undetermined)
    }

    /// The chip's own figures, or typical ones.
    fn start(&self, keys: &[&'static Number]) -> Vec<f64> {
        let mut base = self.base.clone();
        let mut value = |(_, _, scale, field): &&Number| match (*field(&mut base), scale) {
            (Some(own), _) if own > 1e-7 => own,
            (_, Scale::Share) => 0.7,
            _ => 3e-6,
        };
        keys.iter().map(&mut value).collect()
    }

    fn with_task<T>(&self, keys: &[&'static Number], run: impl Fn(&Task<'_>) -> T) -> T {
        let range = |(_, _, scale, _): &&Number| {
            if *scale == Scale::Share { Range::Share } else { Range::Time }
        };
        let ranges: Vec<Range> = keys.iter().map(range).collect();
        let measured_s: Vec<f64> = self.rows.iter().map(|row| row.measurement.seconds).collect();
        let law = |values: &[f64]| predict(&self.rows, &self.rates(keys, values));
        run(&Task { ranges: &ranges, measured_s: &measured_s, predict: &law })
    }

    fn fit(&self, keys: Keys) -> Fit<'r> {
        let (fitter, held, removed) = (self.clone(), Vec::new(), Vec::new());
        let mut fit = Fit { fitter, keys, values: Vec::new(), errors: Vec::new(), held, removed };
        fit.again();
        fit
    }

    /// The fit of all keys but for the reduction in the switch, which is fitted only where that
    /// explains more than the chip's own figure, or than the ring where it has none; and which is
    /// removed where the ring explains more than the chip's own figure.
    pub(super) fn choose(&self, keys: &Keys) -> Fit<'r> {
        let Some(place) = keys.iter().position(|(key, ..)| key.ends_with(IN_SWITCH)) else {
            return self.fit(keys.clone());
        };
        let fitted = self.fit(keys.clone());
        let mut others = keys.clone();
        let &(key, .., field) = others.remove(place);
        let mut held = self.fit(others.clone());
        let mut ring = self.clone();
        let is_own = field(&mut ring.base).take().is_some();
        if !is_own {
            return if fitted.is_worth_more_than(&held) { fitted } else { held };
        }
        let mut ring = ring.fit(others);
        ring.removed.push(key);
        held.held.push(key);
        if fitted.excess()[place] <= 1.0 && fitted.is_worth_more_than(&held) {
            return fitted;
        }
        if ring.is_worth_more_than(&held) { ring } else { held }
    }
}

/// Whether all collectives are over the same number of devices in as many nodes.
fn are_over_one_number(rows: &[&Row]) -> bool {
    let places = rows.iter().map(|row| row.measurement.kernel.devices_and_nodes());
    places.collect::<IndexSet<_>>().len() <= 1
}

impl Fit<'_> {
    /// The rates of the chip with the fitted figures.
    pub(super) fn rates(&self) -> MeasuredRates {
        self.fitter.rates(&self.keys, &self.values)
    }

    /// Fits the keys that are left.
    fn again(&mut self) {
        if self.keys.is_empty() {
            (self.values, self.errors) = (Vec::new(), Vec::new());
            return;
        }
        let start = self.fitter.start(&self.keys);
        (self.values, self.errors) = self.fitter.with_task(&self.keys, |task| {
            let values = task.fit(&start);
            let errors = task.standard_errors(&values);
            (values, errors)
        });
    }

    fn loss(&self) -> f64 {
        self.fitter.with_task(&self.keys, |task| task.loss(&self.values))
    }

    /// Whether it lowers the loss by more than chance and the noise of clocks do.
    fn is_worth_more_than(&self, other: &Self) -> bool {
        let freedom = self.fitter.rows.len().saturating_sub(self.keys.len()).max(1) as f64;
        let loss = self.loss();
        let variance = (loss / freedom).max(LEAST_NOISE.powi(2));
        other.loss() - loss > WORTH_A_FIGURE * variance
    }

    /// Leaves the figures that the rows do not determine as the chip has them, one after another,
    /// and fits the others again.
    pub(super) fn hold_undetermined(&mut self) {
        while let Some(place) = self.least_determined() {
            self.held.push(self.keys.remove(place).0);
            self.again();
        }
    }

    /// The key that the rows determine least, if there is one that they do not.
    fn least_determined(&self) -> Option<usize> {
        let excess = self.excess();
        let worst = (0..self.keys.len()).max_by(|&a, &b| excess[a].total_cmp(&excess[b]))?;
        // As many numbers as measurements meet them whatever they are.
        (excess[worst] > 1.0 || self.keys.len() >= self.fitter.rows.len()).then_some(worst)
    }

    /// The standard error of each figure over that of one that is just determined.
    fn excess(&self) -> Vec<f64> {
        let seconds = self.fitter.rows.iter().map(|row| row.measurement.seconds);
        let shortest_s = seconds.fold(f64::INFINITY, f64::min);
        let excess = |((number, value), error): ((&&Number, &f64), &f64)| {
            let own = DETERMINED * value;
            let allowed = if number.2 == Scale::Share { own } else { own.max(0.1 * shortest_s) };
            // A number that nothing depends on has no error at all.
            if error.is_finite() { error / allowed } else { f64::INFINITY }
        };
        self.keys.iter().zip(&self.values).zip(&self.errors).map(excess).collect()
    }

    /// Rounds the figures to what is written: three significant digits.
    pub(super) fn round(&mut self) {
        for value in &mut self.values {
            *value = format!("{value:.2e}").parse().unwrap_or(*value);
        }
    }

    /// The fitted figures.
    pub(super) fn figures(&self) -> Vec<Figure> {
        let figures = self.keys.iter().zip(&self.values).zip(&self.errors);
        let figure = |((&&(key, what, scale, _), &value), &error)| Figure {
            key,
            what,
            value,
            error,
            is_share: scale == Scale::Share,
        };
        figures.map(figure).collect()
    }
}
