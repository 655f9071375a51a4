//! Live ranges, and the step at which most is live: a sweep over their ends.
//!
//! The steps of layers are there once and run for each of them. What is kept of every layer is
//! live for those that have produced it; what the reverse of layers reads is live for all of them
//! when it begins, and each layer's until that layer has read it. Both change by the same bytes
//! from layer to layer, so that their sum is largest during the first or during the last one, and
//! there are two sweeps.

use std::ops::RangeInclusive;

use smallvec::SmallVec;

/// A live range: the first and the last step, both included.
pub(super) struct LiveRange {
    /// Of all copies.
    pub(super) bytes: f64,
    pub(super) from: usize,
    pub(super) to: usize,
    /// Of several copies, how many there are while layers produce them.
    pub(super) grows: Option<Growing>,
    /// And while layers read them.
    pub(super) shrinks: Option<Shrinking>,
}

/// Copies that layers add one by one, by the step at which the live range begins.
#[derive(Clone)]
pub(super) struct Growing {
    /// The last step of the layers.
    pub(super) last: usize,
    /// The share of all copies that is one.
    pub(super) one: f64,
    /// For the layers, and layers in them: the first step, and the share of all copies that is
    /// there from then on during the last of these layers.
    pub(super) before: Vec<(usize, f64)>,
}

/// Copies of which layers read one after the other.
#[derive(Clone)]
pub(super) struct Shrinking {
    /// The steps of the layers.
    pub(super) steps: RangeInclusive<usize>,
    /// The share of all copies that is one.
    pub(super) one: f64,
    /// The last step that reads one.
    pub(super) read: usize,
}

/// A layer, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layer {
    First,
    Last,
}

impl LiveRange {
    pub(super) fn new(bytes: f64, when: RangeInclusive<usize>) -> Self {
        Self { bytes, from: *when.start(), to: *when.end(), grows: None, shrinks: None }
    }

    /// What is live from when to when, where layers are counted at `layer`.
    pub(super) fn pieces(
        &self,
        layer: Layer,
    ) -> impl Iterator<Item = (RangeInclusive<usize>, f64)> + use<> {
        let (bytes, end) = (self.bytes, self.to + 1);
        // From each of these steps on, this share of all copies.
        let mut shares: SmallVec<[(usize, f64); 6]> = SmallVec::new();
        match (&self.grows, layer) {
            (Some(grows), Layer::First) => {
                shares.extend([(self.from, grows.one), (grows.last + 1, 1.0)]);
            }
            (Some(grows), Layer::Last) => {
                shares.extend(grows.before.iter().copied().filter(|(first, _)| *first < self.from));
                shares.push((self.from, 1.0));
            }
            (None, _) => shares.push((self.from, 1.0)),
        }
        if let Some(Shrinking { steps, one, read }) = &self.shrinks {
            let (before, after) = match layer {
                Layer::First => (1.0, 1.0 - one),
                Layer::Last => (*one, 0.0),
            };
            let (first, over) = (*steps.start(), steps.end() + 1);
            shares.extend([(first, before), ((read + 1).clamp(first, over), after), (over, 1.0)]);
        }
        let ends: SmallVec<[usize; 6]> =
            shares.iter().skip(1).map(|(from, _)| *from).chain([end]).collect();
        let pieces = shares.into_iter().zip(ends);
        pieces.filter_map(move |((from, share), until)| {
            let until = until.min(end);
            (from < until && share > 0.0).then(|| (from..=until - 1, share * bytes))
        })
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
