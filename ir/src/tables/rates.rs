//! Measured rates: what kernels and links really reach, beside the peaks of data sheets.
//!
//! Shares are of the chip's own peaks, so that a file that corrects a peak does not have to say
//! them again, and so that efficiencies stay what they are compared with (MFU, critical batch).
//! Times are of one kernel or message. A chip that lacks a figure takes a typical one; a chip
//! without any is reported where measured rates are asked for.

use serde::Serialize;
use strum::{EnumMessage, IntoStaticStr, VariantArray};

use crate::dtype::DType;

/// Which rates times are computed at.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray, Serialize,
)]
#[strum(serialize_all = "lowercase")]
#[serde(rename_all = "lowercase")]
pub enum Rates {
    /// The data sheet's, as the book does.
    #[default]
    Peak,
    /// Those that were measured on the chip.
    Measured,
}

impl Rates {
    /// As options and programs write it.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Figures measured on a chip; `None` where there is no measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct MeasuredRates {
    /// Share of the bf16 peak that products reach.
    pub product: Option<f64>,
    /// Share of the int8 peak that products reach.
    pub product_int8: Option<f64>,
    /// Share of the fp8 peak that products reach.
    pub product_fp8: Option<f64>,
    /// Share of the fp4 peak that products reach.
    pub product_fp4: Option<f64>,
    /// Share of the memory bandwidth that products reach.
    pub product_memory: Option<f64>,
    /// The same of products of fp8, whose kernels read scales, too.
    pub product_fp8_memory: Option<f64>,
    /// The same of products of fp4.
    pub product_fp4_memory: Option<f64>,
    /// Fixed time of a product, seconds.
    pub product_fixed_s: Option<f64>,
    /// Share of the bf16 peak that products of experts reach, each with the tokens routed to it.
    pub experts: Option<f64>,
    /// Their share of the fp8 peak.
    pub experts_fp8: Option<f64>,
    /// Their share of the fp4 peak.
    pub experts_fp4: Option<f64>,
    /// Their share of the memory bandwidth.
    pub experts_memory: Option<f64>,
    /// Fixed time of one of the products of all experts, seconds.
    pub experts_fixed_s: Option<f64>,
    /// Share of the peak that attention kernels reach.
    pub attention: Option<f64>,
    /// Share of the peak that attention kernels reach in training, forward and backward, where it
    /// is not that of serving.
    pub attention_training: Option<f64>,
    /// Share of the memory bandwidth that attention kernels reach.
    pub attention_memory: Option<f64>,
    /// Fixed time of an attention kernel, seconds.
    pub attention_fixed_s: Option<f64>,
    /// Share of the memory bandwidth that passes over arrays reach.
    pub pass_memory: Option<f64>,
    /// Fixed time of a pass, seconds.
    pub pass_fixed_s: Option<f64>,
    /// Seconds in which a host launches a kernel that no graph has captured.
    pub launch_s: Option<f64>,
    /// Share of the measured rates that hours of training sustain: clocks fall under load.
    pub sustained: Option<f64>,
    /// Share of the time of collectives beside compute by which the compute takes longer: they take
    /// cores and memory bandwidth from it. It is that of collectives inside of nodes.
    pub contention: Option<f64>,
    /// Bytes that training holds beside each element of logits in fewer than 32 bits: copies in 32
    /// bits.
    pub logit_bytes: Option<f64>,
    /// Share of what training allocates and frees in a step that is held beside it: workspaces of
    /// kernels, copies into their layouts, and gaps between blocks.
    pub allocator: Option<f64>,
    /// Bytes of memory that the driver and libraries take before a program runs.
    pub context_bytes: Option<f64>,
    /// Links between chips of a slice or node.
    pub link: LinkFigures,
    /// The data-center network.
    pub network: LinkFigures,
    /// The `AllReduce` kernels that serving engines run inside a node instead of a library's.
    pub engine: LinkFigures,
}

