//! Live ranges, and the step at which most is live: a sweep over their ends.
//!
//! The steps of layers are there once and run for each of them. What the reverse of layers reads is
//! live for all of them when it begins and for one when it ends; gradients that are kept until the
//! end of the step are live for one layer when it begins, and for all when it ends. Both change by
//! the same bytes from layer to layer, so that their sum is largest during the first or during the
//! last one, and there are two sweeps. Where no gradients are kept, the first layer has the peak.

use std::ops::RangeInclusive;

/// A live range: the first and the last step, both included.
pub(super) struct LiveRange {
    /// Of all copies.
    pub(super) bytes: f64,
    pub(super) from: usize,
    pub(super) to: usize,
    /// The layers during which there are fewer.
    pub(super) per_layer: Option<PerLayer>,
}

/// Layers in which copies of a value become more or fewer.
#[derive(Clone)]
pub(super) struct PerLayer {
    /// The steps of the layers.
    steps: RangeInclusive<usize>,
    /// The share of all copies that is one.
    one: f64,
    /// The layer during which there is one.
    fewest: Layer,
}

/// A layer, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layer {
    First,
    Last,
}

impl PerLayer {
    /// One copy during the first layer, all after the last.
    pub(super) fn growing(steps: RangeInclusive<usize>, copies: f64) -> Self {
        Self { steps, one: 1.0 / copies.max(1.0), fewest: Layer::First }
    }

    /// All copies until the first layer, one during the last.
    pub(super) fn shrinking(steps: RangeInclusive<usize>, copies: f64) -> Self {
        Self { fewest: Layer::Last, ..Self::growing(steps, copies) }
    }
}

impl LiveRange {
    pub(super) fn new(bytes: f64, when: RangeInclusive<usize>) -> Self {
        Self { bytes, from: *when.start(), to: *when.end(), per_layer: None }
    }

    /// What is live from when to when, where layers are counted at `layer`.
    pub(super) fn pieces(
        &self,
        layer: Layer,
    ) -> impl Iterator<Item = (RangeInclusive<usize>, f64)> + use<> {
        let fewer = self.per_layer.as_ref().filter(|per_layer| per_layer.fewest == layer);
        let (first, last, one) = fewer.map_or((self.to + 1, self.to, 1.0), |per_layer| {
            (*per_layer.steps.start(), *per_layer.steps.end(), per_layer.one)
        });
        let (from, end) = (self.from, self.to + 1);
        let (first, after) = (first.clamp(from, end), (last + 1).clamp(from, end));
        let pieces =
            [(from, first, self.bytes), (first, after, one * self.bytes), (after, end, self.bytes)];
        pieces
            .into_iter()
            .filter(|(from, to, _)| from < to)
            .map(|(from, to, bytes)| (from..=to - 1, bytes))
    }
}

/// The step of the peak, its bytes, and the layer during which it is reached: the first of equals.
pub(super) fn peak(lives: &[&LiveRange], steps: usize) -> (Option<usize>, f64, Layer) {
    let [first, last] = [Layer::First, Layer::Last].map(|layer| peak_during(layer, lives, steps));
    if last.1 > first.1 { (last.0, last.1, Layer::Last) } else { (first.0, first.1, Layer::First) }
}

fn peak_during(layer: Layer, lives: &[&LiveRange], steps: usize) -> (Option<usize>, f64) {
    let mut change = vec![0.0; steps + 2];
    for (when, bytes) in lives.iter().flat_map(|life| life.pieces(layer)) {
        change[*when.start()] += bytes;
        change[when.end() + 1] -= bytes;
    }
    let mut live = 0.0;
    let mut best = (None, 0.0);
    for (step, delta) in change.iter().enumerate().take(steps.max(1)) {
        live += delta;
        if live > best.1 {
            best = ((step < steps).then_some(step), live);
        }
    }
    best
}
