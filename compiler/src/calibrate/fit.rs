//! Which figures of a chip are fitted to which measurements, and which measurements are left out.

use indexmap::IndexMap;
use rayon::prelude::*;
use shardwise_ir::hardware::Hardware;
use shardwise_ir::rates::MeasuredRates;

use super::fitter::{Fit, Fitter};
use super::implausible::Limits;
use super::least_squares::{AT_PEAK, LEAST_NOISE};
use super::measurement::{Kernel, Measurement, Priced};

/// Figures that are fitted together, since the same kernels depend on them.
pub(super) struct Group {
    pub(super) name: &'static str,
    /// What the keys of its figures begin with.
    pub(super) prefixes: &'static [&'static str],
    pub(super) has: fn(&Kernel) -> bool,
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

impl Figure {
    /// Whether it is a share of a peak that the chip reaches: the stated one may be too low.
    pub(super) fn is_at_limit(&self) -> bool {
        self.is_share && self.value > AT_PEAK
    }
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
    /// Keys whose figures meet the measurements as well as fitted ones would: they stay, too.
    pub kept: Vec<&'static str>,
    /// Keys whose figures the measurements contradict: the chip does not have what they are of.
    pub removed: Vec<&'static str>,
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
        errors_of(&self.residuals)
    }

    /// The better of the chip's own figures and the fitted ones, which are written into
    /// `hardware`. Where the chip's own are off by less than clocks are, there is nothing to fit.
    fn better(
        name: &'static str,
        fit: Fit<'_>,
        before: Vec<Residual>,
        after: Vec<Residual>,
        hardware: &mut Hardware,
    ) -> Self {
        let (before_fit, after_fit) = (errors_of(&before).0, errors_of(&after).0);
        let start = Self {
            name,
            figures: Vec::new(),
            undetermined: fit.held.clone(),
            kept: Vec::new(),
            removed: Vec::new(),
            residuals: before,
            before: before_fit,
        };
        if before_fit > LEAST_NOISE && after_fit < before_fit {
            hardware.measured = fit.rates();
            let (figures, removed) = (fit.figures(), fit.removed);
            return Self { figures, removed, residuals: after, ..start };
        }
        let fitted = fit.keys.iter().map(|(key, ..)| *key);
        Self { kept: fitted.chain(fit.removed).collect(), ..start }
    }
}

fn errors_of(residuals: &[Residual]) -> (f64, f64) {
    let fitted = residuals.iter().filter(|residual| residual.left_out.is_none());
    mean_and_median(fitted.map(|residual| residual.error().abs()).collect())
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
    let limits = Limits::of(group, hardware);
    let mut noise = noisy(&rows, rows.iter().map(|row| limits.excluded(row)).collect());
    let before_s = predict(&rows, &hardware.measured);
    let mut fitter = Fitter { base: hardware.clone(), rows: used(&rows, &noise) };
    let (keys, held) = fitter.keys(group);
    let mut fit = fitter.choose(&keys);
    let outliers = outliers(&rows, &noise, &fit);
    if outliers.iter().any(Option::is_some) {
        noise
            .iter_mut()
            .zip(outliers)
            .for_each(|(noise, outlier)| *noise = noise.take().or(outlier));
        fitter.rows = used(&rows, &noise);
        fit = fitter.choose(&keys);
    }
    fit.held.extend(held.iter().map(|(key, ..)| *key));
    fit.hold_undetermined();
    fit.round();
    let before = residuals(&rows, &before_s, noise.clone());
    let after = residuals(&rows, &predict(&rows, &fit.rates()), noise);
    Some(GroupFit::better(group.name, fit, before, after, hardware))
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
pub(super) fn predict(rows: &[&Row], rates: &MeasuredRates) -> Vec<f64> {
    rows.par_iter().map(|row| row.priced.seconds(rates)).collect()
}

fn used<'r>(rows: &[&'r Row], noise: &[Option<String>]) -> Vec<&'r Row> {
    rows.iter().zip(noise).filter(|(_, noise)| noise.is_none()).map(|(row, _)| *row).collect()
}

/// Why measurements are too noisy: their own runs differ, or others of the same kernel do; beside
/// those that are excluded already.
fn noisy(rows: &[&Row], excluded: Vec<Option<String>>) -> Vec<Option<String>> {
    let mut same: IndexMap<Kernel, Vec<&Measurement>> = IndexMap::new();
    for row in used(rows, &excluded) {
        same.entry(row.measurement.kernel).or_default().push(&row.measurement);
    }
    let reason = |row: &&Row| {
        let Measurement { kernel, spread, place, .. } = &row.measurement;
        if let Some(spread) = spread.filter(|&spread| spread > LARGEST_SPREAD) {
            return Some(format!("its runs differ by {:.0}%", 100.0 * spread));
        }
        let all = same.get(kernel)?;
        let by_time = |a: &&&Measurement, b: &&&Measurement| a.seconds.total_cmp(&b.seconds);
        let (least, most) = (all.iter().min_by(by_time)?, all.iter().max_by(by_time)?);
        let factor = most.seconds / least.seconds;
        let other = if least.place == *place { &most.place } else { &least.place };
        (factor > REPEATABLE).then(|| {
            format!("measured {factor:.1} times as long in one run as in another ({other})")
        })
    };
    let noisy = |(row, excluded): (&&Row, Option<String>)| excluded.or_else(|| reason(row));
    rows.iter().zip(excluded).map(noisy).collect()
}

/// What is far from a fit that it was part of. What is faster than a fit at the peak is not: there,
/// the peak is wrong.
fn outliers(rows: &[&Row], noise: &[Option<String>], fit: &Fit<'_>) -> Vec<Option<String>> {
    let predicted = predict(rows, &fit.rates());
    let ratio = |(row, predicted): (&&Row, &f64)| (row.measurement.seconds / predicted).ln();
    let ratios: Vec<f64> = rows.iter().zip(&predicted).map(ratio).collect();
    let fitted = ratios.iter().zip(noise).filter(|(_, noise)| noise.is_none());
    let (_, median) = mean_and_median(fitted.map(|(ratio, _)| ratio.abs()).collect());
    let most = (OUTLIER * median).max(SMALLEST_OUTLIER);
    let is_at_peak = fit.figures().iter().any(Figure::is_at_limit);
    let least = if is_at_peak { f64::NEG_INFINITY } else { -most };
    let reason = |ratio: &f64| format!("{:.2} times what all others predict", ratio.exp());
    ratios.iter().map(|ratio| (!(least..=most).contains(ratio)).then(|| reason(ratio))).collect()
}
