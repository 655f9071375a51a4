//! The options of the library.

pub mod sizes;

use std::time::{Duration, Instant};

use shardwise_ir::hardware::Hardware;
use shardwise_ir::mesh::Mesh;
pub use shardwise_ir::program::Fusion;
use shardwise_ir::program::Program;

use crate::source::files::Files;

pub use shardwise_ir::rates::Rates;
pub use shardwise_ir::resolve::{AxisSize, DimSize};
pub use shardwise_passes::Effort;
pub use shardwise_passes::Objective;
pub use shardwise_passes::collective::Refinement;
pub use shardwise_passes::pipeline::Strategy;
pub use shardwise_passes::solver::Cancellation;
use shardwise_passes::solver::Interrupt;

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
    /// How much work the search does under a memory limit.
    pub effort: Effort,
    /// Ends the work on the program when it is set: then there is no plan, and findings may be
    /// missing.
    pub cancellation: Cancellation,
    /// Hardware instead of the program's.
    pub hardware: Option<String>,
    /// The rates that times are computed at, instead of the program's: without either, peak rates.
    pub rates: Option<Rates>,
    /// The price of a chip-hour, instead of the hardware's, for the price of a token.
    pub price: Option<f64>,
    /// Which operations run as one kernel.
    pub fusion: Option<Fusion>,
    /// Hardware that programs may name beside the presets, such as [`crate::hardware::parse`]
    /// reads.
    pub known: Vec<Hardware>,
    /// How the hardware files that programs name are read.
    pub files: Files,
    /// Sizes of axes instead of the program's, by name.
    pub mesh: Vec<AxisSize>,
    /// Which axes are used in parts, where the program has them whole.
    pub parts: AxisParts,
    /// Sizes of dimensions instead of the program's, by name.
    pub dims: Vec<DimSize>,
    /// Treat the program as explicit, as if it began with `plan`.
    pub explicit: bool,
}

impl Options {
    /// What ends a search that begins now.
    pub(crate) fn interrupt(&self) -> Interrupt {
        let deadline = self.timeout.map(|timeout| Instant::now() + timeout);
        Interrupt { deadline, cancellation: self.cancellation.clone() }
    }

    /// The memory capacity of a device for `program`; `None` for no limit.
    pub(crate) fn capacity(&self, program: &Program) -> Option<f64> {
        self.memory.or(program.hardware.room_bytes()).filter(|bytes| bytes.is_finite())
    }
}
