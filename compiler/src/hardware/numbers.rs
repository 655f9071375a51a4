//! The keys of hardware files whose values are numbers: what they count, and where they belong. A
//! new figure of a chip is a row here.

use std::ops::RangeInclusive;

use shardwise_ir::hardware::Hardware;

use super::written;

use Scale::{
    Bandwidth, Context, Delay, Fewer, Flops, Link, Memory, Network, Part, Price, Share, Time,
};

/// A key whose value is a number: its name, its meaning, what it counts, and its field.
pub(crate) type Number = (&'static str, &'static str, Scale, fn(&mut Hardware) -> &mut Option<f64>);

/// What a number counts, and with that which values are plausible. The limits are so wide that no
/// chip of the last or the next years is outside, and so narrow that a value in thousands of the
/// unit, or in thousandths of it, is; hardware.md lists them.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Scale {
    /// FLOP/s of a chip.
    Flops,
    /// Bytes of memory.
    Memory,
    /// Bytes that a driver takes.
    Context,
    /// Bytes a second, to the chip's own memory.
    Bandwidth,
    /// The same, over a link.
    Link,
    /// The same, over a network.
    Network,
    /// A share of a peak.
    Share,
    /// A share that may be none.
    Part,
    /// Seconds of a hop.
    Time,
    /// Seconds that are added, and may be none.
    Delay,
    /// A few bytes, which may be none.
    Fewer,
    /// Money: of a chip-hour in millions, it is another unit.
    Price,
}

impl Scale {
    /// Values that are not in another unit.
    pub(crate) fn plausible(self) -> RangeInclusive<f64> {
        match self {
            Flops => 1e12..=1e18,
            Memory => 1e9..=1e13,
            Context => 1e6..=1e11,
            Bandwidth => 1e10..=1e15,
            Link => 1e9..=1e14,
            Network => 1e8..=1e13,
            Share => 1e-4..=1.0,
            Part => 0.0..=1.0,
            Time | Delay => 0.0..=1e-3,
            Fewer => 0.0..=64.0,
            Price => 0.0..=1e6,
        }
    }

    /// Whether a value can be one at all.
    pub(crate) fn accepts(self, number: f64) -> bool {
        let may_be_none = matches!(self, Part | Delay | Fewer | Context);
        number.is_finite() && (number > 0.0 || may_be_none && number == 0.0)
    }

    /// Whether a value that it accepts is in its own unit.
    pub(crate) fn has_unit(self, number: f64) -> bool {
        number == 0.0 || self.plausible().contains(&number)
    }

    /// What is reported of a value that is not plausible.
    pub(crate) fn implausible(self, number: f64) -> String {
        let (least, most) = (*self.plausible().start(), *self.plausible().end());
        match self {
            Share | Part if number > most => {
                "this is more than a share can be: shares are at most 1".to_owned()
            }
            _ => format!(
                "this looks like another unit: {} from {least:e} to {most:e} are plausible",
                self.unit()
            ),
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Flops => "FLOP/s",
            Memory | Context | Fewer => "bytes",
            Bandwidth | Link | Network => "bytes a second",
            Share | Part => "shares",
            Time | Delay => "seconds",
            Price => "prices",
        }
    }

    /// A value, as an example for figures that [`EXAMPLE`] does not have.
    fn example(self) -> &'static str {
        match self {
            Flops => "9.9e14",
            Memory => "8e10",
            Context => "1.5e9",
            Bandwidth => "3.3e12",
            Link => "4.5e11",
            Network => "5e10",
            Share => "0.8",
            Part => "0.05",
            Time | Delay => "1e-6",
            Fewer => "12",
            Price => "2.5",
        }
    }
}

/// The chip whose figures are examples.
const EXAMPLE: &str = "h100";

/// A line of a hardware file with such a number, and what it is.
pub(crate) fn example((key, what, scale, field): &Number) -> String {
    let of_chip = Hardware::preset(EXAMPLE).and_then(|mut chip| *field(&mut chip));
    let value =
        of_chip.map_or_else(|| scale.example().to_owned(), |value| written(value).to_string());
    format!("`{key} = {value}`: {what}")
}

/// Every key whose value is a number.
pub(crate) fn all() -> impl Iterator<Item = &'static Number> {
    PEAKS.iter().chain(MEASURED)
}

/// What data sheets give.
#[rustfmt::skip]
pub(crate) const PEAKS: &[Number] = &[
    ("f32", "FLOP/s of products in f32, on GPUs in TF32", Flops, |h| &mut h.f32_flops),
    ("bf16", "FLOP/s in bf16", Flops, |h| &mut h.bf16_flops),
    ("int8", "operations a second in int8", Flops, |h| &mut h.int8_flops),
    ("fp8", "FLOP/s in fp8", Flops, |h| &mut h.fp8_flops),
    ("fp4", "FLOP/s in fp4", Flops, |h| &mut h.fp4_flops),
    ("memory", "bytes of HBM", Memory, |h| &mut h.hbm_bytes),
    ("memory_bandwidth", "bytes a second", Bandwidth, |h| &mut h.hbm_bandwidth),
    ("link_bandwidth", "bytes a second, one way: of a link of a torus, out of a chip into a switch",
     Link, |h| &mut h.link_bandwidth),
    ("network_bandwidth",
     "bytes a second, one way: a chip's share of its host's or its own network card",
     Network, |h| &mut h.dcn_bandwidth),
    ("host_bandwidth", "bytes a second, one way: between a chip and the memory of its host",
     Link, |h| &mut h.host_bandwidth),
    ("price", "the price of a chip-hour, in any currency", Price, |h| &mut h.price),
];

