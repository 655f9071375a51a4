//! Smaller sizes at which the same plan can be run.
//!
//! The mesh stays as it is up to [`MOST_DEVICES`]; axes of larger ones whose sizes are powers of two shrink together (16x16x16 becomes 4x4x4),
//! which keeps every product of axes that equals another equal to it, as relabelling needs. A dimension becomes the smallest multiple of everything
//! that splits it that is larger than 1 and not another dimension's size, so that exchanged dimensions show; one that is padded stays one.
//! Of every block two layers are run, so that what is handed on is seen; or two microbatches, of which the batch is made.
//!
//! Dimensions that a rename makes one keep one size, a product that of its factors, and a factor that is split completely stays so, since that is what
//! makes reshapes local; parts lie in a dimension as they did, with something before and behind them where there is. Where this leads to sizes that
//! some split does not divide, the dimensions concerned keep their own.

use index_vec::IndexVec;
use shardwise_ir::ids::DimId;
use shardwise_ir::plan::Plan;
use shardwise_ir::program::{Cut, Program, Repeat};
use shardwise_ir::sharding::{AxisList, Pin};
use shardwise_ir::unroll;

use super::devices::Extent;

mod relations;

/// More multiples than dimensions to tell apart.
const MOST_DIMS: u64 = 4096;

/// Layers that are run of each block, if it has as many.
const FEWEST_LAYERS: u64 = 2;

/// Meshes up to this size are simulated as they are.
const MOST_DEVICES: u64 = 64;

/// Which sizes a plan is run at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sizes {
    /// The smallest that keep every split.
    #[default]
    Scaled,
    /// The program's own.
    Full,
}

/// A dimension that is cut into microbatches, what these have in its place, and how many of them are run.
pub(super) struct Batch {
    pub(super) whole: String,
    pub(super) part: String,
    pub(super) count: u64,
}

/// The batches of a plan, where at most so many microbatches are run.
fn batches(plan: &Plan, most: u64) -> Vec<Batch> {
    let name = |dim: DimId| plan.program.dims[dim].name.clone();
    let batch = |repeat: &Repeat| {
        let Cut { whole, part } = repeat.cut?;
        Some(Batch { whole: name(whole), part: name(part), count: repeat.count.min(most) })
    };
    plan.program.repeats.iter().filter_map(batch).collect()
}

/// Program and plan as they are run.
pub(super) struct Scaled {
    pub(super) program: Program,
    pub(super) plan: Plan,
    /// Whether their sizes differ from their own.
    pub(super) scaled: bool,
    /// What the plan cuts into microbatches.
    pub(super) batches: Vec<Batch>,
}

/// Program and plan at the sizes they are run at.
pub(super) fn scale(program: &Program, plan: &Plan, sizes: Sizes) -> Scaled {
    let most = if sizes == Sizes::Full { u64::MAX } else { FEWEST_LAYERS };
    let batches = batches(plan, most);
    let layers = |of: &Program| of.repeats.iter().map(|repeat| repeat.count.min(most)).collect::<Vec<_>>();
    let (of_program, of_plan) = (layers(program), layers(&plan.program));
    let mut scaled = plan.program.repeats.iter().any(|repeat| repeat.count > most);
    let mut program = unroll::program(program, &|block| of_program[block.index()]);
    let mut plan = unroll::plan(plan, &|block| of_plan[block.index()]).plan;
    if sizes == Sizes::Full {
        return Scaled { program, plan, scaled: false, batches };
    }
    let mesh = plan.program.mesh.clone();
    for (axis, size) in axis_sizes(&plan.program).into_iter().enumerate() {
        scaled |= plan.program.mesh.axes[axis].size != size;
        plan.program.mesh.axes[axis].size = size;
    }
    program.mesh = plan.program.mesh.clone();
    let chosen = relations::sizes(&program, &plan, &mesh, &batches);
    let before = plan.program.dims.clone();
    for dim in plan.program.dims.indices() {
        let name = plan.program.dims[dim].name.clone();
        let size = chosen[dim];
        scaled |= size != plan.program.dims[dim].size;
        plan.program.dims[dim].size = size;
        for other in program.dims.iter_mut().filter(|other| other.name == name) {
            other.size = size;
        }
    }
    relations::move_windows(&mut program, &before);
    relations::move_windows(&mut plan.program, &before);
    for dim in program.dims.iter_mut().filter(|dim| plan.program.dims.iter().all(|other| other.name != dim.name)) {
        dim.size = dim.size.min(2);
    }
    Scaled { program, plan, scaled, batches }
}

