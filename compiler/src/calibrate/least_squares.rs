//! Robust least squares on the logarithm of predicted over measured time.
//!
//! The solver is that of the crate `levenberg-marquardt` (MINPACK's). It has no bounds, so that
//! numbers are fitted through a function onto their range: a share through the logistic one, a
//! time through the exponential. Residuals pass through the root of the soft-L1 loss, so that a
//! measurement that is far off pulls with a constant force, not with one that grows.

use levenberg_marquardt::{LeastSquaresProblem, LevenbergMarquardt};
use nalgebra::storage::Owned;
use nalgebra::{DMatrix, DVector, Dyn, SymmetricEigen};

/// Where the loss turns from quadratic to linear: a tenth.
const LOSS_SCALE: f64 = 0.1;

/// The noise that is assumed at least, where measurements agree better than clocks do.
pub(super) const LEAST_NOISE: f64 = 0.005;

/// A share above this is at its limit: the stated peak may be too low.
pub(super) const AT_PEAK: f64 = 0.995;

/// The range of a fitted number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Range {
    /// Between 0 and 1.
    Share,
    /// Seconds, 0 or more.
    Time,
}

impl Range {
    fn to_free(self, value: f64) -> f64 {
        match self {
            Self::Share => {
                let value = value.clamp(0.001, 0.98);
                (value / (1.0 - value)).ln()
            }
            Self::Time => value.max(1e-7).ln(),
        }
    }

    fn of_free(self, free: f64) -> f64 {
        match self {
            Self::Share => 1.0 / (1.0 + (-free).exp()),
            Self::Time => free.clamp(-60.0, 60.0).exp(),
        }
    }
}

/// What is fitted to what.
pub(super) struct Task<'t> {
    /// The ranges of the numbers.
    pub(super) ranges: &'t [Range],
    /// The measured seconds.
    pub(super) measured_s: &'t [f64],
    /// The predicted ones, as a function of the numbers.
    pub(super) predict: &'t dyn Fn(&[f64]) -> Vec<f64>,
}

impl Task<'_> {
    /// The numbers that meet the measurements best, from `start` on.
    pub(super) fn fit(&self, start: &[f64]) -> Vec<f64> {
        let free = self.ranges.iter().zip(start).map(|(range, value)| range.to_free(*value));
        let free = DVector::from_iterator(start.len(), free);
        let (solved, _) = LevenbergMarquardt::new().minimize(Problem { task: self, free });
        self.values(&solved.free)
    }

    fn values(&self, free: &DVector<f64>) -> Vec<f64> {
        self.ranges.iter().zip(free.iter()).map(|(range, free)| range.of_free(*free)).collect()
    }

    /// `ln(predicted / measured)` of every measurement.
    pub(super) fn log_ratios(&self, values: &[f64]) -> Vec<f64> {
        let predicted = (self.predict)(values);
        predicted.iter().zip(self.measured_s).map(|(p, m)| (p / m).ln()).collect()
    }

    /// The sum of squares that the fit minimizes.
    pub(super) fn loss(&self, values: &[f64]) -> f64 {
        self.log_ratios(values).iter().map(|&ratio| damped(ratio).powi(2)).sum()
    }

    /// The standard error of every number, in its own unit: from the curvature of the sum of
    /// squares and the scatter of the measurements. Infinite where they do not determine it.
    pub(super) fn standard_errors(&self, values: &[f64]) -> Vec<f64> {
        let at = self.log_ratios(values);
        let steps: Vec<f64> = values.iter().map(|value| 1e-3 * value.max(1e-6)).collect();
        let columns: Vec<DVector<f64>> = (0..values.len())
            .map(|number| {
                let mut moved = values.to_vec();
                // Downwards: a share at 1 cannot grow.
                moved[number] -= steps[number];
                let moved = self.log_ratios(&moved);
                DVector::from_iterator(at.len(), at.iter().zip(&moved).map(|(a, b)| a - b))
            })
            .collect();
        let jacobian = DMatrix::from_columns(&columns);
        let noise = self.noise(values, &at);
        let variances = inverse_diagonal(&jacobian);
        variances
            .iter()
            .zip(&steps)
            .map(|(variance, step)| noise * variance.sqrt() * step)
            .collect()
    }

    /// The scatter of the measurements. What is faster than a fit at the peak is no noise: there,
    /// the peak is wrong.
    fn noise(&self, values: &[f64], log_ratios: &[f64]) -> f64 {
        let is_at_peak =
            |(range, value): (&Range, &f64)| *range == Range::Share && *value > AT_PEAK;
        let is_peak_wrong = self.ranges.iter().zip(values).any(is_at_peak);
        let scattered = log_ratios.iter().filter(|ratio| **ratio <= 0.0 || !is_peak_wrong);
        let squares: Vec<f64> = scattered.map(|ratio| ratio * ratio).collect();
        let freedom = squares.len().saturating_sub(values.len()).max(1) as f64;
        (squares.iter().sum::<f64>() / freedom).sqrt().max(LEAST_NOISE)
    }
}

