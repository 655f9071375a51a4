//! How each array lies on the mesh: declared arrays and results that leave the program, and both
//! sides of every collective, drawn as blocks. The block of the first device stands out.

use std::fmt::Write as _;

use askama::Template;
use rustc_hash::FxHashSet;
use shardwise_ir::plan::{Materialization, StepKind};
use shardwise_ir::print;
use shardwise_ir::sharding::Pin;
use shardwise_passes::local_shape;

use crate::Planned;
use crate::display::units;
use crate::planned::blocks::{Blocks, blocks};
use crate::use_def::moves_data;

/// The size of a picture.
const SIDE: (f64, f64) = (120.0, 72.0);
/// An array with more blocks along a side is drawn with so many.
const MOST_BLOCKS: u64 = 32;
/// The most arrays and the most collectives that are drawn.
const MOST: usize = 60;

/// A picture of an array.
struct Picture {
    name: String,
    text: String,
    down: String,
    across: String,
    share: String,
    bytes: String,
    /// The size of the first device's block.
    own: (f64, f64),
    cuts: String,
    is_partial: bool,
}

/// What a collective makes of an array.
struct Change {
    name: &'static str,
    axes: String,
    before: Picture,
    after: Picture,
}

/// The arrays of a plan.
#[derive(Template)]
#[template(path = "arrays.html")]
pub(super) struct Arrays {
    declared: Vec<Picture>,
    changes: Vec<Change>,
    /// How many of either are not drawn.
    left_out: usize,
}

/// The arrays of a plan.
pub(super) fn arrays(planned: &Planned) -> Arrays {
    let program = &planned.plan.program;
    let declared = program.values.iter_enumerated().filter(|(_, value)| value.is_declared());
    let declared = declared.filter_map(|(value, of)| {
        let sharding = of.declared_sharding.as_ref().and_then(Pin::exact)?;
        Some(Materialization { value, sharding })
    });
    let declared: Vec<Materialization> = declared.chain(print::outputs(&planned.plan)).collect();
    let mut seen = FxHashSet::default();
    let steps = planned.plan.steps.iter().zip(&planned.report.steps);
    let changes: Vec<_> = steps
        .filter_map(|(step, cost)| match &step.kind {
            StepKind::Collective(collective, _) if moves_data(step, cost) => {
                Some((step, collective))
            }
            _ => None,
        })
        .filter(|(step, _)| seen.insert(print::step(program, step)))
        .collect();
    let left_out = declared.len().saturating_sub(MOST) + changes.len().saturating_sub(MOST);
    Arrays {
        declared: declared.iter().take(MOST).map(|of| picture(planned, of)).collect(),
        changes: changes
            .into_iter()
            .take(MOST)
            .map(|(step, collective)| Change {
                name: collective.kind.name(),
                axes: print::axis_word(&program.mesh, &collective.axes),
                before: picture(planned, &step.operands[0]),
                after: picture(planned, &step.result),
            })
            .collect(),
        left_out,
    }
}

fn picture(planned: &Planned, of: &Materialization) -> Picture {
    let program = &planned.plan.program;
    let Blocks { down, across, is_partial, share } = blocks(planned, of);
    let (rows, columns) = (down.blocks.min(MOST_BLOCKS), across.blocks.min(MOST_BLOCKS));
    let at = |length: f64, at: u64, blocks: u64| {
        (10.0 * length * at as f64 / blocks as f64).round() / 10.0
    };
    let mut cuts = String::new();
    for row in 1..rows {
        let _ = write!(cuts, "M0 {}h{}", at(SIDE.1, row, rows), SIDE.0);
    }
    for column in 1..columns {
        let _ = write!(cuts, "M{} 0v{}", at(SIDE.0, column, columns), SIDE.1);
    }
    Picture {
        name: program.values[of.value].name.clone(),
        text: print::materialization(program, of),
        down: down.label,
        across: across.label,
        share,
        bytes: units::bytes(local_shape::local_bytes(program, of.value, &of.sharding)),
        own: (at(SIDE.0, 1, columns), at(SIDE.1, 1, rows)),
        cuts,
        is_partial,
    }
}