/// Figures measured on links; `None` where there is no measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LinkFigures {
    /// Share of the bandwidth that long messages reach.
    pub share: Option<f64>,
    /// How slowly messages saturate links, seconds: one that takes `b` at full bandwidth takes
    /// `sqrt(b · saturation)` more.
    pub saturation_s: Option<f64>,
    /// Fixed time of a collective, seconds.
    pub fixed_s: Option<f64>,
    /// Time of a collective for each device that takes part, and each way, seconds.
    pub per_device_s: Option<f64>,
    /// Share of the bandwidth at which a switch adds up itself what is reduced over it.
    pub in_switch: Option<f64>,
    /// Time for each device and way of a long message in one ring over several nodes, seconds,
    /// where a library has no quicker way to send it.
    pub long_hop_s: Option<f64>,
}

/// What kernels of one kind reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelRates {
    /// Share of the peak rate of arithmetic.
    pub compute: f64,
    /// Share of the memory bandwidth.
    pub memory: f64,
    /// Fixed time, seconds.
    pub fixed_s: f64,
}

/// What links of one kind reach; the fields are those of [`LinkFigures`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkRates {
    /// Share of the bandwidth.
    pub share: f64,
    /// Slowness of saturation, seconds.
    pub saturation_s: f64,
    /// Fixed time, seconds.
    pub fixed_s: f64,
    /// Time for each device and way, seconds.
    pub per_device_s: f64,
    /// Share of the bandwidth of a reduction in the switch, where it can do that.
    pub in_switch: Option<f64>,
    /// Time for each device and way of a long message in one ring over several nodes, seconds;
    /// `None`: rounds are as good for long messages.
    pub long_hop_s: Option<f64>,
}

impl LinkRates {
    /// Seconds that what takes `seconds` at full bandwidth transfers.
    pub fn transfer_s(&self, seconds: f64) -> f64 {
        seconds / self.share + (seconds * self.saturation_s).sqrt()
    }

    /// Seconds until the last byte has passed so many devices.
    pub fn latency_s(&self, devices: f64) -> f64 {
        self.fixed_s + self.per_device_s * devices
    }
}

impl LinkFigures {
    fn rates(self, typical: LinkRates) -> LinkRates {
        LinkRates {
            share: self.share.unwrap_or(typical.share),
            saturation_s: self.saturation_s.unwrap_or(typical.saturation_s),
            fixed_s: self.fixed_s.unwrap_or(typical.fixed_s),
            per_device_s: self.per_device_s.unwrap_or(typical.per_device_s),
            in_switch: self.in_switch,
            long_hop_s: self.long_hop_s,
        }
    }
}

/// What is typical of measured chips where one has no figure of its own.
const PRODUCT: KernelRates = KernelRates { compute: 0.75, memory: 0.85, fixed_s: 3e-6 };
const ATTENTION: KernelRates = KernelRates { compute: 0.5, memory: 0.5, fixed_s: 10e-6 };
const PASS: KernelRates = KernelRates { compute: 1.0, memory: 0.85, fixed_s: 1.6e-6 };
/// An order of magnitude, and fitted to nothing.
const COMPILED_FIXED_S: f64 = 1e-6;
const SUSTAINED: f64 = 0.85;
/// How many times as long passes take in training as their bytes alone would: best over published
/// training steps, left out source by source.
const PASSES_IN_TRAINING: f64 = 2.5;
const LINK: LinkRates = LinkRates {
    share: 0.85,
    saturation_s: 1.5e-5,
    fixed_s: 4e-6,
    per_device_s: 0.8e-6,
    in_switch: None,
    long_hop_s: None,
};
const NETWORK: LinkRates = LinkRates {
    share: 0.93,
    saturation_s: 2e-5,
    fixed_s: 10e-6,
    per_device_s: 5e-6,
    in_switch: None,
    long_hop_s: None,
};

