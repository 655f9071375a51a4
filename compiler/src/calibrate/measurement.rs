//! One measured time, and the program whose price is compared with it.
//!
//! A measurement is turned into a program and planned like any other, so that the law that is
//! fitted is the one that prices plans: no formula is written a second time here.

use std::fmt;

use shardwise_ir::Span;
use shardwise_ir::dtype::DType;
use shardwise_ir::hardware::{Hardware, Workload};
use shardwise_ir::plan::Plan;
use shardwise_ir::rates::{MeasuredRates, Rates};
use shardwise_passes::report::serial_s;
use strum::{EnumMessage, IntoStaticStr, VariantArray};

use crate::diagnostics::Findings;
use crate::display::units;
use crate::driver;
use crate::options::{Fusion, Options, Refinement, Strategy};

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kernel {
    /// `[m, k]` times weights `[k, n]`.
    Product { dtype: DType, m: u64, n: u64, k: u64 },
    /// Fused attention: causal where there are as many queries as keys.
    Attention(Attention),
    /// A pass that reads half of the bytes and writes the other half.
    Pass { bytes: u64 },
    /// A collective over devices in so many nodes.
    Collective { kind: CollectiveName, bytes: u64, devices: u64, nodes: u64 },
}

/// The sizes of an attention kernel; `queries` and `keys` are per sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Attention {
    pub(super) dtype: DType,
    pub(super) batch: u64,
    pub(super) queries: u64,
    pub(super) keys: u64,
    pub(super) heads: u64,
    pub(super) kv_heads: u64,
    pub(super) head_dim: u64,
}

/// The collectives that measurements name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub(super) enum CollectiveName {
    AllGather,
    ReduceScatter,
    AllReduce,
    AllToAll,
    /// The `AllReduce` of serving engines.
    AllReduceKernel,
}

/// A measured time and where it was read.
#[derive(Clone, Debug)]
pub(super) struct Measurement {
    pub(super) kernel: Kernel,
    pub(super) seconds: f64,
    /// How much repeated runs differ, as a share of their median.
    pub(super) spread: Option<f64>,
    /// `bench.csv:12`.
    pub(super) place: String,
    /// The same line in the text.
    pub(super) span: Span,
}

impl Kernel {
    /// The program that has this kernel as its only one.
    fn program(&self) -> String {
        match *self {
            Self::Product { dtype, m, n, k } => {
                let dtype = dtype.name();
                format!(
                    "mesh X=1\ndim M={m}, N={n}, K={k}\n\
                     input A: {dtype}[M, K]\nparam B: {dtype}[K, N]\n\
                     C = A *K B\noutput C[M, N]\n"
                )
            }
            Self::Attention(sizes) => sizes.program(),
            Self::Pass { bytes } => {
                let elements = (bytes / 4).max(1);
                format!("mesh X=1\ndim N={elements}\ninput A[N]\nB = 2 * A\noutput B[N]\n")
            }
            Self::Collective { kind, bytes, devices, nodes } => {
                let inside = devices / nodes;
                let (mesh, axes) = match nodes {
                    1 => (format!("mesh X={devices}\n"), "X"),
                    _ => (format!("mesh P={nodes} dcn, X={inside}\n"), "PX"),
                };
                // Bytes are elements of one byte, as many on every device.
                let n = bytes.div_ceil(devices).max(1) * devices;
                mesh + &match kind {
                    CollectiveName::AllGather => {
                        format!("dim N={n}\ninput A: int8[N_{axes}]\noutput A[N]\n")
                    }
                    CollectiveName::ReduceScatter => {
                        format!("dim N={n}\ninput A: int8[N] {{U_{axes}}}\noutput A[N_{axes}]\n")
                    }
                    CollectiveName::AllReduce | CollectiveName::AllReduceKernel => {
                        format!("dim N={n}\ninput A: int8[N] {{U_{axes}}}\noutput A[N]\n")
                    }
                    CollectiveName::AllToAll => format!(
                        "dim M={devices}, N={n}\ninput A: int8[M_{axes}, N]\noutput A[M, \
                            N_{axes}]\n"
                    ),
                }
            }
        }
    }

