//! What optimizers do to every element, by the papers' formulas: Kingma and Ba 2014 (moments
//! without the correction of their first steps, which belongs to the step size), Loshchilov and
//! Hutter 2017 (decay).

use ndarray::ArrayD;

/// The result of the update called `name` on arrays of one shape; `None` if it is no update.
pub(super) fn update(name: &str, arrays: &[ArrayD<f64>], numbers: &[f64]) -> Option<ArrayD<f64>> {
    let element: fn(&[f64], &[f64]) -> Option<f64> = match name {
        "ema" => |x, n| Some(n.first()? * x.first()? + (1.0 - n.first()?) * x.get(1)?),
        "ema_square" => {
            |x, n| Some(n.first()? * x.first()? + (1.0 - n.first()?) * x.get(1)?.powi(2))
        }
        "momentum" => |x, n| Some(n.first()? * x.first()? + x.get(1)?),
        "sgd_step" => |x, n| Some(x.first()? - n.first()? * x.get(1)?),
        "adam_step" => |x, n| {
            let ([weight, mean, square], [rate, eps, decay]) = (x, n) else { return None };
            Some(weight - rate * (mean / (square.sqrt() + eps) + decay * weight))
        },
        _ => return None,
    };
    let mut out = arrays.first()?.clone();
    for (index, to) in out.indexed_iter_mut() {
        let given: Vec<f64> = arrays.iter().map(|array| array[&index]).collect();
        *to = element(&given, numbers).unwrap_or(f64::NAN);
    }
    Some(out)
}
