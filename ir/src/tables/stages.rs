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
//!
//! In a V, and where microbatches enter at both ends, both ends are on one stage, which would lack
//! two layers before others lack one. There the later half of the positions gets one layer less
//! first, from the end on, then the earlier half, from the beginning on: each stage has one
//! position of either half, so that no two stages differ by more than one layer. 18 layers on 4
//! stages are 2, 2, 3, 3, and on the way back 2 each. (Which stages have one layer less is a
//! choice: the first ones, where the embedding and the head are.)

mod bubble;

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
}

/// How often an operation runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TripCount {
    /// By a device.
    pub per_device: u64,
    /// How often its time counts in the total, including the bubble.
    pub including_bubble: u64,
    /// How often the compute of a device waits for it at least, whatever runs beside it: as often
    /// as it runs, and while the pipeline fills and drains, if no order of tasks can avoid that.
    pub waited: u64,
}

/// What a block of a pipeline has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// So many layers, in their order.
    Layers(u64),
    /// Statements beside the layers before it, or, where there are none, beside those after it.
    Beside,
}

/// A number that need not be whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ratio {
    numerator: u64,
    denominator: u64,
}

impl Ratio {
    /// So many times as much, rounded up.
    fn times(self, times: u64) -> u64 {
        self.numerator.saturating_mul(times).div_ceil(self.denominator.max(1))
    }

