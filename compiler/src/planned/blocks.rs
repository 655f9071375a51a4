//! An array as it lies on the devices: cut into blocks along two sides, whatever the number of its
//! dimensions. Those up to the first that is split go down, the others go across.

use std::ops::Range;

use shardwise_ir::plan::Materialization;
use shardwise_ir::print::Printer;
use shardwise_ir::sharding::{AxisRef, Sharding};

use crate::Planned;

/// How a side of an array is labelled, and into how many blocks it is cut.
pub(crate) struct Side {
    pub(crate) label: String,
    pub(crate) blocks: u64,
}

/// The blocks of an array.
pub(crate) struct Blocks {
    pub(crate) down: Side,
    pub(crate) across: Side,
    /// Whether the blocks are partial sums.
    pub(crate) is_partial: bool,
    /// How many blocks there are, and how many devices have each of them.
    pub(crate) share: String,
}

/// The blocks of an array in a sharding.
pub(crate) fn blocks(planned: &Planned, of: &Materialization) -> Blocks {
    let program = &planned.plan.program;
    let dims = &program.values[of.value].dims;
    let axes = &of.sharding.dims;
    let first_split = axes.iter().position(|axes| !axes.is_empty()).unwrap_or(0);
    let down = (first_split + 1).min(dims.len().saturating_sub(1));
    let side = |range: Range<usize>| {
        let names = range.clone().map(|at| {
            let name = &program.dims[dims[at]].name;
            if axes[at].is_empty() {
                return name.clone();
            }
            format!("{name}_{}", Printer::new(program).subscript(&axes[at]))
        });
        Side {
            label: names.collect::<Vec<_>>().join(" "),
            blocks: range.map(|at| count(planned, &axes[at])).product(),
        }
    };
    Blocks {
        down: side(0..down),
        across: side(down..dims.len()),
        is_partial: !of.sharding.unreduced.is_empty(),
        share: share(planned, &of.sharding),
    }
}

fn count(planned: &Planned, axes: &[AxisRef]) -> u64 {
    axes.iter().map(|axis| axis.size(&planned.plan.program.mesh)).product()
}

fn share(planned: &Planned, sharding: &Sharding) -> String {
    let blocks: u64 = sharding.dims.iter().map(|axes| count(planned, axes)).product();
    let sums = count(planned, sharding.unreduced.axes());
    let copies = planned.plan.program.mesh.devices() / (blocks * sums).max(1);
    let blocks = if blocks == 1 { "whole".to_owned() } else { format!("{blocks} blocks") };
    match (sums, copies) {
        (1, 1) => blocks,
        (1, copies) => format!("{blocks}, {copies} copies"),
        (sums, 1) => format!("{blocks}, {sums} parts"),
        (sums, copies) => format!("{blocks}, {sums} parts, {copies} copies"),
    }
}
