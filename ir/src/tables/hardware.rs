//! The chip: peak rates, memory and links.
//!
//! What is not known is `None`; nothing is guessed, except that a dtype without a peak of its own
//! runs at that of the dtype to which it is widened (see [`Hardware::peak_flops`]). The chips that
//! programs can name without a file, with the sources of their numbers, are in
//! `ir/src/tables/presets.rs`.

use serde::Serialize;

use super::presets::{PRESETS, Preset};
use crate::dtype::DType;
use crate::mesh::AxisKind;
use crate::rates::{LinkRates, MeasuredRates, Rates};

/// The hop time of the book's Parts 3 and 7, taken wherever nothing better is known.
const HOP_S: f64 = 1e-6;

/// Which axes of a slice have wraparound links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Wraparound {
    /// All of them when every axis is a multiple of 4, else none (v4p, v5p: optical switches join
    /// whole 4x4x4 cubes).
    Cube4,
    /// An axis of 16 (v5e, v6e: the edge of the pod).
    Full16,
    /// An axis as long as the pod's edge; the book has no more detail.
    WholePod,
    /// No neighbour links at all: a switched domain.
    Switched,
}

/// A chip and its links.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hardware {
    /// As programs name it.
    pub name: String,
    /// The file that a program takes it from, as the program writes it; printed back.
    pub file: Option<String>,
    /// Peak FLOP/s of products in f32 on the matrix unit: TF32 on GPUs, one pass in bf16 on TPUs.
    pub f32_flops: Option<f64>,
    /// Peak FLOP/s in bf16.
    pub bf16_flops: Option<f64>,
    /// Peak op/s in int8.
    pub int8_flops: Option<f64>,
    /// Peak FLOP/s in fp8.
    pub fp8_flops: Option<f64>,
    /// Peak FLOP/s in fp4.
    pub fp4_flops: Option<f64>,
    /// Bytes of HBM.
    pub hbm_bytes: Option<f64>,
    /// HBM bandwidth, bytes per second.
    pub hbm_bandwidth: Option<f64>,
    /// One-way bandwidth of one link (ICI), or a chip's egress into its switch (NVLink), bytes per
    /// second.
    pub link_bandwidth: Option<f64>,
    /// A chip's share of its host's network, one way, bytes per second.
    pub dcn_bandwidth: Option<f64>,
    /// Bandwidth between a chip and the memory of its host, one way, bytes per second.
    pub host_bandwidth: Option<f64>,
    /// Time of a hop, seconds.
    pub hop_s: f64,
    /// Time of a hop over the network, seconds.
    pub dcn_hop_s: f64,
    /// Which axes wrap.
    pub wraparound: Wraparound,
    /// The edges of a whole pod, or the chips of a switched domain; empty where there is no end to
    /// it.
    pub pod: Vec<u64>,
    /// The price of a chip-hour, in any currency.
    pub price: Option<f64>,
    /// What was measured on it, beside its peaks.
    pub measured: MeasuredRates,
    /// Which rates times are computed at.
    pub rates: Rates,
    /// What it is used for, on which measured rates depend.
    pub workload: Workload,
}

/// What a program does, as measured rates depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// Neither of the others.
    #[default]
    Other,
    /// Gradients: the chip is under load for hours, and reaches the rates that it sustains.
    Training {
        /// Whether it does without what frameworks hold where memory allows: what is cheap is
        /// computed again even if products read it, and losses copy no logits.
        saves_memory: bool,
        /// Whether it has weights: without, it is the gradient of a kernel or two, which run for
        /// no hours.
        has_weights: bool,
    },
    /// Weights and no gradients. An `AllReduce` inside a node is then that of serving engines,
    /// where it was measured.
    Serving {
        /// Whether it reads prompts: engines capture steps of decode in graphs, but not prompts of
        /// any length, whose kernels the host launches one by one.
        reads_prompts: bool,
    },
}

