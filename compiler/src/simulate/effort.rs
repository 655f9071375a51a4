//! Estimates the work of a run before it starts: plans that do not fit into the memory of a desktop
//! computer are refused.
//!
//! The limits are counts of elements and not times or free memory, so that a plan is refused on all
//! machines or on none; they keep a run under 1 GB and, on a laptop, 10 s. Three are limited: the
//! elements held at once (on all devices, and of the unsharded program, of which nothing is freed),
//! the elements of the largest product on one device (it is materialized before it is summed), and
//! the total number of elements computed. Counting bytes of the host instead would be closer, and
//! differ between hosts.

use index_vec::IndexVec;
use shardwise_ir::Diag;
use shardwise_ir::codes;
use shardwise_ir::ids::{DimId, ValueId};
use shardwise_ir::plan::{Materialization, Plan, Step, StepKind};
use shardwise_ir::program::{Op, OpKind, Program};
use shardwise_ir::sharding::{AxisRef, Pin, Sharding};

use super::devices::Extent;
use super::run::freed_after;
use super::scale::{self, Scaled};

/// Elements held at once: 0.5 GB.
const MOST_HELD: f64 = 67_108_864.0;

/// Elements of one product before it is summed; three such arrays are alive at once: 0.5 GB.
const MOST_AT_ONCE: f64 = 20_971_520.0;

/// Elements computed by all statements on all devices: seconds.
const MOST_COMPUTED: f64 = 1_073_741_824.0;

/// The work of a run, in elements; floating, since programs may be too large for integers.
#[derive(Clone, Copy, Debug, Default)]
struct Effort {
    held: f64,
    at_once: f64,
    computed: f64,
}

impl Effort {
    /// Of two runs, one after the other.
    fn then(self, other: Self) -> Self {
        Self {
            held: self.held.max(other.held),
            at_once: self.at_once.max(other.at_once),
            computed: self.computed + other.computed,
        }
    }

    fn compute(&mut self, copies: f64, product: f64) {
        self.at_once = self.at_once.max(product);
        self.computed += copies * product;
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
        (effort.computed, MOST_COMPUTED, "elements computed in all"),
    ];
    let (count, most, what) = counts.into_iter().find(|(count, most, _)| count > most)?;
    let message =
        format!("running this takes {count:.1e} {what}, and `verify` runs {most:.1e} at most");
    let largest = program.ops.iter().max_by(|a, b| whole(program, a).total_cmp(&whole(program, b)));
    let span = largest.map(|op| program.values[op.result].span).unwrap_or_default();
    let diag = Diag::error(codes::budget::TOO_LARGE_TO_RUN, message, span, "the largest statement");
    Some(diag.help("give smaller sizes with `--dim D=64` and `--mesh X=2`, and leave out `--full`"))
}

fn unsharded(program: &Program, mut effort: Effort) -> Effort {
    let size = |value: ValueId| {
        program.values[value].dims.iter().map(|&dim| program.dims[dim].size as f64).product::<f64>()
    };
    for value in program.values.indices() {
        // The values themselves, and a copy in the order of the plan's dimensions.
        effort.held += 2.0 * size(value);
        effort.compute(1.0, size(value));
    }
    program.ops.iter().for_each(|op| effort.compute(1.0, whole(program, op)));
    effort
}

/// Elements that an unsharded operation iterates over.
fn whole(program: &Program, op: &Op) -> f64 {
    dims(program, op).into_iter().map(|dim| program.dims[dim].size as f64).product()
}

/// The dimensions that an operation iterates over: for a product also the summed ones, else those
/// of the result.
fn dims(program: &Program, op: &Op) -> Vec<DimId> {
    let mut dims = program.values[op.result].dims.clone();
    if let OpKind::Einsum { contracted } = &op.kind {
        dims.extend(contracted);
    }
    dims
}

fn sharded(plan: &Plan) -> Effort {
    let program = &plan.program;
    let extents = scale::extents(plan);
    let devices: f64 = program.mesh.axes.iter().map(|axis| axis.size as f64).product();
    let size = |of: &Materialization| devices * block(program, &extents, of.value, &of.sharding);
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
        effort.compute(devices, product(program, &extents, step).max(result / devices));
        held -= freed.into_iter().map(size).sum::<f64>();
    }
    Effort { held: effort.held.max(held), ..effort }
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
    dims(program, &program.ops[op]).into_iter().map(local).product()
}
