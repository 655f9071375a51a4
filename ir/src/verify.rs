//! The one verifier: what is a legal sharding, collective, local operation, plan.
//!
//! * An axis appears once in a sharding, unreduced set included; its sizes divide, unless the
//!   dimension is padded.
//! * A collective produces its result from its operand by exactly one collective of the language,
//!   and its text names that step.
//! * A local operation has every index sharded alike in all operands that have it, and no axis on
//!   two indices.
//! * Its result has the projected sharding: kept indices keep their axes, summed ones leave the
//!   result unreduced.
//! * Partial sums pass through linear operations only, and in one operand of a product only;
//!   partial maxima and minima through monotone functions.
//! * A reshape leaves every device one block; a dimension that is sliced, concatenated or
//!   normalised is unsharded.
//! * A plan reads only what is declared or produced earlier, each step implements its statement,
//!   values reach their declared shardings, and outputs have the declared shardings.
//!
//! The verifier shares no code with the passes, whose results it checks.

mod local;
mod plan;
mod scale;
mod wording;

pub use local::{LocalFault, PartialFault, local_result};
pub use plan::{explicit, pinned_fault, plan, written};

pub use crate::collective::{CollectiveFault, classify, collective};
use crate::ids::ValueId;
use crate::program::Program;
use crate::sharding::{AxisRef, Sharding};

/// Why a sharding is illegal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardingFault {
    /// It has another number of dimensions than the value.
    Rank,
    /// An axis appears twice.
    AxisTwice(AxisRef),
    /// The axes at this position do not divide the size of its dimension.
    NotDivisible(usize),
}

/// Checks a sharding of `value`.
pub fn sharding(
    program: &Program,
    value: ValueId,
    sharding: &Sharding,
) -> Result<(), ShardingFault> {
    let dims = &program.values[value].dims;
    if dims.len() != sharding.dims.len() {
        return Err(ShardingFault::Rank);
    }
    let mut seen = 0_u64;
    for axis in sharding.axes() {
        let bit = 1 << (axis.axis().index() % 64);
        if seen & bit != 0 {
            return Err(ShardingFault::AxisTwice(axis));
        }
        seen |= bit;
    }
    for (position, (&dim, axes)) in dims.iter().zip(&sharding.dims).enumerate() {
        let (pad, size) =
            (program.dims[dim].pad, program.size_in(program.values[value].repeat, dim));
        let parts = axes.iter().fold(1_u64, |n, axis| n.saturating_mul(axis.size(&program.mesh)));
        if !pad && !size.is_multiple_of(parts) {
            return Err(ShardingFault::NotDivisible(position));
        }
    }
    Ok(())
}
