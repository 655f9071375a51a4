//! What was measured on the chips of the presets.
//!
//! Sources:
//! * GPUs: fitted to the tables of kernels of `aiconfigurator-core` 0.12.0 (Apache-2.0) by
//!   `cli/python/derive_rates.py`, which prints such figures with their residuals; samples are in
//!   `tests/measured/kernels.csv`. There is no table of the H800: its row is that of the H100, with
//!   published products in fp8. The A100 has none of passes: typical figures.
//! * tpu-v6e and tpu7x: published products and copies, few of them. tpu-v4p, tpu-v5p and tpu-v5e:
//!   the share of products is that of published training steps, of v5e between those of `MaxText`
//!   on one slice (0.89) and on 32 (0.79). What a TPU lacks is taken from another one.
//! * mi300x: AMD's "Measuring Max-Achievable FLOPs, part 2" (708 TFLOP/s in bf16, 1273 in fp8), and
//!   the `BabelStream` and RCCL figures of its system acceptance guide; fixed times and saturation
//!   are typical ones. Nothing was measured on mi355x and trainium2.
//! * The network: every published AllReduce over nodes of A100 and H100, for all chips.
//! * `launch`: one published step without graphs, see [`LAUNCH_S`], for all GPUs.
//! * `sustained`, which no single kernel shows: from published training steps on A100, H100, v6e
//!   and tpu7x. H200 and H800 have the H100's; that of Blackwell is an estimate.

use super::rates::{LinkFigures, MeasuredRates};

/// A row of the table below; 0 where nothing was measured.
struct Row {
    name: &'static str,
    /// Products: shares of the peaks of bf16, int8 and fp8, of the memory bandwidth; microseconds.
    product: [f64; 5],
    /// Share of the fp4 peak.
    product_fp4: f64,
    /// Attention kernels: shares of the peak and of the memory bandwidth; microseconds.
    attention: [f64; 3],
    /// Passes: share of the memory bandwidth; microseconds.
    pass: [f64; 2],
    /// Share of the measured rates that training sustains.
    sustained: f64,
    /// Links: share of the bandwidth; saturation, fixed time and time a device in microseconds.
    link: [f64; 4],
    /// The same of the data-center network.
    network: [f64; 4],
    /// Share of the bandwidth of a reduction in the switch.
    in_switch: f64,
}

/// Copies of logits that `PyTorch`'s cross entropy of 32 bits holds going back: the logarithm of
/// their softmax, its gradient, and the gradient of the logits. XLA fuses them.
const LOGIT_BYTES: f64 = 12.0;

/// What `PyTorch`'s allocator and kernels hold beside what they are asked for: a round figure,
/// which is not fitted. XLA knows all of a step's memory before it runs.
const ALLOCATOR: f64 = 0.05;

/// Over training steps of dense models on A100, H100, MI210 and MI250, compute takes 18.9% longer
/// beside collectives than alone, and one after the other 10.2% longer than both beside each other
/// (Lee et al. 2025, "Characterizing Compute-Communication Overlap in GPU-Accelerated Distributed
/// Deep Learning", means). With compute `c` and collectives `m` all beside it, that is
/// `c + m = 1.102 · 1.189 c`: `m` is 31% of `c`, and costs 0.189 / 0.31 of its own time. On TPUs
/// other units than those that compute send and receive.
const CONTENTION: f64 = 0.6;

