//! The presets: chips as data sheets and *How To Scale Your Model* describe them.
//!
//! Bytes are decimal, links are counted one way, rates of arithmetic are dense. Where the book
//! gives a number (Part 2 for TPUs, its chapter on GPUs for the others) it is the book's, also
//! where the data sheet differs by a few percent (bf16 of the B200 is 2250 there). What the book
//! does not have:
//!
//! * f32 is the rate of products of f32 operands on the matrix unit, as JAX multiplies them by
//!   default, and `PyTorch` if asked to: TF32 on NVIDIA GPUs (half of bf16, data sheets), on
//!   MI300X (data sheet) and Trainium2 (Neuron's architecture guide); on TPUs one pass in bf16
//!   (exact f32 takes six). CDNA 4 has no TF32: MI355X has the rate of f32 matrices.
//! * fp8 and int8 are those of data sheets. Blackwell Ultra has next to no int8. TPUs before
//!   tpu7x have no fp8, and neither has the A100, for which the book has the rate of int8: see
//!   [`super::hardware::Hardware::peak_flops`].
//! * fp4: data sheets of Blackwell and MI355X.
//! * h800: the book has the fp8 peak of the `PCIe` card alone; bf16 and TF32 are the same card's,
//!   memory and links those of the modules in the nodes of `DeepSeek-V3` (arXiv 2412.19437).
//! * Networks: DGX A100 (eight cards of 200 Gbit/s a node), DGX H200, the H800 nodes of `DeepSeek`
//!   and AMD's reference nodes (eight of 400), Blackwell Ultra (ConnectX-8, 800 Gbit/s a chip),
//!   `trn2.48xlarge` (3.2 Tbit/s for 16 chips); tpu-v3: the chapter's 25 GB/s for a host of eight.
//! * b300: HGX B300; gb300: GB300 NVL72 (Blackwell Ultra data sheet). mi300x, mi355x: AMD's data
//!   sheets; seven Infinity Fabric links to the other chips of the node (64 and 76.8 GB/s one way)
//!   are priced as a switch of their sum, which a group of fewer chips than the node cannot reach.
//! * Links to hosts: the book for TPUs (Part 2; tpu7x is not there); `PCIe` with 16 lanes of
//!   generation 4 (A100), 5 (H100 to B200, MI300X, MI355X) or 6 (B300), data sheets; half of the
//!   450 GB/s one way between the CPU and both GPUs of a GB200 or GB300.
//! * trainium2: Neuron's architecture guide; the 4x4 torus of an instance, links of 128 GB/s.

use super::hardware::{Hardware, Wraparound};
use super::measured_presets::measured;

use Wraparound::{Cube4, Full16, Switched, WholePod};

/// A row of the table below.
pub(super) struct Preset {
    pub(super) name: &'static str,
    /// f32, bf16, int8, fp8, fp4, in units of 1e12 per second; 0 where the chip has no such units.
    peak: [f64; 5],
    /// GB, GB/s.
    hbm: [f64; 2],
    /// Link, dcn and host, GB/s; 0 where it is not known.
    network: [f64; 3],
    wraparound: Wraparound,
    pod: &'static [u64],
}

impl Preset {
    pub(super) fn hardware(&self) -> Hardware {
        let known = |number: f64, unit: f64| (number > 0.0).then_some(number * unit);
        let [f32, bf16, int8, fp8, fp4] = self.peak.map(|peak| known(peak, 1e12));
        Hardware {
            f32_flops: f32,
            bf16_flops: bf16,
            int8_flops: int8,
            fp8_flops: fp8,
            fp4_flops: fp4,
            hbm_bytes: known(self.hbm[0], 1e9),
            hbm_bandwidth: known(self.hbm[1], 1e9),
            link_bandwidth: known(self.network[0], 1e9),
            dcn_bandwidth: known(self.network[1], 1e9),
            host_bandwidth: known(self.network[2], 1e9),
            wraparound: self.wraparound,
            pod: self.pod.to_vec(),
            measured: measured(self.name),
            ..Hardware::unknown(self.name)
        }
    }
}

const fn preset(
    name: &'static str,
    peak: [f64; 5],
    hbm: [f64; 2],
    network: [f64; 3],
    wraparound: Wraparound,
    pod: &'static [u64],
) -> Preset {
    Preset { name, peak, hbm, network, wraparound, pod }
}

/// Columns as in [`Preset`].
#[rustfmt::skip]
pub(super) const PRESETS: &[Preset] = &[
    preset("tpu-v3",      [140., 140., 140., 0., 0.],           [32., 900.],     [100., 3.125, 15.],
           WholePod, &[32, 32]),
    preset("tpu-v4p",     [275., 275., 275., 0., 0.],             [32., 1200.],    [45., 6.25, 15.],
           Cube4, &[16, 16, 16]),
    preset("tpu-v5p",     [459., 459., 918., 0., 0.],             [96., 2800.],    [90., 6.25, 15.],
           Cube4, &[16, 20, 28]),
    preset("tpu-v5e",     [197., 197., 394., 0., 0.],            [16., 810.],     [45., 3.125, 15.],
           Full16, &[16, 16]),
    preset("tpu-v6e",     [920., 920., 1840., 0., 0.],            [32., 1600.],    [90., 12.5, 32.],
           Full16, &[16, 16]),
    preset("tpu7x",       [2300., 2300., 4610., 4610., 0.],       [192., 7400.],   [90., 12.5, 0.],
           WholePod, &[4, 4, 576]),
    preset("h100",        [494.5, 989., 2000., 2000., 0.],        [80., 3350.],    [450., 50., 64.],
           Switched, &[8]),
    preset("h200",        [494.5, 990., 2000., 2000., 0.],        [141., 4800.],   [450., 50., 64.],
           Switched, &[8]),
    preset("h800",        [378.25, 756.5, 1513., 1513., 0.],      [80., 3350.],    [200., 50., 64.],
           Switched, &[8]),
    preset("b200",        [1125., 2300., 4500., 4500., 9000.],    [192., 8000.],   [900., 50., 64.],
           Switched, &[8]),
    preset("gb200-nvl72", [1125., 2300., 4500., 4500., 9000.],   [192., 8000.],   [900., 50., 225.],
           Switched, &[72]),
    preset("b300",        [1125., 2250., 150., 4500., 14000.],  [288., 8000.],   [900., 100., 128.],
           Switched, &[8]),
    preset("gb300",       [1250., 2500., 165., 5000., 15000.],  [288., 8000.],   [900., 100., 225.],
           Switched, &[72]),
    preset("a100",        [156., 310., 620., 0., 0.],             [80., 2000.],    [300., 25., 32.],
           Switched, &[8]),
    preset("mi300x",      [653.7, 1307.4, 2614.9, 2614.9, 0.],    [192., 5300.],   [448., 50., 64.],
           Switched, &[8]),
    preset("mi355x",      [157.3, 2516.6, 5033.2, 5033.2, 10066.3], [288., 8000.],
           [537.6, 50., 64.], Switched, &[8]),
    preset("trainium2",   [667., 667., 0., 1299., 0.],            [103.079, 2900.], [128., 25., 0.],
           WholePod, &[4, 4]),
];
