//! Stages of a pipeline: which stage each run of layers is on, and how many layers a device has.
//!
//! A microbatch passes *positions*: chunk 0 of every stage, then chunk 1 of every stage. A schedule
//! decides which stage a position is on: chunks either start at the first stage again, or turn
//! around at the last one (a *V*), so that the first stage also has the last layers.
//!
//! Stages need not have equally many layers. Where the author does not list them, positions get
//! equally many or one layer less: first the last position, then the first, and so on from both
//! ends, because the head and the embedding are there, and because the first stage keeps the
//! activations of the most microbatches. 126 layers on 16 stages are 7, fourteen times 8, and 7, as
//! in the training of `LLaMA` 3 405B.

/// The schedule of a pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Schedule {
    /// All microbatches forward, then all of them backward.
    #[default]
    GPipe,
    /// One forward, one backward, as soon as gradients come back.
    OneForwardOneBackward,
    /// The same with gradients of weights delayed into the bubble, in the memory of `1f1b`: ZB-H1
    /// of Qi et al., *Zero Bubble Pipeline Parallelism* (2023).
    ZeroBubble,
    /// Two chunks in a V, gradients of weights delayed: ZB-V of the same.
    ZeroBubbleV,
    /// Microbatches enter at both ends, and a stage has the layers of both directions: `DualPipe`
    /// of DeepSeek-V3 (2024).
    DualPipe,
    /// The same with one copy of the layers: two chunks in a V.
    DualPipeV,
}

impl Schedule {
    /// All.
    pub const ALL: [Self; 6] = [
        Self::GPipe,
        Self::OneForwardOneBackward,
        Self::ZeroBubble,
        Self::ZeroBubbleV,
        Self::DualPipe,
        Self::DualPipeV,
    ];

    /// As programs write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::GPipe => "gpipe",
            Self::OneForwardOneBackward => "1f1b",
            Self::ZeroBubble => "zb-h1",
            Self::ZeroBubbleV => "zb-v",
            Self::DualPipe => "dualpipe",
            Self::DualPipeV => "dualpipe-v",
        }
    }

    /// The schedule that a program means by a word: upper case, hyphens and underscores do not
    /// matter, so that `ZBH1` and `DualPipeV` are understood.
    pub fn from_name(word: &str) -> Option<Self> {
        let plain = |word: &str| word.replace(['-', '_'], "").to_ascii_lowercase();
        Self::ALL.into_iter().find(|schedule| plain(schedule.name()) == plain(word))
    }

    /// Whether the chunks of a stage turn around at the last stage.
    pub fn is_v(self) -> bool {
        matches!(self, Self::ZeroBubbleV | Self::DualPipeV)
    }

    /// Whether microbatches enter at both ends, each stage with two copies of layers.
    pub fn is_bidirectional(self) -> bool {
        self == Self::DualPipe
    }

    /// Whether stages run gradients before all microbatches have gone forward.
    pub fn alternates(self) -> bool {
        self != Self::GPipe
    }

    /// Whether a stage runs gradients of weights apart from those of activations.
    pub fn delays_weights(self) -> bool {
        !matches!(self, Self::GPipe | Self::OneForwardOneBackward)
    }

    /// The number of chunks that it needs, if it does not leave the choice.
    pub fn fixed_chunks(self) -> Option<u64> {
        match self {
            Self::GPipe | Self::OneForwardOneBackward => None,
            Self::ZeroBubble | Self::DualPipe => Some(1),
            Self::ZeroBubbleV | Self::DualPipeV => Some(2),
        }
    }

    /// The bubble in thirds of that of `1f1b`, where forward, gradients of activations and
    /// gradients of weights take equally long: `(Z-1)(F+B-W)` of ZB-H1 and `(Z/2-1)(F+2B-W)` of
    /// `DualPipe`, where `B` is the gradients of activations.
    pub fn bubble_thirds(self) -> u64 {
        match self {
            Self::GPipe | Self::OneForwardOneBackward => 3,
            Self::ZeroBubble | Self::ZeroBubbleV | Self::DualPipe => 1,
            Self::DualPipeV => 2,
        }
    }
}

/// How often an operation runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TripCount {
    /// By a device.
    pub per_device: u64,
    /// How often its time counts in the total, including the bubble.
    pub including_bubble: u64,
}

/// The layers of each position and stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stages {
    schedule: Schedule,
    /// Layers by position.
    layers: Vec<u64>,
    /// Layers of a device, by stage.
    held: Vec<u64>,
    most: u64,
    /// The only stage that is looked at.
    only: Option<u64>,
}

