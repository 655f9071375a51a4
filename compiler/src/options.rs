//! The options of the library.

pub mod sizes;

use std::time::{Duration, Instant};

pub use shardwise_ir::collectives::Collectives;
use shardwise_ir::hardware::Hardware;
use shardwise_ir::mesh::Mesh;
pub use shardwise_ir::products::Products;
pub use shardwise_ir::program::Fusion;
use shardwise_ir::program::Program;

use crate::source::files::Files;

pub use shardwise_ir::rates::Rates;
pub use shardwise_ir::resolve::{AxisSize, DimSize};
pub use shardwise_passes::Effort;
pub use shardwise_passes::Objective;
pub use shardwise_passes::collective::Refinement;
pub use shardwise_passes::pipeline::Strategy;
use shardwise_passes::regroup::Regrouping;
pub use shardwise_passes::solver::Cancellation;
use shardwise_passes::solver::Interrupt;
pub use shardwise_passes::solver::{Listener, Progress};

/// Which mesh axes are used in parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AxisParts {
    /// Those of which a dimension of the program can use a part only, where that is cheaper.
    #[default]
    CalledFor,
    /// Those that the program writes.
    AsWritten,
    /// These too, by name, with the sizes of their parts, major to minor.
    These(Vec<(String, Vec<u64>)>),
}

/// How sums and products are grouped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Grouping {
    /// As is cheapest.
    #[default]
    Cheapest,
    /// As the program writes them.
    AsWritten,
    /// As the program writes them, but for these.
    These(Vec<Regrouping>),
}

impl Grouping {
    /// Those that are known to differ from the program's.
    pub(crate) fn known(&self) -> &[Regrouping] {
        match self {
            Self::Cheapest | Self::AsWritten => &[],
            Self::These(regroupings) => regroupings,
        }
    }
}

impl AxisParts {
    /// Those of a mesh.
    pub(crate) fn of(mesh: &Mesh) -> Self {
        let in_parts = mesh.declared().filter(|(_, parts)| !parts.is_empty());
        Self::These(in_parts.map(|(axis, parts)| (axis.name.clone(), parts)).collect())
    }

    /// The axes that are known to be in parts.
    pub(crate) fn known(self) -> Vec<(String, Vec<u64>)> {
        match self {
            Self::CalledFor | Self::AsWritten => Vec::new(),
            Self::These(parts) => parts,
        }
    }
}

/// All options; `Options::default()` are those of the command without flags.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Search or textbook.
    pub strategy: Strategy,
    /// The objective of the search.
    pub objective: Objective,
    /// The precision of the prices of collectives.
    pub refinement: Refinement,
    /// The memory capacity of a device in bytes, instead of the chip's HBM; infinity for no limit.
    pub memory: Option<f64>,
    /// The time limit of the search; without one, it runs until the proof or its limits of work.
    pub timeout: Option<Duration>,
    /// How much work the search does before it ends without a proof.
    pub effort: Effort,
    /// When the search ends at the latest, if that is before the time limit.
    pub deadline: Option<Instant>,
    /// Ends the search when it is set, with the best plan so far.
    pub enough: Cancellation,
    /// Ends the work on the program when it is set: then there is no plan, and findings may be
    /// missing.
    pub cancellation: Cancellation,
    /// Hears how far the search is.
    pub listener: Listener,
    /// Hardware instead of the program's.
    pub hardware: Option<String>,
    /// The rates that times are computed at, instead of the program's: without either, peak rates.
    pub rates: Option<Rates>,
    /// The price of a chip-hour, instead of the hardware's, for the price of a token.
    pub price: Option<f64>,
    /// Which operations run as one kernel.
    pub fusion: Option<Fusion>,
    /// Whether products run beside the collectives next to them.
    pub collectives: Option<Collectives>,
    /// The dtype of products with weights of layers.
    pub products: Option<Products>,
    /// Hardware that programs may name beside the presets, such as [`crate::hardware::parse`]
    /// reads.
    pub known: Vec<Hardware>,
    /// How the hardware files that programs name are read.
    pub files: Files,
    /// Sizes of axes instead of the program's, by name.
    pub mesh: Vec<AxisSize>,
    /// Which axes are used in parts, where the program has them whole.
    pub parts: AxisParts,
    /// How sums and products are grouped.
    pub grouping: Grouping,
    /// Sizes of dimensions instead of the program's, by name.
    pub dims: Vec<DimSize>,
    /// Treat the program as explicit, as if it began with `plan`.
    pub explicit: bool,
}

impl Options {
    /// What ends a search that begins now.
    pub(crate) fn interrupt(&self) -> Interrupt {
        let Self { deadline, enough, cancellation, listener, .. } = self.started();
        Interrupt { deadline, enough, cancellation, listener, ..Interrupt::NEVER }
    }

    /// The same for work that begins now: its searches together have the time limit.
    #[must_use]
    pub(crate) fn started(&self) -> Self {
        let limit = self.timeout.map(|timeout| Instant::now() + timeout);
        let deadline = self.deadline.into_iter().chain(limit).min();
        Self { deadline, timeout: None, ..self.clone() }
    }

    /// The same with a share of the time that is left.
    #[must_use]
    pub(crate) fn part(&self, share: f64) -> Self {
        let now = Instant::now();
        let started = self.started();
        let left = started.deadline.map(|deadline| deadline.saturating_duration_since(now));
        Self { deadline: left.map(|left| now + left.mul_f64(share)), ..started }
    }

    /// Whether both leave the program in the same form: the same axes in parts, the same grouping.
    pub(crate) fn has_same_form(&self, other: &Self) -> bool {
        self.parts == other.parts && self.grouping == other.grouping
    }

    /// Whether the time of the work is over.
    pub(crate) fn is_due(&self) -> bool {
        self.interrupt().is_due()
    }

    /// The memory capacity of a device for `program`; `None` for no limit.
    pub(crate) fn capacity(&self, program: &Program) -> Option<f64> {
        self.memory.or(program.hardware.usable_bytes()).filter(|bytes| bytes.is_finite())
    }
}