impl MeasuredRates {
    /// Whether nothing was measured on the chip.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The rates that training sustains. Clocks fall under load; and frameworks fuse less in
    /// training and keep more in 32 bits than the kernels that are counted, so that passes take
    /// longer.
    pub(crate) fn in_training(&self) -> Self {
        let sustained = self.sustained.unwrap_or(SUSTAINED);
        let share = |share: Option<f64>, typical: f64| Some(sustained * share.unwrap_or(typical));
        Self {
            product: share(self.product, PRODUCT.compute),
            product_int8: self.product_int8.map(|share| sustained * share),
            product_fp8: self.product_fp8.map(|share| sustained * share),
            product_fp4: self.product_fp4.map(|share| sustained * share),
            attention: share(self.attention_training.or(self.attention), ATTENTION.compute),
            // Experts have many more tokens each than in the steps that were measured.
            experts: None,
            pass_memory: Some(self.pass_memory.unwrap_or(PASS.memory) / PASSES_IN_TRAINING),
            ..*self
        }
    }

    /// The rates of kernels that training runs, one by one.
    pub(crate) fn in_gradients(&self) -> Self {
        let attention = self.attention_training.or(self.attention);
        Self { attention, ..self.outside_engines() }
    }

    /// The rates of chips whose programs are compiled as a whole, as those on a torus are: where
    /// nothing was measured, their products begin sooner than kernels that a host starts.
    pub(crate) fn of_compiled_programs(&self) -> Self {
        let product_fixed_s = self.product_fixed_s.or(Some(COMPILED_FIXED_S));
        Self { product_fixed_s, ..*self }
    }

    /// The rates of kernels that no serving engine runs: theirs read scales beside fp8 and fp4.
    pub(crate) fn outside_engines(&self) -> Self {
        Self { product_fp8_memory: None, product_fp4_memory: None, experts: None, ..*self }
    }

    /// What products with operands of `dtype` reach.
    pub fn products(&self, dtype: DType) -> KernelRates {
        let own = match dtype {
            DType::Fp4 => self.product_fp4.or(self.product_fp8),
            DType::Fp8 => self.product_fp8,
            DType::Int8 | DType::Int4 | DType::Bool => self.product_int8,
            DType::F32 | DType::F16 | DType::Bf16 | DType::Int32 => None,
        };
        let own_memory = match dtype {
            DType::Fp4 => self.product_fp4_memory.or(self.product_fp8_memory),
            DType::Fp8 => self.product_fp8_memory,
            _ => None,
        };
        KernelRates {
            compute: own.or(self.product).unwrap_or(PRODUCT.compute),
            memory: own_memory.or(self.product_memory).unwrap_or(PRODUCT.memory),
            fixed_s: self.product_fixed_s.unwrap_or(PRODUCT.fixed_s),
        }
    }

    /// What products of experts with operands of `dtype` reach, where they were measured.
    pub fn products_of_experts(&self, dtype: DType) -> KernelRates {
        let products = self.products(dtype);
        let Some(experts) = self.experts else { return products };
        let own = match dtype {
            DType::Fp4 => self.experts_fp4.or(self.experts_fp8),
            DType::Fp8 => self.experts_fp8,
            _ => None,
        };
        KernelRates {
            compute: own.unwrap_or(experts),
            memory: self.experts_memory.unwrap_or(products.memory),
            fixed_s: self.experts_fixed_s.unwrap_or(products.fixed_s),
        }
    }

    /// What attention kernels reach.
    pub fn attention_kernels(&self) -> KernelRates {
        KernelRates {
            compute: self.attention.unwrap_or(ATTENTION.compute),
            memory: self.attention_memory.unwrap_or(ATTENTION.memory),
            fixed_s: self.attention_fixed_s.unwrap_or(ATTENTION.fixed_s),
        }
    }

    /// What passes over arrays reach.
    pub fn passes(&self) -> KernelRates {
        KernelRates {
            memory: self.pass_memory.unwrap_or(PASS.memory),
            fixed_s: self.pass_fixed_s.unwrap_or(PASS.fixed_s),
            ..PASS
        }
    }

    /// Links between chips of a slice or node.
    pub fn links(&self) -> LinkRates {
        self.link.rates(LINK)
    }

    /// The `AllReduce` kernels of serving engines, where they were measured.
    pub fn engine_reduces(&self) -> Option<LinkRates> {
        (self.engine != LinkFigures::default()).then(|| self.engine.rates(LINK))
    }

    /// The data-center network.
    pub fn networks(&self) -> LinkRates {
        self.network.rates(NETWORK)
    }
}
