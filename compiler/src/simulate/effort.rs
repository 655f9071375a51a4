//! Estimates the work of a run before it starts: plans that do not fit into the memory of a desktop
//! computer are refused.
//!
//! The limits are counts and not times or free memory, so that a plan is refused on all machines or
//! on none; they keep a run under 1 GB and, on a laptop, 10 s. Four are limited: the statements
//! that blocks are written out to, the elements held at once (on all devices, and of the unsharded
//! program, of which nothing is freed), the elements of the largest product on one device (it is
//! materialized before it is summed), and the work: elements, each as often as its operation takes
//! longer than a nanosecond, with what every block and every piece that is sent takes beside them.
//! Counting bytes and times of the host instead would be closer, and differ between hosts.

use index_vec::IndexVec;
use shardwise_ir::Diag;
use shardwise_ir::codes;
use shardwise_ir::ids::{DimId, RepeatId, ValueId};
use shardwise_ir::plan::{Materialization, Plan, Step, StepKind};
use shardwise_ir::program::{MapForm, Op, OpKind, Program};
use shardwise_ir::rearrange::{Rearrange, atoms};
use shardwise_ir::sharding::{AxisRef, Pin, Sharding};

use super::devices::Extent;
use super::run::{exchanged, freed_after};
use super::scale::{self, Scaled};
use crate::display::and_list;

/// Elements held at once: 0.5 GB.
const MOST_HELD: f64 = 67_108_864.0;

/// Elements of one product before it is summed; three such arrays are alive at once: 0.5 GB.
const MOST_AT_ONCE: f64 = 20_971_520.0;

/// Work of all statements on all devices: seconds.
const MOST_WORK: f64 = 8e9;

/// Statements of all layers, steps and microbatches, each about two thousand bytes.
pub(super) const MOST_STATEMENTS: f64 = 131_072.0;

/// The memory of a block beside its elements, in elements.
const BLOCK: f64 = 32.0;

/// The work of a statement on a device beside that for its elements.
const STATEMENT: f64 = 4500.0;

/// The work of a piece that one device takes from another beside that for its elements.
const PIECE: f64 = 400.0;

/// The work of comparing an element with the unsharded value, or of copying it there.
const COMPARED: f64 = 10.0;

/// The work of an element of an operation, as measured; of up to ten dimensions, whose indices are
/// longer than those of few.
fn work_of_element(program: &Program, op: &Op) -> f64 {
    let log = |dim: DimId| (program.dims[dim].size.max(2) as f64).log2();
    match &op.kind {
        OpKind::Einsum { .. } => 10.0,
        OpKind::Map(function) => match function.form {
            MapForm::Position(_) | MapForm::Causal { .. } => 90.0,
            _ => 45.0,
        },
        OpKind::Composite { .. } | OpKind::Opaque(_) => 200.0,
        OpKind::Gather { .. }
        | OpKind::ScatterAdd { .. }
        | OpKind::Update { .. }
        | OpKind::Rearrange(Rearrange::Windows(_) | Rearrange::Overlap(_)) => 500.0,
        OpKind::Reduce { .. } | OpKind::Rearrange(_) | OpKind::Collective(_) => 20.0,
        OpKind::Along(along) => 60.0 * log(along.from),
        OpKind::Route(route) => 400.0 * log(route.experts),
    }
}

/// What a run takes; floating, since programs may be too large for integers.
#[derive(Clone, Copy, Debug, Default)]
struct Effort {
    held: f64,
    at_once: f64,
    work: f64,
}

impl Effort {
    /// Of two runs, one after the other.
    fn then(self, other: Self) -> Self {
        Self {
            held: self.held.max(other.held),
            at_once: self.at_once.max(other.at_once),
            work: self.work + other.work,
        }
    }

    /// So many elements at once, on each of `copies` devices.
    fn compute(&mut self, copies: f64, elements: f64, work_of_element: f64) {
        self.at_once = self.at_once.max(elements);
        self.work += copies * elements * work_of_element;
    }
}

/// Why runs, one after the other, are too large at their sizes, as an error about the program;
/// `None` if they are not.
pub(super) fn too_large(runs: &[&Scaled]) -> Option<Diag> {
    let program = &runs.first()?.program;
    let efforts = runs.iter().map(|run| unsharded(&run.program, sharded(&run.plan)));
    let effort = efforts.fold(Effort::default(), Effort::then);
    let counts = [
        (effort.held, MOST_HELD, "elements at once"),
        (effort.at_once, MOST_AT_ONCE, "multiply-adds in the largest product of one device"),
        (effort.work, MOST_WORK, "operations in all"),
    ];
    let excess = counts.into_iter().find(|(count, most, _)| count > most)?;
    Some(refused(program, excess))
}