#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row { name: "a100", product: [0.77, 0.77, 0.0, 0.73, 4.9], product_fp4: 0.0,
          attention: [0.57, 0.73, 13.8],
          pass: [0.85, 1.6], sustained: 0.90, link: [0.75, 40.0, 7.0, 0.87],
          network: [0.93, 0.0, 10.0, 5.0], in_switch: 0.0 },
    Row { name: "h100", product: [0.80, 0.0, 0.66, 0.84, 3.1], product_fp4: 0.0,
          attention: [0.64, 0.87, 12.9],
          pass: [0.92, 1.6], sustained: 0.74, link: [0.80, 15.0, 3.5, 0.80],
          network: [0.93, 0.0, 10.0, 5.0], in_switch: 0.58 },
    Row { name: "h200", product: [0.79, 0.0, 0.66, 0.81, 3.3], product_fp4: 0.0,
          attention: [0.62, 0.83, 12.9],
          pass: [0.92, 1.6], sustained: 0.74, link: [0.80, 15.0, 3.0, 0.87],
          network: [0.93, 0.0, 10.0, 5.0], in_switch: 0.58 },
    Row { name: "h800", product: [0.80, 0.0, 0.75, 0.95, 3.9], product_fp4: 0.0,
          attention: [0.64, 0.87, 12.9],
          pass: [0.92, 1.6], sustained: 0.74, link: [0.80, 15.0, 3.5, 0.80],
          network: [0.93, 0.0, 10.0, 5.0], in_switch: 0.58 },
    Row { name: "b200", product: [0.68, 0.0, 0.66, 0.73, 2.7], product_fp4: 0.51,
          attention: [0.58, 0.88, 14.6],
          pass: [0.72, 2.1], sustained: 0.8, link: [0.76, 23.0, 4.8, 1.33],
          network: [0.93, 0.0, 10.0, 5.0], in_switch: 0.46 },
    Row { name: "gb200-nvl72", product: [0.74, 0.0, 0.73, 0.75, 2.6], product_fp4: 0.55,
          attention: [0.62, 0.91, 14.9],
          pass: [0.76, 2.2], sustained: 0.8, link: [0.70, 16.0, 6.0, 1.25],
          network: [0.93, 0.0, 10.0, 5.0], in_switch: 0.51 },
    Row { name: "b300", product: [0.75, 0.0, 0.72, 0.74, 2.4], product_fp4: 0.37,
          attention: [0.59, 0.87, 13.2],
          pass: [0.72, 1.9], sustained: 0.8, link: [0.76, 22.0, 4.6, 1.33],
          network: [0.93, 0.0, 10.0, 5.0], in_switch: 0.46 },
    Row { name: "gb300", product: [0.77, 0.0, 0.75, 0.75, 2.6], product_fp4: 0.38,
          attention: [0.59, 0.89, 14.0],
          pass: [0.77, 2.2], sustained: 0.8, link: [0.69, 16.0, 5.4, 1.29],
          network: [0.93, 0.0, 10.0, 5.0], in_switch: 0.52 },
    Row { name: "mi300x", product: [0.54, 0.0, 0.49, 0.79, 3.0], product_fp4: 0.0,
          attention: [0.0, 0.0, 0.0],
          pass: [0.79, 1.6], sustained: 0.0, link: [0.68, 15.0, 4.0, 0.8],
          network: [0.93, 0.0, 10.0, 5.0], in_switch: 0.0 },
    Row { name: "tpu-v4p", product: [0.88, 0.88, 0.0, 0.85, 1.6], product_fp4: 0.0,
          attention: [0.0, 0.0, 0.0],
          pass: [0.85, 1.7], sustained: 1.0, link: [0.87, 0.0, 0.0, 1.4],
          network: [0.93, 0.0, 10.0, 5.0], in_switch: 0.0 },
    Row { name: "tpu-v5e", product: [0.85, 0.85, 0.0, 0.85, 1.6], product_fp4: 0.0,
          attention: [0.0, 0.0, 0.0],
          pass: [0.85, 1.7], sustained: 1.0, link: [0.83, 0.0, 0.0, 1.4],
          network: [0.93, 0.0, 10.0, 5.0], in_switch: 0.0 },
    Row { name: "tpu-v5p", product: [0.87, 0.87, 0.0, 0.85, 1.6], product_fp4: 0.0,
          attention: [0.0, 0.0, 0.0],
          pass: [0.85, 1.7], sustained: 1.0, link: [0.87, 0.0, 0.0, 1.4],
          network: [0.93, 0.0, 10.0, 5.0], in_switch: 0.0 },
    Row { name: "tpu-v6e", product: [0.90, 0.90, 0.0, 0.85, 1.6], product_fp4: 0.0,
          attention: [0.0, 0.0, 0.0],
          pass: [0.85, 1.7], sustained: 0.85, link: [0.87, 0.0, 0.0, 1.4],
          network: [0.93, 0.0, 10.0, 5.0], in_switch: 0.0 },
    Row { name: "tpu7x", product: [0.83, 0.83, 0.83, 0.44, 0.8], product_fp4: 0.0,
          attention: [0.0, 0.0, 0.0],
          pass: [0.875, 1.7], sustained: 0.93, link: [1.0, 0.0, 4.5, 1.4],
          network: [0.93, 0.0, 10.0, 5.0], in_switch: 0.0 },
];

