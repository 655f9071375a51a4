//! What a caller may ask for.

pub mod sizes;

use std::time::Duration;

use shardwise_ir::hardware::Hardware;
use shardwise_ir::program::Program;

use crate::source::files::Files;

pub use shardwise_ir::resolve::{AxisSize, DimSize};
pub use shardwise_passes::Objective;
pub use shardwise_passes::collective::Refinement;
pub use shardwise_passes::pipeline::Strategy;

/// Everything a caller may set; `Options::default()` is what the command does without options.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Search or textbook.
    pub strategy: Strategy,
    /// What the search makes small.
    pub objective: Objective,
    /// How closely collectives are priced.
    pub refinement: Refinement,
    /// Bytes a device may hold, instead of the chip's HBM; infinity for no limit.
    pub memory: Option<f64>,
    /// How long the search may take; without it, until the proof.
    pub timeout: Option<Duration>,
    /// Hardware instead of the program's.
    pub hardware: Option<String>,
    /// Hardware that programs may name beside the presets, such as [`crate::hardware::parse`]
    /// reads.
    pub known: Vec<Hardware>,
    /// How hardware files are read that programs name.
    pub files: Files,
    /// Sizes of axes instead of the program's, by name.
    pub mesh: Vec<AxisSize>,
    /// Sizes of dimensions instead of the program's, by name.
    pub dims: Vec<DimSize>,
    /// Treat the program as explicit, as if it began with `plan`.
    pub explicit: bool,
}

impl Options {
    /// Bytes that a device may hold with a plan of `program`; `None` for no limit.
    pub(crate) fn capacity(&self, program: &Program) -> Option<f64> {
        self.memory.or(program.hardware.hbm_bytes).filter(|bytes| bytes.is_finite())
    }
}
