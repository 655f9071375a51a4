//! Which figures of a chip are fitted to which measurements, and which measurements are too noisy.

use indexmap::IndexMap;
use rayon::prelude::*;
use shardwise_ir::hardware::Hardware;
use shardwise_ir::rates::MeasuredRates;

use super::least_squares::{Range, Task};
use super::measurement::{Kernel, Measurement, Priced};
use crate::hardware::numbers::{self, Number, Scale};

/// Figures that are fitted together, since the same kernels depend on them.
pub(super) struct Group {
    pub(super) name: &'static str,
    /// What the keys of its figures begin with.
    prefixes: &'static [&'static str],
    has: fn(&Kernel) -> bool,
}

pub(super) const GROUPS: [Group; 5] = [
    Group {
        name: "products",
        prefixes: &["product"],
        has: |k| matches!(k, Kernel::Product { .. }),
    },
    Group {
        name: "attention",
        prefixes: &["attention"],
        has: |k| matches!(k, Kernel::Attention(_)),
    },
    Group { name: "passes", prefixes: &["pass_"], has: |k| matches!(k, Kernel::Pass { .. }) },
    Group {
        name: "collectives",
        prefixes: &["link_", "network_"],
        has: |kernel| matches!(kernel, Kernel::Collective { .. }) && !kernel.is_of_an_engine(),
    },
    Group { name: "engine AllReduces", prefixes: &["engine_"], has: Kernel::is_of_an_engine },
];

/// Repeated measurements of one kernel that differ by more than this factor are noise.
const REPEATABLE: f64 = 1.5;
/// So are those whose own runs differ by more than this share.
const LARGEST_SPREAD: f64 = 0.3;
/// A measurement is left out whose residual is so many times the typical one, and above a tenth.
const OUTLIER: f64 = 5.0;
const SMALLEST_OUTLIER: f64 = 0.1;
/// A figure is determined if its standard error is at most this share of it; a time also if that is
/// at most a tenth of the shortest measured one.
const DETERMINED: f64 = 0.3;

/// The end of keys of the share at which a switch itself reduces; some do not.
const IN_SWITCH: &str = "_in_switch";
/// Another figure has to lower the loss to this share of it.
const WORTH_A_FIGURE: f64 = 0.95;

/// A measurement that is priced.
pub(super) struct Row {
    pub(super) measurement: Measurement,
    pub(super) priced: Priced,
}

/// A fitted figure of a chip.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Its key in hardware files.
    pub key: &'static str,
    /// Its meaning.
    pub what: &'static str,
    /// The fitted number, rounded to what is written.
    pub value: f64,
    /// Its standard error.
    pub error: f64,
    /// Whether it is a share of a peak, not a time.
    pub is_share: bool,
}

/// A measurement beside what is predicted.
#[derive(Clone, Debug)]
pub struct Residual {
    /// Where it was read: `bench.csv:12`.
    pub place: String,
    /// What was measured.
    pub kernel: String,
    /// Measured seconds.
    pub measured_s: f64,
    /// Predicted seconds at the fitted figures.
    pub fitted_s: f64,
    /// Why it was left out of the fit, if it was.
    pub left_out: Option<String>,
}

impl Residual {
    /// By how much the prediction is off, as a share of the measured time.
    pub fn error(&self) -> f64 {
        self.fitted_s / self.measured_s - 1.0
    }
}

/// The fit of one group.
#[derive(Clone, Debug)]
pub struct GroupFit {
    /// `products`, `attention`, `passes` or `collectives`.
    pub name: &'static str,
    /// The figures.
    pub figures: Vec<Figure>,
    /// Keys that measurements depend on and do not determine: they stay as they were.
    pub undetermined: Vec<&'static str>,
    /// Every measurement of the group.
    pub residuals: Vec<Residual>,
    /// The mean error before the fit, of the measurements that were not left out.
    pub before: f64,
}

impl GroupFit {
    /// The measurements that were fitted.
    pub fn fitted(&self) -> impl Iterator<Item = &Residual> {
        self.residuals.iter().filter(|residual| residual.left_out.is_none())
    }

    /// Mean and median of the absolute errors of the fitted measurements.
    pub fn mean_and_median(&self) -> (f64, f64) {
        mean_and_median(self.fitted().map(|residual| residual.error().abs()).collect())
    }
}