/// Why a plan is not written out: it has too many statements at its own numbers of layers, steps
/// and microbatches.
pub(super) fn too_long(program: &Program, plan: &Plan) -> Diag {
    let count = statements(plan, &|block| plan.program.repeats[block].count);
    refused(program, (count, MOST_STATEMENTS, "statements"))
}

/// The statements that a plan is written out to with so many layers, steps or microbatches of each
/// block.
pub(super) fn statements(plan: &Plan, counts: &dyn Fn(RepeatId) -> u64) -> f64 {
    let repeats = &plan.program.repeats;
    let mut turns: IndexVec<RepeatId, f64> = index_vec::index_vec![1.0; repeats.len()];
    for block in repeats.indices() {
        let around = std::iter::successors(Some(block), |&block| repeats[block].within);
        turns[block] = around.map(|block| counts(block) as f64).product();
    }
    plan.steps.iter().map(|step| step.repeat.map_or(1.0, |block| turns[block])).sum()
}

fn refused(program: &Program, (count, most, what): (f64, f64, &str)) -> Diag {
    let message =
        format!("running this takes {count:.1e} {what}, and `verify` runs {most:.1e} at most");
    let largest = program.ops.iter().max_by(|a, b| whole(program, a).total_cmp(&whole(program, b)));
    let span = largest.map(|op| program.values[op.result].span).unwrap_or_default();
    let diag = Diag::error(codes::budget::TOO_LARGE_TO_RUN, message, span, "the largest statement");
    let sizes = largest.map(|op| largest_sizes(program, op)).unwrap_or_default();
    diag.help(format!(
        "it is run with {sizes}: give smaller sizes with `--dim`, and fewer devices with \
            `--mesh X=2`"
    ))
}

/// The sizes that a message names.
const NAMED_SIZES: usize = 3;

/// `B=64, D=32`: the largest sizes that an operation iterates over.
fn largest_sizes(program: &Program, op: &Op) -> String {
    let read = op.operands.iter().flat_map(|of| program.values[of.value].dims.iter().copied());
    let all = dims(program, op).into_iter().chain(read);
    let atoms = all.flat_map(|dim| atoms(&program.dims, dim));
    let mut sizes: Vec<(u64, &str)> =
        atoms.map(|dim| (program.dims[dim].size, program.dims[dim].name.as_str())).collect();
    sizes.sort_by(|a, b| b.cmp(a));
    sizes.dedup();
    let named = sizes.into_iter().take(NAMED_SIZES);
    and_list(&named.map(|(size, name)| format!("`{name}={size}`")).collect::<Vec<_>>())
}

fn unsharded(program: &Program, mut effort: Effort) -> Effort {
    for value in program.values.indices() {
        // The values themselves, and a copy in the order of the plan's dimensions.
        let size = size(program, value);
        effort.held += 2.0 * size + BLOCK;
        effort.compute(1.0, size, COMPARED);
    }
    for op in &program.ops {
        effort.compute(1.0, whole(program, op), work_of_element(program, op));
        effort.work += STATEMENT;
    }
    effort
}

/// Elements of an unsharded value.
fn size(program: &Program, value: ValueId) -> f64 {
    program.values[value].dims.iter().map(|&dim| program.dims[dim].size as f64).product()
}

/// Elements that an unsharded operation iterates over.
fn whole(program: &Program, op: &Op) -> f64 {
    let product: f64 =
        dims(program, op).into_iter().map(|dim| program.dims[dim].size as f64).product();
    op.operands.iter().map(|operand| size(program, operand.value)).fold(product, f64::max)
}

/// The dimensions that an operation iterates over: for a product also the summed ones, for rows
/// that are added to a table those of rows and indices, else those of the result.
fn dims(program: &Program, op: &Op) -> Vec<DimId> {
    let mut dims = program.values[op.result].dims.clone();
    match &op.kind {
        OpKind::Einsum { contracted } => dims.extend(contracted),
        OpKind::ScatterAdd { dim } => {
            dims.retain(|other| other != dim);
            let read = op.operands.iter().flat_map(|of| &program.values[of.value].dims);
            let more: Vec<DimId> = read.copied().filter(|dim| !dims.contains(dim)).collect();
            dims.extend(more);
            dims.sort_unstable();
            dims.dedup();
        }
        _ => {}
    }
    dims
}