/// The smallest size from `least` on that behaves as `size` under splits that `unit` is a multiple of: divided by all of them, or by some not.
fn smallest(size: u64, unit: u64, taken: &[u64], least: u64) -> u64 {
    let free = |size: &u64| *size > 1 && *size >= least && !taken.contains(size);
    if size == 1 {
        1
    } else if size.is_multiple_of(unit) {
        (1..=MOST_DIMS).map(|k| k * unit).find(free).unwrap_or(size)
    } else {
        (unit + 1..unit + MOST_DIMS).filter(|size| !size.is_multiple_of(unit)).find(free).unwrap_or(unit + 1)
    }
}

/// How long the plan's dimensions are, and the grids that their blocks are cut from.
pub(super) fn extents(plan: &Plan) -> IndexVec<DimId, Extent> {
    // What a rename makes one is cut alike.
    let class = relations::renamed(plan);
    let members = |dim: DimId| class.indices().filter(|&other| class[other] == class[dim]).collect::<Vec<_>>();
    let extent = |dim: DimId| {
        let unit = members(dim).into_iter().map(|member| unit(plan, member)).fold(1, lcm);
        let size = plan.program.dims[dim].size;
        Extent { size: size as usize, grid: size.next_multiple_of(unit) as usize }
    };
    plan.program.dims.indices().map(extent).collect()
}

/// `X=4 Y=2; B=8 D=2`.
pub(super) fn describe(program: &Program) -> String {
    let axes: Vec<String> = program.mesh.axes.iter().map(|axis| format!("{}={}", axis.name, axis.size)).collect();
    let dims: Vec<String> = program.dims.iter().map(|dim| format!("{}={}", dim.name, dim.size)).collect();
    format!("{}; {}", axes.join(" "), dims.join(" "))
}

fn axis_sizes(program: &Program) -> Vec<u64> {
    let sizes: Vec<u64> = program.mesh.axes.iter().map(|axis| axis.size).collect();
    let devices = sizes.iter().fold(1_u64, |n, &size| n.saturating_mul(size));
    let logs: Vec<u64> = sizes.iter().map(|size| u64::from(size.trailing_zeros())).collect();
    let common = logs.iter().fold(0, |a, &b| gcd(a, b));
    let powers = sizes.iter().all(|size| size.is_power_of_two());
    if devices <= MOST_DEVICES || !powers || common < 2 {
        return sizes;
    }
    let bits: u64 = logs.iter().sum();
    let fits = |&shrink: &u64| common % shrink == 0 && bits / shrink <= u64::from(MOST_DEVICES.ilog2());
    let shrink = (2..=common).find(fits).unwrap_or(common);
    logs.iter().map(|log| 1 << (log / shrink)).collect()
}

/// What every split of a dimension divides.
fn unit(plan: &Plan, dim: DimId) -> u64 {
    splits(plan, dim).iter().map(|axes| parts(&plan.program, axes)).fold(1, lcm)
}

/// Every axis list that stands on a dimension somewhere in the plan.
fn splits(plan: &Plan, dim: DimId) -> Vec<AxisList> {
    let declared = plan.program.values.iter_enumerated().filter_map(|(id, value)| Some((id, value.home.as_ref().and_then(Pin::exact)?)));
    let steps = plan.steps.iter().flat_map(|step| step.operands.iter().chain([&step.result])).map(|m| (m.value, m.sharding.clone()));
    let mut lists: Vec<AxisList> = Vec::new();
    for (value, sharding) in declared.chain(steps) {
        let dims = &plan.program.values[value].dims;
        lists.extend(dims.iter().zip(sharding.dims).filter(|(d, _)| **d == dim).map(|(_, axes)| axes));
    }
    lists
}

fn parts(program: &Program, axes: &AxisList) -> u64 {
    axes.iter().map(|axis| axis.size(&program.mesh)).product()
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn lcm(a: u64, b: u64) -> u64 {
    a / gcd(a, b) * b
}