/// Mean and median; 0 of nothing.
pub(super) fn mean_and_median(mut errors: Vec<f64>) -> (f64, f64) {
    errors.sort_by(f64::total_cmp);
    let count = errors.len().max(1);
    let middle = |at: usize| errors.get(at).copied().unwrap_or_default();
    let mean = errors.iter().sum::<f64>() / count as f64;
    (mean, f64::midpoint(middle((count - 1) / 2), middle(count / 2)))
}

/// Fits one group, and writes its figures into `hardware`; `None` without measurements.
pub(super) fn fit(group: &Group, rows: &[Row], hardware: &mut Hardware) -> Option<GroupFit> {
    let rows: Vec<&Row> = rows.iter().filter(|row| (group.has)(&row.measurement.kernel)).collect();
    if rows.is_empty() {
        return None;
    }
    let mut noise: Vec<Option<String>> = noisy(&rows);
    let before_s = predict(&rows, &hardware.measured);
    let mut fitter = Fitter { base: hardware.clone(), rows: used(&rows, &noise) };
    let mut keys = fitter.keys(group);
    let mut values = fitter.choose(&mut keys);
    let outliers = outliers(&rows, &noise, &fitter.rates(&keys, &values));
    if outliers.iter().any(Option::is_some) {
        noise
            .iter_mut()
            .zip(outliers)
            .for_each(|(noise, outlier)| *noise = noise.take().or(outlier));
        fitter.rows = used(&rows, &noise);
        values = fitter.choose(&mut keys);
    }
    let mut undetermined = Vec::new();
    let mut errors = fitter.errors(&keys, &values);
    while let Some(worst) = fitter.least_determined(&keys, &values, &errors) {
        undetermined.push(keys.remove(worst).0);
        values = fitter.fit(&keys);
        errors = fitter.errors(&keys, &values);
    }
    let values: Vec<f64> = values.iter().map(|&value| rounded(value)).collect();
    hardware.measured = fitter.rates(&keys, &values);
    let fitted_s = predict(&rows, &hardware.measured);
    let figures = keys.iter().zip(values).zip(errors);
    let figures = figures.map(|((&&(key, what, scale, _), value), error)| Figure {
        key,
        what,
        value,
        error,
        is_share: scale == Scale::Share,
    });
    let kept = |at: &usize| noise[*at].is_none();
    let off = |at: usize| (before_s[at] / rows[at].measurement.seconds - 1.0).abs();
    Some(GroupFit {
        name: group.name,
        figures: figures.collect(),
        undetermined,
        before: mean_and_median((0..rows.len()).filter(kept).map(off).collect()).0,
        residuals: residuals(&rows, &fitted_s, noise),
    })
}

fn residuals(rows: &[&Row], fitted_s: &[f64], noise: Vec<Option<String>>) -> Vec<Residual> {
    let residual = |((row, &fitted_s), left_out): ((&&Row, &f64), Option<String>)| Residual {
        place: row.measurement.place.clone(),
        kernel: row.measurement.kernel.to_string(),
        measured_s: row.measurement.seconds,
        fitted_s,
        left_out,
    };
    rows.iter().zip(fitted_s).zip(noise).map(residual).collect()
}

/// Seconds of all rows.
fn predict(rows: &[&Row], rates: &MeasuredRates) -> Vec<f64> {
    rows.par_iter().map(|row| row.priced.seconds(rates)).collect()
}

fn used<'r>(rows: &[&'r Row], noise: &[Option<String>]) -> Vec<&'r Row> {
    rows.iter().zip(noise).filter(|(_, noise)| noise.is_none()).map(|(row, _)| *row).collect()
}

/// Three significant digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// Why measurements are too noisy to use: their own runs differ, or others of the same kernel do.
fn noisy(rows: &[&Row]) -> Vec<Option<String>> {
    let mut same: IndexMap<Kernel, Vec<&Measurement>> = IndexMap::new();
    for row in rows {
        same.entry(row.measurement.kernel).or_default().push(&row.measurement);
    }
    let reason = |row: &&Row| {
        let Measurement { kernel, spread, place, .. } = &row.measurement;
        if let Some(spread) = spread.filter(|&spread| spread > LARGEST_SPREAD) {
            return Some(format!("its runs differ by {:.0}%", 100.0 * spread));
        }
        let all = &same[kernel];
        let by_time = |a: &&&Measurement, b: &&&Measurement| a.seconds.total_cmp(&b.seconds);
        let (least, most) = (all.iter().min_by(by_time)?, all.iter().max_by(by_time)?);
        let factor = most.seconds / least.seconds;
        let other = if least.place == *place { &most.place } else { &least.place };
        (factor > REPEATABLE).then(|| {
            format!("measured {factor:.1} times as long in one run as in another ({other})")
        })
    };
    rows.iter().map(reason).collect()
}