    /// What is left of so much, rounded up.
    fn rest(self, all: u64) -> u64 {
        all.saturating_sub(self.numerator / self.denominator.max(1))
    }
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
    /// How many of these layers count for the stage with the most layers of all blocks: as many of
    /// each block as it has of all layers.
    on_longest: Ratio,
    /// At how many positions a microbatch arrives from another stage for these layers.
    received: u64,
    /// The layers that a microbatch passes.
    passed: u64,
    /// Whether other blocks are on the stages as well, so that no device need have the most of all.
    is_part: bool,
    /// The stage whose memory is that of the plan; `None`: that of whichever needs the most.
    charged: Option<u64>,
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
        let (received, passed) = (layers.len() as u64, layers.iter().sum());
        Self {
            schedule,
            layers,
            held,
            most,
            on_longest: Ratio { numerator: most, denominator: 1 },
            received,
            passed,
            is_part: false,
            charged: None,
        }
    }

    /// The parts of these layers that blocks one after another have, each with so many; and where
    /// a block is beside the layers ([`Run::Beside`]), one at their position.
    pub fn split(&self, blocks: &[Run]) -> Vec<Self> {
        let ends: Vec<u64> = self
            .layers
            .iter()
            .scan(0, |end, count| {
                *end += count;
                Some(*end)
            })
            .collect();
        let position_of = |layer: u64| ends.iter().position(|&end| layer < end).unwrap_or(0);
        let mut before = 0_u64;
        let mut split = Vec::new();
        for &block in blocks {
            let mut layers = vec![0; self.layers.len()];
            let first = before;
            match block {
                Run::Beside => layers[position_of(before.saturating_sub(1))] = 1,
                Run::Layers(count) => {
                    before += count;
                    let mut begin = 0;
                    for (own, &end) in layers.iter_mut().zip(&ends) {
                        *own = end.min(before).saturating_sub(first.max(begin));
                        begin = end;
                    }
                }
            }
            let mut own = Self::new(self.schedule, self.held.len() as u64, layers);
            own.is_part = true;
            (own.on_longest, own.received) = match block {
                Run::Beside => (own.on_longest, 0),
                Run::Layers(count) => {
                    let begins = std::iter::once(&0).chain(&ends).take(ends.len());
                    let received = begins.filter(|&begin| (first..before).contains(begin)).count();
                    (self.on_longest_of_kinds(count), received as u64)
                }
            };
            split.push(own);
        }
        split
    }

    /// How many of so many layers of one kind count for the longest stage. Who lists layers mostly
    /// evens out that kinds take different times, so that the average counts there.
    fn on_longest_of_kinds(&self, count: u64) -> Ratio {
        let (longest, stages) = if self.is_spread() {
            (self.most, 1)
        } else {
            (self.held.iter().sum(), self.held.len() as u64)
        };
        let denominator = self.passed.saturating_mul(stages);
        Ratio { numerator: count.saturating_mul(longest), denominator }
    }

    /// The positions of all blocks together.
    pub fn sum<'s>(blocks: impl Iterator<Item = &'s Self>) -> Option<Self> {
        let sum = |left: Self, right: &Self| {
            let both = left.layers.iter().zip(&right.layers).map(|(left, right)| left + right);
            let stages = left.held.len() as u64;
            Self::new(left.schedule, stages, both.collect())
        };
        let mut blocks = blocks;
        let first = blocks.next()?;
        let alone = Self::new(first.schedule, first.held.len() as u64, first.layers.clone());
        Some(blocks.fold(alone, sum))
    }

    /// How often a device of the busiest stage receives a microbatch for these layers, in each
    /// direction.
    pub fn receives(&self, microbatches: u64, trains: bool) -> TripCount {
        let by_stage = Ratio { numerator: self.received, denominator: self.held.len() as u64 };
        let done = by_stage.times(microbatches);
        let average = self.on_average(self.received.saturating_mul(microbatches));
        let own = if self.is_part { average } else { done };
        let idle = self.idle(by_stage.rest(self.received), (microbatches, trains));
        let including_bubble = done.saturating_add(idle);
        TripCount { per_device: own, including_bubble, waited: own }
    }

    /// The same, with the memory of one stage.
    #[must_use]
    pub fn charged_as(self, stage: Option<u64>) -> Self {
        Self { charged: stage, ..self }
    }

    /// The stages whose memory may be that of the plan: all, or one.
    pub fn charged(&self) -> std::ops::Range<u64> {
        self.charged.map_or(0..self.held.len() as u64, |stage| stage..stage + 1)
    }

    /// The layers of these that have the most.
    pub fn most_charged(&self) -> u64 {
        self.charged().map(|stage| self.held[stage as usize]).max().unwrap_or(0)
    }

    /// How often each device of the pipeline runs something that the layers do so often together,
    /// on average, but once at least: with other blocks on the stages, what is more on one device
    /// may be less of another block. So no device that is the busiest runs less of all.
    fn on_average(&self, everywhere: u64) -> u64 {
        (everywhere / (self.held.len() as u64).max(1)).max(1)
    }

    /// So many layers spread over the positions: equally many, or one less at both ends; where a
    /// stage has both ends, one less on as many stages as possible.
    pub fn spread(schedule: Schedule, stages: u64, chunks: u64, count: u64) -> Self {
        let positions = stages * chunks;
        let most = count.div_ceil(positions);
        let fewer = positions * most - count;
        let has_both_ends = schedule.is_v() || schedule.is_bidirectional();
        let from_ends = |position: u64| {
            let (before, after) = (position, positions - 1 - position);
            match (has_both_ends, after <= before) {
                (true, true) => after,
                (true, false) => positions.div_ceil(2) + before,
                (false, true) => 2 * after,
                (false, false) => 2 * before + 1,
            }
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

    /// How many copies there are of each layer. With microbatches from both ends a device has
    /// layers of two stages, each of which half of the microbatches pass.
    fn copies(&self) -> u64 {
        if self.schedule.is_bidirectional() { 2 } else { 1 }
    }

    /// How often a device of the busiest stage runs an operation of a layer that stands in it
    /// `inner` times, for all microbatches, which go back through the stages where it `trains`.
    pub fn trip_count(&self, microbatches: u64, inner: u64, trains: bool) -> TripCount {
        let denominator = self.on_longest.denominator.saturating_mul(self.copies());
        let run = Ratio { denominator, ..self.on_longest };
        let done = run.times(microbatches.saturating_mul(inner));
        let elsewhere = self.on_longest.rest(self.layers.iter().sum()).saturating_mul(inner);
        let idle = self.idle(elsewhere, (microbatches, trains));
        let everywhere = self.passed.saturating_mul(microbatches).saturating_mul(inner);
        let average = self.on_average(everywhere);
        let own = if self.is_part { average } else { done };
        let including_bubble = done.saturating_add(idle).max(own);
        let waited = if self.has_full_bubble(trains) { including_bubble } else { own };
        TripCount { per_device: own, including_bubble, waited }
    }

    /// The bubble of the schedule in turns of a layer.
    fn idle(&self, elsewhere: u64, microbatches: (u64, bool)) -> u64 {
        let stages = self.held.len() as u64;
        let chunks = self.layers.len() as u64 / stages.max(1);
        self.schedule.idle(stages, (elsewhere, chunks), microbatches)
    }

    /// Whether no schedule has a shorter bubble than the formula: with `F` and `B` the times of a
    /// chunk in both directions, stages that are alike take `(vM+Z-1)(F+B)` with `gpipe` and with
    /// `1f1b`; and with `gpipe` the last stage ends no sooner than the first microbatch has passed
    /// all stages and the others the longest. Without gradients that is so with every schedule.
    /// What stages have beside layers that are alike makes none of them shorter.
    fn has_full_bubble(&self, trains: bool) -> bool {
        let passes_once = self.layers.len() == self.held.len() && !self.schedule.is_bidirectional();
        let is_in_order = passes_once && (self.schedule == Schedule::GPipe || !trains);
        let fills = !trains || !self.schedule.delays_weights();
        fills && (is_in_order && !self.is_part || !self.is_uneven())
    }

    /// How often a device runs something once for each of its layers.
    pub fn once_count(&self, inner: u64) -> TripCount {
        let most = self.on_longest.times(inner);
        let all = self.held.iter().sum::<u64>().saturating_mul(inner);
        let own = if self.is_part { self.on_average(all) } else { most };
        TripCount { per_device: own, including_bubble: most.max(own), waited: own }
    }

    /// How often a device runs an operation of a layer that stands in it `inner` times, on average
    /// over all stages: for each of so many microbatches, or else once for each copy of a layer.
    pub fn average_count(&self, microbatches: Option<u64>, inner: u64) -> f64 {
        let times = microbatches.unwrap_or(self.copies()) as f64;
        self.passed as f64 * times * inner as f64 / (self.held.len() as f64).max(1.0)
    }

    /// The schedule, which decides the stage of a position.
    pub fn schedule(&self) -> Schedule {
        self.schedule
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

impl Stages {
    /// One layer on each of so many stages, of the first chunk, of which a microbatch passes one:
    /// what is between blocks.
    #[must_use]
    pub fn once(&self, stages: u64) -> Self {
        let chunks = self.layers.len() / self.held.len().max(1);
        let positions = 0..stages * chunks as u64;
        let layers = positions.map(|position| u64::from(position < stages));
        let each = Self::new(self.schedule, stages, layers.collect());
        Self { passed: 1, is_part: true, ..each }
    }

    /// The blocks of a pipeline with fewer stages, the first and the last among them, and at most
    /// `most` layers of each at a position. A block whose stages are left out has a layer beside
    /// the block before it.
    pub fn sampled(blocks: &[&Self], stages: u64, most: u64) -> Vec<Self> {
        let mut last = 0;
        let sampled = blocks.iter().map(|block| {
            let all = block.held.len() as u64;
            let chunks = block.layers.len() as u64 / all.max(1);
            let from = |stage: u64| stage * (all - 1) / (stages - 1).max(1);
            let at = |position: u64| (position / stages) * all + from(position % stages);
            let mut layers: Vec<u64> = (0..chunks * stages)
                .map(|position| block.layers[at(position) as usize].min(most))
                .collect();
            match layers.iter().rposition(|&count| count > 0) {
                Some(position) => last = position,
                None => layers[last] = 1,
            }
            Self::new(block.schedule, stages, layers)
        });
        sampled.collect()
    }
}

/// The stage of a position.
pub fn stage_at(schedule: Schedule, stages: u64, position: u64) -> u64 {
    let (chunk, place) = (position / stages, position % stages);
    if schedule.is_v() && chunk % 2 == 1 { stages - 1 - place } else { place }
}
