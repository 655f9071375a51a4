//! Cutting planes in one dimension (Kelley 1960): maximises a concave function, such as a
//! Lagrangian bound as a function of a single multiplier.

/// The relative improvement below which the search stops.
const WORTHWHILE: f64 = 1e-4;

/// A tangent: a line that the concave function is nowhere above.
#[derive(Clone, Copy)]
struct Tangent {
    at: f64,
    value: f64,
    slope: f64,
}

impl Tangent {
    /// The intersection with a falling tangent, if this one rises: its place and height.
    fn meets(&self, falling: &Self) -> (f64, f64) {
        let ahead = falling.at - self.at;
        let at =
            (falling.value - falling.slope * ahead - self.value) / (self.slope - falling.slope);
        (self.at + at, self.value + self.slope * at)
    }
}

/// Maximises a concave function of a positive number, from `start` on, with at most `evaluations`
/// evaluations; `evaluate` returns value and slope, or `None` to stop. While all are on one side of
/// the maximum, the next is at `stride` times the number; then one tangent is kept on each side,
/// and the next evaluation is at their intersection.
pub(crate) fn maximize_concave(
    (start, stride): (f64, f64),
    evaluations: usize,
    mut evaluate: impl FnMut(f64) -> Option<(f64, f64)>,
) {
    let (mut rising, mut falling): (Option<Tangent>, Option<Tangent>) = (None, None);
    let mut best = f64::NEG_INFINITY;
    let mut at = start;
    for _ in 0..evaluations {
        let Some((value, slope)) = evaluate(at) else { return };
        best = best.max(value);
        *(if slope > 0.0 { &mut rising } else { &mut falling }) =
            Some(Tangent { at, value, slope });
        at = match (&rising, &falling) {
            (Some(rising), Some(falling)) => {
                let (meeting, most) = rising.meets(falling);
                if most <= best * (1.0 + WORTHWHILE) {
                    return;
                }
                let margin = 0.1 * (falling.at - rising.at);
                meeting.max(rising.at + margin).min(falling.at - margin)
            }
            (Some(_), None) => at * stride,
            (None, _) => at / stride,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::maximize_concave;

    #[test]
    fn the_greatest_of_a_concave_function_is_found() {
        let lines = [(0.0, 10.0), (30.0, 3.0), (55.0, -1.0), (100.0, -8.0)];
        let mut evaluated: Vec<f64> = Vec::new();
        maximize_concave((0.01, 8.0), 20, |at| {
            evaluated.push(at);
            lines
                .map(|(value, slope)| (value + slope * at, slope))
                .into_iter()
                .min_by(|a, b| a.0.total_cmp(&b.0))
        });
        // The second and the third tangent intersect there.
        assert!(evaluated.iter().any(|at| (at - 6.25).abs() < 0.01), "{evaluated:?}");
        assert!(evaluated.len() < 15, "{evaluated:?}");
    }
}