/// What is far from a fit that it was part of.
fn outliers(rows: &[&Row], noise: &[Option<String>], rates: &MeasuredRates) -> Vec<Option<String>> {
    let predicted = predict(rows, rates);
    let ratio = |(row, predicted): (&&Row, &f64)| (row.measurement.seconds / predicted).ln();
    let ratios: Vec<f64> = rows.iter().zip(&predicted).map(ratio).collect();
    let fitted = ratios.iter().zip(noise).filter(|(_, noise)| noise.is_none());
    let (_, median) = mean_and_median(fitted.map(|(ratio, _)| ratio.abs()).collect());
    let limit = (OUTLIER * median).max(SMALLEST_OUTLIER);
    let reason = |ratio: &f64| format!("{:.2} times what all others predict", ratio.exp());
    ratios.iter().map(|ratio| (ratio.abs() > limit).then(|| reason(ratio))).collect()
}

/// The rows that are fitted, and the chip that the fit starts from.
struct Fitter<'r> {
    base: Hardware,
    rows: Vec<&'r Row>,
}

type Keys = Vec<&'static Number>;

impl Fitter<'_> {
    /// The rates of the chip with other figures under these keys.
    fn rates(&self, keys: &[&'static Number], values: &[f64]) -> MeasuredRates {
        let mut hardware = self.base.clone();
        for ((.., field), &value) in keys.iter().zip(values) {
            *field(&mut hardware) = Some(value);
        }
        hardware.measured
    }

    /// The keys of the group that prices depend on.
    fn keys(&self, group: &Group) -> Keys {
        let all: Keys = numbers::MEASURED
            .iter()
            .filter(|(key, ..)| group.prefixes.iter().any(|prefix| key.starts_with(prefix)))
            .collect();
        let start = self.start(&all);
        let at = predict(&self.rows, &self.rates(&all, &start));
        let changes = |&number: &usize| {
            let mut values = start.clone();
            values[number] *= 0.8;
            predict(&self.rows, &self.rates(&all, &values)) != at
        };
        (0..all.len()).filter(changes).map(|number| all[number]).collect()
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

    fn fit(&self, keys: &[&'static Number]) -> Vec<f64> {
        if keys.is_empty() {
            return Vec::new();
        }
        self.with_task(keys, |task| task.fit(&self.start(keys)))
    }

    /// The fitted numbers; without the reduction in the switch where it does not explain more than
    /// the ring does: its share is then not that of slow switches, but nothing.
    fn choose(&mut self, keys: &mut Keys) -> Vec<f64> {
        let values = self.fit(keys);
        let Some(place) = keys.iter().position(|(key, ..)| key.ends_with(IN_SWITCH)) else {
            return values;
        };
        let mut without = Self { base: self.base.clone(), rows: self.rows.clone() };
        let mut fewer = keys.clone();
        let (.., field) = fewer.remove(place);
        *field(&mut without.base) = None;
        let plain = without.fit(&fewer);
        let loss = self.with_task(keys, |task| task.loss(&values));
        if loss < WORTH_A_FIGURE * without.with_task(&fewer, |task| task.loss(&plain)) {
            return values;
        }
        (*self, *keys) = (without, fewer);
        plain
    }

    fn errors(&self, keys: &[&'static Number], values: &[f64]) -> Vec<f64> {
        if keys.is_empty() {
            return Vec::new();
        }
        self.with_task(keys, |task| task.standard_errors(values))
    }

    /// The number that the measurements determine least, if there is one that they do not.
    fn least_determined(&self, keys: &Keys, values: &[f64], errors: &[f64]) -> Option<usize> {
        let seconds = self.rows.iter().map(|row| row.measurement.seconds);
        let shortest_s = seconds.fold(f64::INFINITY, f64::min);
        let excess = |at: &usize| {
            let own = DETERMINED * values[*at];
            let allowed = if keys[*at].2 == Scale::Share { own } else { own.max(0.1 * shortest_s) };
            // A number that nothing depends on has no error at all.
            if errors[*at].is_finite() { errors[*at] / allowed } else { f64::INFINITY }
        };
        let worst = (0..keys.len()).max_by(|a, b| excess(a).total_cmp(&excess(b)))?;
        // As many numbers as measurements meet them whatever they are.
        (excess(&worst) > 1.0 || keys.len() >= self.rows.len()).then_some(worst)
    }
}