impl Wraparound {
    /// The words of hardware files: how chips are linked, and which axes of a torus wrap.
    pub fn names(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Cube4 => ("torus", Some("multiples-of-4")),
            Self::Full16 => ("torus", Some("of-16")),
            Self::WholePod => ("torus", Some("whole-pod")),
            Self::Switched => ("switch", None),
        }
    }

    /// Every one.
    pub const ALL: [Self; 4] = [Self::Cube4, Self::Full16, Self::WholePod, Self::Switched];
}

impl Hardware {
    /// Hardware of which nothing is known but its name.
    pub fn unknown(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            file: None,
            f32_flops: None,
            bf16_flops: None,
            int8_flops: None,
            fp8_flops: None,
            fp4_flops: None,
            hbm_bytes: None,
            hbm_bandwidth: None,
            host_bandwidth: None,
            link_bandwidth: None,
            dcn_bandwidth: None,
            hop_s: HOP_S,
            dcn_hop_s: HOP_S,
            wraparound: Wraparound::Switched,
            pod: Vec::new(),
            price: None,
            measured: MeasuredRates::default(),
            rates: Rates::Peak,
            workload: Workload::default(),
        }
    }

    /// Peak rate of arithmetic on `dtype`, per second. A dtype without a peak of its own runs at
    /// that of the narrowest one with a peak that represents it: int4 and bool as int8, fp4 as fp8,
    /// and everything else as bf16. (fp8 on a chip without it is no faster than bf16, whatever
    /// its int8 is.) f16 always runs as bf16, and int32, of which data sheets say nothing.
    pub fn peak_flops(&self, dtype: DType) -> f64 {
        let own = match dtype {
            DType::Fp4 => self.units(DType::Fp4).or_else(|| self.units(DType::Fp8)),
            DType::Int4 | DType::Bool => self.units(DType::Int8),
            DType::Int32 => self.units(DType::Bf16),
            own => self.units(own),
        };
        own.or(self.bf16_flops).or(self.fp8_flops.map(|fp8| fp8 / 2.0)).unwrap_or(f64::INFINITY)
    }

    /// Whether it has units that multiply `dtype`.
    pub fn multiplies(&self, dtype: DType) -> bool {
        self.units(dtype).is_some()
    }

    /// The peak of the units for `dtype`; none without such units.
    fn units(&self, dtype: DType) -> Option<f64> {
        match dtype {
            DType::F32 => self.f32_flops,
            DType::F16 | DType::Bf16 => self.bf16_flops,
            DType::Fp8 => self.fp8_flops,
            DType::Fp4 => self.fp4_flops,
            DType::Int8 => self.int8_flops,
            DType::Int4 | DType::Int32 | DType::Bool => None,
        }
    }

    /// The kind of an axis of `size` devices in a slice whose physical axes (those over the
    /// data-center network apart) are `slice`.
    pub fn axis_kind(&self, size: u64, slice: &[u64]) -> AxisKind {
        let wraps = match self.wraparound {
            Wraparound::Cube4 => slice.iter().all(|n| n % 4 == 0),
            Wraparound::Full16 => size == 16,
            Wraparound::WholePod => size > 1 && self.pod.contains(&size),
            Wraparound::Switched => return AxisKind::Switch,
        };
        if wraps { AxisKind::Ring } else { AxisKind::Line }
    }

    /// The chips of a switched domain; `None` where chips are not switched, or there is no end to
    /// the domain.
    pub fn nvlink_domain(&self) -> Option<u64> {
        let is_known = self.wraparound == Wraparound::Switched && !self.pod.is_empty();
        is_known
            .then(|| self.pod.iter().fold(1_u64, |chips, &edge| chips.saturating_mul(edge)).max(1))
    }

    /// Time of a hop along an axis of `kind`, seconds.
    pub fn hop_of(&self, kind: AxisKind) -> f64 {
        if kind == AxisKind::Dcn { self.dcn_hop_s } else { self.hop_s }
    }

    /// One-way bandwidth along an axis of `kind`, bytes per second; `None` where the chip has no
    /// such links.
    pub fn bandwidth(&self, kind: AxisKind) -> Option<f64> {
        match kind {
            AxisKind::Dcn => self.dcn_bandwidth,
            AxisKind::Ring | AxisKind::Line | AxisKind::Switch => self.link_bandwidth,
        }
    }

    /// Whether it computes gradients.
    pub fn is_training(&self) -> bool {
        matches!(self.workload, Workload::Training { .. })
    }

    /// Whether a step of training does without what frameworks hold where memory allows.
    pub fn saves_memory(&self) -> bool {
        matches!(self.workload, Workload::Training { saves_memory: true, .. })
    }

    /// What kernels reach: in training, what they sustain for hours; in serving, those of engines;
    /// in gradients without weights, those that training runs, alone.
    pub fn measured_kernels(&self) -> MeasuredRates {
        let rates = match self.workload {
            Workload::Training { has_weights: true, .. } => self.measured.in_training(),
            Workload::Training { has_weights: false, .. } => self.measured.in_gradients(),
            Workload::Serving { .. } => self.measured,
            Workload::Other => self.measured.outside_engines(),
        };
        if self.wraparound == Wraparound::Switched { rates } else { rates.of_compiled_programs() }
    }

    /// The least seconds of a kernel at measured rates: those in which the host launches it.
    pub fn launch_s(&self) -> f64 {
        let reads_prompts = self.workload == Workload::Serving { reads_prompts: true };
        self.measured.launch_s.filter(|_| reads_prompts).unwrap_or(0.0)
    }

    /// Bytes of memory that a program has, at measured rates without those that the driver takes.
    pub fn usable_bytes(&self) -> Option<f64> {
        let context = self.measured.context_bytes.filter(|_| self.rates == Rates::Measured);
        self.hbm_bytes.map(|memory| memory - context.unwrap_or(0.0))
    }

    /// The share of what a step allocates that is held beside it.
    pub fn allocator_share(&self) -> f64 {
        let is_predicted = self.is_training() && self.rates == Rates::Measured;
        self.measured.allocator.filter(|_| is_predicted).unwrap_or(0.0)
    }

    /// The share of the time of collectives beside compute by which the compute takes longer.
    pub fn contention(&self) -> f64 {
        self.measured.contention.filter(|_| self.rates == Rates::Measured).unwrap_or(0.0)
    }

    /// What links of `kind` reach, where times are at measured rates.
    pub fn measured_links(&self, kind: AxisKind) -> Option<LinkRates> {
        (self.rates == Rates::Measured).then(|| match kind {
            AxisKind::Dcn => self.measured.networks(),
            AxisKind::Ring | AxisKind::Line | AxisKind::Switch => self.measured.links(),
        })
    }

    /// What an `AllReduce` over links of `kind` reaches, where it is not that of the links.
    pub fn measured_reduces(&self, kind: AxisKind) -> Option<LinkRates> {
        let is_serving = matches!(self.workload, Workload::Serving { .. });
        let is_engines = is_serving && self.rates == Rates::Measured;
        Some(kind).filter(|&kind| is_engines && kind == AxisKind::Switch)?;
        self.measured.engine_reduces()
    }

    /// The hardware as a program writes it: its name, its file, and its rates if they are measured.
    pub fn reference(&self) -> String {
        let named = match &self.file {
            Some(file) => format!("{} from \"{file}\"", self.name),
            None => self.name.clone(),
        };
        match self.rates {
            Rates::Peak => named,
            Rates::Measured => format!("{named}, rates={}", self.rates.name()),
        }
    }

    /// The preset called `name`.
    pub fn preset(name: &str) -> Option<Self> {
        PRESETS.iter().find(|preset| preset.name == name).map(Preset::hardware)
    }

    /// The names of all presets.
    pub fn preset_names() -> impl Iterator<Item = &'static str> {
        PRESETS.iter().map(|preset| preset.name)
    }
}