/// The diagonal of the inverse of `JᵀJ`: infinite in directions in which nothing changes.
fn inverse_diagonal(jacobian: &DMatrix<f64>) -> Vec<f64> {
    let normal = jacobian.tr_mul(jacobian);
    let scales: Vec<f64> = normal.diagonal().iter().map(|square| square.sqrt()).collect();
    let count = scales.len();
    let scaled = DMatrix::from_fn(count, count, |row, column| {
        let scale = scales[row] * scales[column];
        if scale > 0.0 { normal[(row, column)] / scale } else { 0.0 }
    });
    let SymmetricEigen { eigenvectors, eigenvalues } = SymmetricEigen::new(scaled);
    let variance = |number: usize| -> f64 {
        let terms = eigenvalues.iter().enumerate().map(|(at, &eigenvalue)| {
            let share = eigenvectors[(number, at)].powi(2);
            if share < 1e-12 { 0.0 } else { share / eigenvalue.max(1e-12) }
        });
        terms.sum::<f64>() / scales[number].powi(2)
    };
    (0..count).map(variance).collect()
}

/// The task at some numbers, as the solver takes it.
struct Problem<'t> {
    task: &'t Task<'t>,
    free: DVector<f64>,
}

impl Problem<'_> {
    fn at(&self, free: &DVector<f64>) -> DVector<f64> {
        let ratios = self.task.log_ratios(&self.task.values(free));
        DVector::from_iterator(ratios.len(), ratios.iter().map(|&ratio| damped(ratio)))
    }
}

/// The signed root of the soft-L1 loss.
fn damped(ratio: f64) -> f64 {
    let loss = 2.0 * ((1.0 + (ratio / LOSS_SCALE).powi(2)).sqrt() - 1.0);
    LOSS_SCALE * loss.sqrt().copysign(ratio)
}

impl LeastSquaresProblem<f64, Dyn, Dyn> for Problem<'_> {
    type ResidualStorage = Owned<f64, Dyn>;
    type JacobianStorage = Owned<f64, Dyn, Dyn>;
    type ParameterStorage = Owned<f64, Dyn>;

    fn set_params(&mut self, free: &DVector<f64>) {
        self.free.copy_from(free);
    }

    fn params(&self) -> DVector<f64> {
        self.free.clone()
    }

    fn residuals(&self) -> Option<DVector<f64>> {
        Some(self.at(&self.free)).filter(|residuals| residuals.iter().all(|r| r.is_finite()))
    }

    fn jacobian(&self) -> Option<DMatrix<f64>> {
        const STEP: f64 = 1e-5;
        let columns: Vec<DVector<f64>> = (0..self.free.len())
            .map(|number| {
                let moved = |step: f64| {
                    let mut free = self.free.clone();
                    free[number] += step;
                    self.at(&free)
                };
                (moved(STEP) - moved(-STEP)) / (2.0 * STEP)
            })
            .collect();
        Some(DMatrix::from_columns(&columns))
    }
}

#[cfg(test)]
mod tests {
    use super::{Range, Task};

    #[test]
    fn a_share_and_a_time_are_found_in_spite_of_an_outlier() {
        let bytes: Vec<f64> = (10..30).map(|power| 2_f64.powi(power)).collect();
        let law = |values: &[f64]| -> Vec<f64> {
            bytes.iter().map(|bytes| bytes / 1e12 / values[0] + values[1]).collect()
        };
        let mut measured_s = law(&[0.7, 5e-6]);
        measured_s[3] *= 5.0;
        let ranges = [Range::Share, Range::Time];
        let task = Task { ranges: &ranges, measured_s: &measured_s, predict: &law };
        let found = task.fit(&[0.3, 1e-6]);
        assert!((found[0] - 0.7).abs() < 0.01 && (found[1] - 5e-6).abs() < 5e-7, "{found:?}");
    }

    #[test]
    fn what_no_measurement_depends_on_has_no_standard_error() {
        let law = |values: &[f64]| vec![values[0] * 1e-3; 4];
        let measured_s = law(&[0.5, 1e-6]);
        let ranges = [Range::Share, Range::Time];
        let task = Task { ranges: &ranges, measured_s: &measured_s, predict: &law };
        let errors = task.standard_errors(&[0.5, 1e-6]);
        assert!(errors[0] < 0.01 && !errors[1].is_finite(), "{errors:?}");
    }
}