/// A step of Llama-3.1-8B without graphs takes an H100 8.4 ms at one request (5.1 ms with them, as
/// Spheron published in 2026): 26 us for each of ten kernels a layer. What a plan has as one kernel
/// is two or three in an engine (rotation, writing of caches, quantisation), each of which a host
/// launches in 5 to 20 us.
const LAUNCH_S: f64 = 26e-6;

/// Kernels of serving engines, chip by chip: shares of the memory bandwidth that products of fp8
/// and of fp4 reach; of experts, shares of the peaks of bf16, fp8 and fp4, of the memory bandwidth,
/// and microseconds of a third of all three products with routing.
const SERVING: &[(&str, [f64; 2], [f64; 5])] = &[
    ("a100", [0.0, 0.0], [0.16, 0.0, 0.0, 0.75, 16.2]),
    ("h100", [0.77, 0.0], [0.30, 0.21, 0.0, 0.84, 10.2]),
    ("h200", [0.69, 0.0], [0.28, 0.21, 0.0, 0.80, 10.4]),
    ("b200", [0.67, 0.58], [0.33, 0.25, 0.16, 0.83, 10.0]),
    ("gb200-nvl72", [0.68, 0.61], [0.37, 0.26, 0.18, 0.86, 9.9]),
    ("b300", [0.65, 0.56], [0.36, 0.24, 0.12, 0.81, 9.6]),
    ("gb300", [0.67, 0.60], [0.38, 0.23, 0.11, 0.84, 9.6]),
];

/// The measured rates of a preset with those of the table above.
fn with_serving(name: &str, rates: &MeasuredRates) -> MeasuredRates {
    let Some((_, memory, experts)) = SERVING.iter().find(|(chip, ..)| *chip == name) else {
        return *rates;
    };
    MeasuredRates {
        product_fp8_memory: known(memory[0]),
        product_fp4_memory: known(memory[1]),
        experts: known(experts[0]),
        experts_fp8: known(experts[1]),
        experts_fp4: known(experts[2]),
        experts_memory: known(experts[3]),
        experts_fixed_s: known(experts[4]).map(seconds),
        ..*rates
    }
}

/// Attention in training, chip by chip: the share of the peak that `FlashAttention-2` reaches
/// forward and backward together, which is what `PyTorch` runs on these. Fitted to the speeds in
/// the figures of its paper (Dao 2023; heads of 128, with and without a causal mask, sequences of
/// 512 to 16384; 10% off): 163 to 338 TFLOP/s on an H100, 99 to 203 on an A100. On Hopper the
/// kernels of serving are of a later generation, which reach 0.6 of the peak.
const ATTENTION_TRAINING: &[(&str, f64)] =
    &[("a100", 0.58), ("h100", 0.31), ("h200", 0.31), ("h800", 0.31)];

fn attention_training(name: &str) -> Option<f64> {
    ATTENTION_TRAINING.iter().find(|(chip, _)| *chip == name).map(|&(_, share)| share)
}

