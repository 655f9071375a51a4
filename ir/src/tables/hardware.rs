//! The chip: peak rates, memory and links, with the presets of the book's tables.
//!
//! Numbers are those of *How To Scale Your Model*, Part 2 (TPUs) and its GPU chapter: decimal
//! bytes, per chip, one direction of one link. What the book does not give is `None`; nothing is
//! guessed, except that a dtype without a peak of its own runs at the nearest one's (see
//! [`Hardware::peak_flops`]).

use serde::Serialize;

use super::measured_presets::measured;
use crate::dtype::DType;
use crate::mesh::AxisKind;
use crate::rates::{LinkRates, MeasuredRates, Rates};

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
    /// Peak FLOP/s in bf16.
    pub bf16_flops: Option<f64>,
    /// Peak op/s in int8.
    pub int8_flops: Option<f64>,
    /// Peak FLOP/s in fp8.
    pub fp8_flops: Option<f64>,
    /// Bytes of HBM.
    pub hbm_bytes: Option<f64>,
    /// HBM bandwidth, bytes per second.
    pub hbm_bandwidth: Option<f64>,
    /// One-way bandwidth of one link (ICI), or a chip's egress into its switch (NVLink), bytes per
    /// second.
    pub link_bandwidth: Option<f64>,
    /// A chip's share of its host's network, one way, bytes per second.
    pub dcn_bandwidth: Option<f64>,
    /// Time of a hop, seconds.
    pub hop_s: f64,
    /// Time of a hop over the network, seconds.
    pub dcn_hop_s: f64,
    /// Which axes wrap.
    pub wraparound: Wraparound,
    /// The edges of a whole pod, or the chips of a switched domain; empty where there is no end to
    /// it.
    pub pod: Vec<u64>,
    /// What was measured on it, beside its peaks.
    pub measured: MeasuredRates,
    /// Which rates times are computed at.
    pub rates: Rates,
    /// Whether it is under load for hours, as it is in training: measured rates are then those that
    /// it sustains.
    pub is_training: bool,
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
    /// Peak rate of arithmetic on `dtype`, per second. A dtype without a peak of its own takes that
    /// of the nearest kind that has one: f16, f32 and int32 run as bf16, int4 and bool as int8, fp8
    /// as int8, and anything left as bf16 (the book prints no others).
    pub fn peak_flops(&self, dtype: DType) -> f64 {
        let own = match dtype {
            DType::F32 | DType::F16 | DType::Bf16 | DType::Int32 => self.bf16_flops,
            DType::Fp8 => self.fp8_flops.or(self.int8_flops),
            DType::Int8 | DType::Int4 | DType::Bool => self.int8_flops,
        };
        own.or(self.bf16_flops).or(self.fp8_flops.map(|fp8| fp8 / 2.0)).unwrap_or(f64::INFINITY)
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

    /// What kernels reach: in training, what they sustain for hours.
    pub fn measured_kernels(&self) -> MeasuredRates {
        if self.is_training { self.measured.in_training() } else { self.measured }
    }

    /// What links of `kind` reach, where times are at measured rates.
    pub fn measured_links(&self, kind: AxisKind) -> Option<LinkRates> {
        (self.rates == Rates::Measured).then(|| match kind {
            AxisKind::Dcn => self.measured.networks(),
            AxisKind::Ring | AxisKind::Line | AxisKind::Switch => self.measured.links(),
        })
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

    /// The names of all presets, in the order of the book's tables.
    pub fn preset_names() -> impl Iterator<Item = &'static str> {
        PRESETS.iter().map(|preset| preset.name)
    }
}

use Wraparound::{Cube4, Full16, Switched, WholePod};

/// A row of the table below.
struct Preset {
    name: &'static str,
    /// bf16, int8, fp8, in units of 1e12 per second; 0 where the book gives none.
    peak: [f64; 3],
    /// GB, GB/s; 0 where the book gives none.
    hbm: [f64; 2],
    /// Link and dcn, GB/s; 0 where the book gives none.
    network: [f64; 2],
    wraparound: Wraparound,
    pod: &'static [u64],
}

impl Preset {
    fn hardware(&self) -> Hardware {
        let known = |number: f64, unit: f64| (number > 0.0).then_some(number * unit);
        Hardware {
            name: self.name.to_owned(),
            file: None,
            bf16_flops: known(self.peak[0], 1e12),
            int8_flops: known(self.peak[1], 1e12),
            fp8_flops: known(self.peak[2], 1e12),
            hbm_bytes: known(self.hbm[0], 1e9),
            hbm_bandwidth: known(self.hbm[1], 1e9),
            link_bandwidth: known(self.network[0], 1e9),
            dcn_bandwidth: known(self.network[1], 1e9),
            hop_s: HOP_S,
            dcn_hop_s: HOP_S,
            wraparound: self.wraparound,
            pod: self.pod.to_vec(),
            measured: measured(self.name),
            rates: Rates::Peak,
            is_training: false,
        }
    }
}

/// The hop time of Part 3 and Part 7, taken wherever nothing better is known.
const HOP_S: f64 = 1e-6;

const fn preset(
    name: &'static str,
    peak: [f64; 3],
    hbm: [f64; 2],
    network: [f64; 2],
    wraparound: Wraparound,
    pod: &'static [u64],
) -> Preset {
    Preset { name, peak, hbm, network, wraparound, pod }
}

/// Columns as in [`Preset`].
#[rustfmt::skip]
const PRESETS: &[Preset] = &[
    preset("tpu-v3",  [140., 140., 0.],      [32., 900.],   [100., 0.],   WholePod, &[32, 32]),
    preset("tpu-v4p", [275., 275., 0.],      [32., 1200.],  [45., 6.25],  Cube4,    &[16, 16, 16]),
    preset("tpu-v5p", [459., 918., 0.],      [96., 2800.],  [90., 6.25],  Cube4,    &[16, 20, 28]),
    preset("tpu-v5e", [197., 394., 0.],      [16., 810.],   [45., 3.125], Full16,   &[16, 16]),
    preset("tpu-v6e", [920., 1840., 0.],     [32., 1600.],  [90., 12.5],  Full16,   &[16, 16]),
    preset("tpu7x",   [2300., 4610., 0.],    [192., 7400.], [90., 12.5],  WholePod, &[4, 4, 576]),
    preset("h100",    [989., 2000., 2000.],  [80., 3350.],  [450., 50.],  Switched, &[8]),
    preset("h200",    [990., 2000., 2000.],  [141., 4800.], [450., 0.],   Switched, &[8]),
    preset("h800",    [0., 1513., 1513.],    [0., 0.],      [0., 0.],     Switched, &[8]),
    preset("b200",    [2300., 4500., 4500.], [192., 8000.], [900., 50.],  Switched, &[8]),
    preset("gb200-nvl72", [2300., 4500., 4500.], [192., 8000.], [900., 50.],  Switched, &[72]),
    preset("a100",    [310., 620., 620.],    [80., 2000.],  [300., 0.],   Switched, &[8]),
];