impl Stages {
    /// So many stages with these layers by position.
    pub fn new(schedule: Schedule, stages: u64, layers: Vec<u64>) -> Self {
        let mut held = vec![0; stages as usize];
        for (position, count) in (0..).zip(&layers) {
            let stage = stage_at(schedule, stages, position);
            held[stage as usize] += count;
            if schedule.is_bidirectional() {
                held[(stages - 1 - stage) as usize] += count;
            }
        }
        let most = held.iter().copied().max().unwrap_or(0);
        Self { schedule, layers, held, most, only: None }
    }

    /// The same, with numbers of devices that are those of one stage.
    #[must_use]
    pub fn only(self, stage: u64) -> Self {
        Self { most: self.held[stage as usize], only: Some(stage), ..self }
    }

    /// The stages whose devices are looked at: all, or one.
    pub fn looked_at(&self) -> std::ops::Range<u64> {
        self.only.map_or(0..self.held.len() as u64, |stage| stage..stage + 1)
    }

    /// So many layers spread over the positions: equally many, or one less at both ends.
    pub fn spread(schedule: Schedule, stages: u64, chunks: u64, count: u64) -> Self {
        let positions = stages * chunks;
        let most = count.div_ceil(positions);
        let fewer = positions * most - count;
        let from_ends = |position: u64| {
            let (before, after) = (position, positions - 1 - position);
            if after <= before { 2 * after } else { 2 * before + 1 }
        };
        let layers = (0..positions).map(|position| most - u64::from(from_ends(position) < fewer));
        Self::new(schedule, stages, layers.collect())
    }

    /// Whether the layers are spread as they are where the author lists none.
    pub fn is_spread(&self) -> bool {
        let (stages, positions) = (self.held.len() as u64, self.layers.len() as u64);
        let count = self.layers.iter().sum();
        *self == Self::spread(self.schedule, stages, positions / stages.max(1), count)
    }

    /// Layers by position, in the order in which a microbatch passes them.
    pub fn layers(&self) -> &[u64] {
        &self.layers
    }

    /// The layers that each device has, by stage.
    pub fn held(&self) -> &[u64] {
        &self.held
    }

    /// The layers of the devices that have the most.
    pub fn most_held(&self) -> u64 {
        self.most
    }

    /// How many layers a device of the busiest stage runs for a microbatch. With microbatches from
    /// both ends each runs half of the layers of a device.
    pub fn most_run(&self) -> u64 {
        if self.schedule.is_bidirectional() { self.most.div_ceil(2) } else { self.most }
    }

    /// How often a device of the busiest stage runs an operation of a layer that stands in it
    /// `inner` times, for all microbatches.
    pub fn trip_count(&self, microbatches: u64, inner: u64) -> TripCount {
        let chunks = self.layers.len() as u64 / (self.held.len() as u64).max(1);
        let done = self.most_run().saturating_mul(microbatches).saturating_mul(inner);
        let all: u64 = self.layers.iter().sum();
        let elsewhere = all.saturating_sub(self.most).saturating_mul(inner);
        let idle = elsewhere.div_ceil(chunks.max(1)) * self.schedule.bubble_thirds();
        TripCount { per_device: done, including_bubble: done.saturating_add(idle.div_ceil(3)) }
    }

    /// Whether stages or chunks differ in their number of layers.
    pub fn is_uneven(&self) -> bool {
        self.layers.windows(2).any(|pair| pair[0] != pair[1])
    }

    /// The stage of a position.
    pub fn stage_at(&self, position: u64) -> u64 {
        stage_at(self.schedule, self.held.len() as u64, position)
    }

    /// The stage of a layer.
    pub fn stage_of(&self, layer: u64) -> u64 {
        let mut end = 0;
        let position = self.layers.iter().position(|count| {
            end += count;
            layer < end
        });
        self.stage_at(position.unwrap_or(0) as u64)
    }

    /// With fewer stages, and at most `most` layers at a position, one more where it has more than
    /// others.
    #[must_use]
    pub fn reduced(&self, stages: u64, most: u64) -> Self {
        let all = self.held.len() as u64;
        let least = self.layers.iter().copied().min().unwrap_or(1);
        let few = |count: u64| least.min(most) + (count - least).min(1);
        let chunks = self.layers.len() as u64 / all.max(1);
        let at = |chunk: u64, stage: u64| self.layers[(chunk * all + stage.min(all - 1)) as usize];
        let layers = (0..chunks).flat_map(|chunk| (0..stages).map(move |stage| (chunk, stage)));
        let layers = layers.map(|(chunk, stage)| few(at(chunk, stage))).collect();
        Self::new(self.schedule, stages, layers)
    }
}

/// The stage of a position.
pub fn stage_at(schedule: Schedule, stages: u64, position: u64) -> u64 {
    let (chunk, place) = (position / stages, position % stages);
    if schedule.is_v() && chunk % 2 == 1 { stages - 1 - place } else { place }
}