fn sharded(plan: &Plan) -> Effort {
    let program = &plan.program;
    let extents = scale::extents(plan);
    let devices: f64 = program.mesh.axes.iter().map(|axis| axis.size as f64).product();
    let size =
        |of: &Materialization| devices * (block(program, &extents, of.value, &of.sharding) + BLOCK);
    let mut effort = Effort::default();
    let mut held = 0.0;
    for (value, declared) in
        program.values.iter_enumerated().filter(|(_, value)| value.is_declared())
    {
        if let Some(sharding) = declared.declared_sharding.as_ref().and_then(Pin::exact) {
            held += size(&Materialization { value, sharding });
        }
    }
    for (step, freed) in plan.steps.iter().zip(freed_after(plan)) {
        let result = size(&step.result);
        held += result;
        // Results are compared with blocks of the unsharded value, once pending parts are reduced.
        effort.held = effort.held.max(held + 2.0 * result);
        effort.compute(devices, result / devices, 2.0 * COMPARED);
        effort.work += devices * STATEMENT;
        let taken = pieces(plan, step);
        effort.work += devices * taken * PIECE;
        if let StepKind::Local(op) = step.kind {
            // Where blocks come from neighbours, a device computes the whole of the dimension.
            let elements = product(program, &extents, step) * taken.max(1.0);
            effort.compute(devices, elements, work_of_element(program, &program.ops[op]));
        }
        held -= freed.into_iter().map(size).sum::<f64>();
    }
    Effort { held: effort.held.max(held), ..effort }
}

/// From how many devices a device takes pieces in a step.
fn pieces(plan: &Plan, step: &Step) -> f64 {
    let program = &plan.program;
    let count = |axes: &[AxisRef]| -> f64 {
        axes.iter().map(|axis| axis.size(&program.mesh) as f64).product()
    };
    let Some(from) = step.operands.first() else { return 0.0 };
    match &step.kind {
        StepKind::Collective(..) => {
            let pairs = from.sharding.dims.iter().zip(&step.result.sharding.dims);
            let differing = pairs.filter(|(a, b)| a != b);
            let mut axes: Vec<AxisRef> = Vec::new();
            for axis in differing.flat_map(|(a, b)| a.iter().chain(b)) {
                if !axes.contains(axis) {
                    axes.push(*axis);
                }
            }
            count(&axes)
        }
        StepKind::Local(op) => exchanged(&program.ops[*op].kind).map_or(0.0, |(dim, _)| {
            let dims = &program.values[from.value].dims;
            let place = dims.iter().position(|&other| other == dim);
            let axes = place.map(|place| &from.sharding.dims[place]);
            axes.filter(|axes| !axes.is_empty()).map_or(0.0, |axes| count(axes))
        }),
    }
}

/// Elements of one device's block of a value.
fn block(
    program: &Program,
    extents: &IndexVec<DimId, Extent>,
    value: ValueId,
    sharding: &Sharding,
) -> f64 {
    let dims = program.values[value].dims.iter().zip(&sharding.dims);
    dims.map(|(&dim, axes)| length(program, extents[dim], axes)).product()
}

fn length(program: &Program, extent: Extent, axes: &[AxisRef]) -> f64 {
    let parts: u64 = axes.iter().map(|axis| axis.size(&program.mesh)).product();
    (extent.grid as f64 / parts as f64).ceil().min(extent.size as f64)
}

/// Elements that one device iterates over in a step.
fn product(program: &Program, extents: &IndexVec<DimId, Extent>, step: &Step) -> f64 {
    let StepKind::Local(op) = step.kind else { return 0.0 };
    let local = |dim: DimId| {
        let all = step.operands.iter().chain([&step.result]);
        let mut found = all.filter_map(|of| {
            let place = program.values[of.value].dims.iter().position(|&other| other == dim)?;
            Some(length(program, extents[dim], &of.sharding.dims[place]))
        });
        found.next().unwrap_or(extents[dim].size as f64)
    };
    let product: f64 = dims(program, &program.ops[op]).into_iter().map(local).product();
    let blocks = step.operands.iter().map(|of| block(program, extents, of.value, &of.sharding));
    blocks.fold(product, f64::max)
}