/// `AllReduce` kernels of serving engines, chip by chip: as links, and the share in the switch.
const ENGINES: &[(&str, [f64; 5])] = &[
    ("a100", [0.70, 7.5, 3.9, 0.12, 0.0]),
    ("h100", [0.75, 8.1, 2.6, 0.10, 0.54]),
    ("h200", [0.74, 6.7, 2.8, 0.10, 0.54]),
    ("h800", [0.75, 8.1, 2.6, 0.10, 0.54]),
    ("b200", [0.70, 27.0, 4.4, 0.10, 0.50]),
    ("gb200-nvl72", [0.67, 19.6, 4.3, 0.08, 0.51]),
    ("b300", [0.72, 29.8, 4.7, 0.10, 0.51]),
];

fn engine(name: &str) -> LinkFigures {
    let found = ENGINES.iter().find(|(chip, _)| *chip == name);
    found.map_or_else(
        LinkFigures::default,
        |&(_, [share, saturation, fixed, per_device, switch])| LinkFigures {
            in_switch: known(switch),
            ..link([share, saturation, fixed, per_device])
        },
    )
}

/// Microseconds that each device adds to a long message in a ring of NCCL over `NVLink`, by NCCL's
/// own table (`hwLat` in `src/graph/tuning.cc`: a ring of the protocol `Simple`). Over nodes of 72
/// GPUs it runs such rings; over nodes of 8, trees between the nodes, which are rounds here.
const LONG_HOP: f64 = 3.4;
const WITH_LONG_HOPS: [&str; 2] = ["gb200-nvl72", "gb300"];

fn long_hop_s(name: &str) -> Option<f64> {
    WITH_LONG_HOPS.contains(&name).then(|| seconds(LONG_HOP))
}

/// What was measured on the preset called `name`.
pub(super) fn measured(name: &str) -> MeasuredRates {
    let row = ROWS.iter().find(|row| row.name == name);
    row.map(|row| with_serving(name, &row.rates())).unwrap_or_default()
}

fn known(number: f64) -> Option<f64> {
    (number > 0.0).then_some(number)
}

/// Seconds, nearest to the decimal number: hardware files print `1.02e-5`.
fn seconds(microseconds: f64) -> f64 {
    (microseconds * 1e6).round() / 1e12
}

fn link([share, saturation, fixed, per_device]: [f64; 4]) -> LinkFigures {
    LinkFigures {
        share: known(share),
        saturation_s: Some(seconds(saturation)),
        fixed_s: Some(seconds(fixed)),
        per_device_s: Some(seconds(per_device)),
        in_switch: None,
        long_hop_s: None,
    }
}

impl Row {
    /// Whether hosts launch its kernels one by one: programs of TPUs are compiled as a whole.
    fn is_launched(&self) -> bool {
        !self.name.starts_with("tpu")
    }

    fn rates(&self) -> MeasuredRates {
        let [bf16, int8, fp8, memory, fixed] = self.product;
        let [attention, attention_memory, attention_fixed] = self.attention;
        MeasuredRates {
            product: known(bf16),
            product_int8: known(int8),
            product_fp8: known(fp8),
            product_fp4: known(self.product_fp4),
            product_memory: known(memory),
            product_fixed_s: Some(seconds(fixed)),
            attention: known(attention),
            attention_training: attention_training(self.name),
            attention_memory: known(attention_memory),
            attention_fixed_s: known(attention_fixed).map(seconds),
            pass_memory: known(self.pass[0]),
            pass_fixed_s: Some(seconds(self.pass[1])),
            launch_s: self.is_launched().then_some(LAUNCH_S),
            sustained: known(self.sustained),
            contention: self.is_launched().then_some(CONTENTION),
            logit_bytes: self.is_launched().then_some(LOGIT_BYTES),
            allocator: self.is_launched().then_some(ALLOCATOR),
            link: LinkFigures {
                in_switch: known(self.in_switch),
                long_hop_s: long_hop_s(self.name),
                ..link(self.link)
            },
            network: link(self.network),
            engine: engine(self.name),
            ..MeasuredRates::default()
        }
    }
}