    /// Over how many devices, and in how many nodes, it is a collective.
    pub(super) fn devices_and_nodes(&self) -> Option<(u64, u64)> {
        match *self {
            Self::Collective { devices, nodes, .. } => Some((devices, nodes)),
            _ => None,
        }
    }

    /// Whether it is a collective of a serving engine.
    pub(super) fn is_of_an_engine(&self) -> bool {
        matches!(self, Self::Collective { kind: CollectiveName::AllReduceKernel, .. })
    }

    /// What programs do that run such a kernel. Products of fp8 and fp4 are measured as they are
    /// served, with weights whose scales their kernels read: they have shares of the bandwidth of
    /// their own there (`product_fp8_memory`), and products of other dtypes the same rates as
    /// anywhere.
    fn workload(&self) -> Workload {
        if matches!(self, Self::Product { .. }) || self.is_of_an_engine() {
            Workload::Serving { reads_prompts: false }
        } else {
            Workload::Other
        }
    }

    /// Its price on the hardware as a function of what is measured there.
    pub(super) fn priced(&self, hardware: &Hardware) -> Result<Priced, Findings> {
        let options = Options {
            strategy: Strategy::Textbook,
            hardware: Some(hardware.name.clone()),
            known: vec![hardware.clone()],
            rates: Some(Rates::Measured),
            fusion: Some(Fusion::Attention),
            memory: Some(f64::INFINITY),
            ..Options::default()
        };
        let planned = driver::plan("measurement", &self.program(), &options)?;
        let mut plan = Plan::clone(&planned.plan);
        plan.program.hardware.workload = self.workload();
        Ok(Priced { plan })
    }
}

impl Attention {
    /// Whether a token sees only those before it.
    fn is_causal(&self) -> bool {
        self.queries > 1
    }

    fn program(&self) -> String {
        let Self { dtype, batch, queries, keys, heads, kv_heads, head_dim } = *self;
        let (dtype, group) = (dtype.name(), heads / kv_heads);
        let scores = if self.is_causal() { "causal_{T,S}(q *H k)" } else { "q *H k" };
        format!(
            "mesh X=1\n\
             dim B={batch}, T={queries}, S={keys}, K={kv_heads}, G={group}, H={head_dim}\n\
             input q: {dtype}[B, T, K, G, H], k: {dtype}[B, S, K, H], v: {dtype}[B, S, K, H]\n\
             p = softmax_S({scores})\no = p *S v\noutput o[B, T, K, G, H]\n"
        )
    }
}

/// A kernel that is planned, to be priced at many rates.
pub(super) struct Priced {
    plan: Plan,
}

impl Priced {
    /// Seconds at these rates.
    pub(super) fn seconds(&self, rates: &MeasuredRates) -> f64 {
        let mut plan = self.plan.clone();
        plan.program.hardware.measured = *rates;
        serial_s(&plan.into(), Refinement::default())
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Product { dtype, m, n, k } => {
                write!(f, "{} product, m={m}, n={n}, k={k}", dtype.name())
            }
            Self::Attention(Attention { dtype, batch, queries, keys, .. }) => {
                write!(f, "{} attention of {batch} x {queries} to {keys}", dtype.name())
            }
            Self::Pass { bytes } => write!(f, "pass over {}", units::bytes(*bytes as f64)),
            Self::Collective { kind, bytes, devices, nodes } => {
                let name: &str = kind.into();
                write!(f, "{name} of {} over {devices}", units::bytes(*bytes as f64))?;
                if *nodes > 1 { write!(f, " in {nodes} nodes") } else { Ok(()) }
            }
        }
    }
}