/// What was measured; see [`shardwise_ir::rates::MeasuredRates`].
#[rustfmt::skip]
pub(crate) const MEASURED: &[Number] = &[
    ("product", "share of the bf16 peak that products reach", Share, |h| &mut h.measured.product),
    ("product_int8", "share of the int8 peak", Share, |h| &mut h.measured.product_int8),
    ("product_fp8", "share of the fp8 peak", Share, |h| &mut h.measured.product_fp8),
    ("product_fp4", "share of the fp4 peak", Share, |h| &mut h.measured.product_fp4),
    ("product_memory", "share of the memory bandwidth in products", Share,
     |h| &mut h.measured.product_memory),
    ("product_fp8_memory", "share of the memory bandwidth in products of fp8", Share,
     |h| &mut h.measured.product_fp8_memory),
    ("product_fp4_memory", "share of the memory bandwidth in products of fp4", Share,
     |h| &mut h.measured.product_fp4_memory),
    ("product_fixed", "seconds of a product of any size", Delay,
     |h| &mut h.measured.product_fixed_s),
    ("experts", "share of the bf16 peak that products of experts reach in serving", Share,
     |h| &mut h.measured.experts),
    ("experts_fp8", "share of the fp8 peak", Share, |h| &mut h.measured.experts_fp8),
    ("experts_fp4", "share of the fp4 peak", Share, |h| &mut h.measured.experts_fp4),
    ("experts_memory", "share of the memory bandwidth in products of experts", Share,
     |h| &mut h.measured.experts_memory),
    ("experts_fixed", "seconds of such a product of any size", Delay,
     |h| &mut h.measured.experts_fixed_s),
    ("attention", "share of the peak that attention kernels reach", Share,
     |h| &mut h.measured.attention),
    ("attention_training", "share of the peak in training, forward and backward", Share,
     |h| &mut h.measured.attention_training),
    ("attention_memory", "share of the memory bandwidth in attention kernels", Share,
     |h| &mut h.measured.attention_memory),
    ("attention_fixed", "seconds of an attention kernel of any size", Delay,
     |h| &mut h.measured.attention_fixed_s),
    ("pass_memory", "share of the memory bandwidth in passes over arrays", Share,
     |h| &mut h.measured.pass_memory),
    ("pass_fixed", "seconds of a pass of any size", Delay, |h| &mut h.measured.pass_fixed_s),
    ("launch", "seconds in which a host launches a kernel, in prompts", Delay,
     |h| &mut h.measured.launch_s),
    ("sustained", "share of these rates that training sustains", Share,
     |h| &mut h.measured.sustained),
    ("contention",
     "share of the time of collectives beside compute by which the compute takes longer", Part,
     |h| &mut h.measured.contention),
    ("logit_bytes", "bytes that training holds beside each element of logits in 16 bits", Fewer,
     |h| &mut h.measured.logit_bytes),
    ("allocator", "share of what a step of training allocates that is held beside it", Part,
     |h| &mut h.measured.allocator),
    ("context", "bytes of memory that the driver and libraries take", Context,
     |h| &mut h.measured.context_bytes),
    ("link_share", "share of the link bandwidth that long messages reach", Share,
     |h| &mut h.measured.link.share),
    ("link_saturation", "seconds: b at full bandwidth takes sqrt(b * this) more", Delay,
     |h| &mut h.measured.link.saturation_s),
    ("link_fixed", "seconds of a collective of any size", Delay, |h| &mut h.measured.link.fixed_s),
    ("link_per_device", "seconds of a collective for each device and way", Delay,
     |h| &mut h.measured.link.per_device_s),
    ("link_in_switch", "share of the link bandwidth of a reduction in the switch", Share,
     |h| &mut h.measured.link.in_switch),
    ("link_long_hop", "seconds, as link_per_device, of long messages in a ring over nodes", Delay,
     |h| &mut h.measured.link.long_hop_s),
    ("network_share", "share of the network bandwidth that long messages reach", Share,
     |h| &mut h.measured.network.share),
    ("network_saturation", "seconds, as link_saturation", Delay,
     |h| &mut h.measured.network.saturation_s),
    ("network_fixed", "seconds of a collective of any size", Delay,
     |h| &mut h.measured.network.fixed_s),
    ("network_per_device", "seconds of a collective for each device and way", Delay,
     |h| &mut h.measured.network.per_device_s),
    ("engine_share", "share of the link bandwidth in AllReduces of serving engines", Share,
     |h| &mut h.measured.engine.share),
    ("engine_saturation", "seconds, as link_saturation", Delay,
     |h| &mut h.measured.engine.saturation_s),
    ("engine_fixed", "seconds of such an AllReduce of any size", Delay,
     |h| &mut h.measured.engine.fixed_s),
    ("engine_per_device", "seconds of it for each device and way", Delay,
     |h| &mut h.measured.engine.per_device_s),
    ("engine_in_switch", "share of the link bandwidth of such a reduction in the switch", Share,
     |h| &mut h.measured.engine.in_switch),
];
