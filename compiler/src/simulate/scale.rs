//! Finds smaller sizes at which the same plan can be run.
//!
//! Large meshes shrink (`mesh`). A dimension becomes the smallest multiple of everything that
//! splits it that is larger than 1 and not another dimension's size, so that swapped dimensions are
//! detected; one that is padded stays padded. Two layers of every block are run, so that yielded
//! values are checked, or two microbatches; for a pipeline two layers in each chunk of each stage.
//!
//! Renamed dimensions keep equal sizes, a product the size of its factors, and a factor that is
//! split completely stays so, since that makes reshapes local; slices keep their order in a
//! dimension, with elements before and after them as in the original. Where that leads to sizes
//! that some split does not divide, the dimensions concerned keep their own.

use index_vec::IndexVec;
use shardwise_ir::ids::{DimId, RepeatId, ValueId};
use shardwise_ir::mesh::Mesh;
use shardwise_ir::pipeline::Pipeline;
use shardwise_ir::plan::Plan;
use shardwise_ir::program::{BatchSplit, Program, Repeat};
use shardwise_ir::sharding::{AxisList, Pin};
use shardwise_ir::stages::Stages;
use shardwise_ir::unroll::{self, Stage};

use super::devices::Extent;

mod mesh;
mod relations;

/// The limit of multiples that are tried: more than there are dimensions.
const MOST_DIMS: u64 = 4096;

/// The number of layers of each block that are run.
const FEWEST_LAYERS: u64 = 2;

/// The sizes that a plan is run at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sizes {
    /// The smallest that keep every split.
    #[default]
    Scaled,
    /// The program's own.
    Full,
}

/// A dimension that is split into microbatches, the dimension of these, and how many of them are
/// run.
pub(super) struct Batch {
    pub(super) whole: String,
    pub(super) part: String,
    pub(super) count: u64,
}

/// The batches of a plan, with a limit of microbatches that are run.
fn batches(plan: &Plan, most: u64) -> Vec<Batch> {
    let name = |dim: DimId| plan.program.dims[dim].name.clone();
    let batch = |repeat: &Repeat| {
        let BatchSplit { batch, microbatch } = repeat.microbatches_of?;
        Some(Batch { whole: name(batch), part: name(microbatch), count: repeat.count.min(most) })
    };
    plan.program.repeats.iter().filter_map(batch).collect()
}

/// The program that is run, at its own sizes or smaller ones.
pub(super) struct Scaled {
    pub(super) program: Program,
    pub(super) plan: Plan,
    /// For a value of one stage only, that stage.
    pub(super) stages: IndexVec<ValueId, Option<Stage>>,
    /// Whether sizes differ from the program's.
    pub(super) differs: bool,
    /// The dimensions that the plan splits into microbatches.
    pub(super) batches: Vec<Batch>,
    /// The number of layers of each block that are run, and of all.
    pub(super) layers: Vec<String>,
}

/// `L=2 of 40`, `2 of 8 microbatches`: for every block that is run in part; its reversed block is
/// not listed.
fn layer_texts(program: &Program, layers: &[u64]) -> Vec<String> {
    let blocks = program
        .repeats
        .iter()
        .zip(layers)
        .filter(|(repeat, run)| repeat.reversed.is_none() && repeat.count > **run);
    let text =
        |(Repeat { name, count, microbatches_of, .. }, run): (&Repeat, &u64)| match microbatches_of
        {
            Some(_) => format!("{run} of {count} microbatches"),
            None => format!("{name}={run} of {count}"),
        };
    blocks.map(text).collect()
}

/// Program and plan at the sizes they are run at.
pub(super) fn scale(program: &Program, plan: &Plan, sizes: Sizes) -> Scaled {
    scale_to(program, plan, sizes, mesh::MOST_DEVICES)
}

/// The same on a mesh of `most` devices, if it can shrink to them.
fn scale_to(program: &Program, plan: &Plan, sizes: Sizes, most: u64) -> Scaled {
    let full = sizes == Sizes::Full;
    let batches = batches(plan, if full { u64::MAX } else { FEWEST_LAYERS });
    let mesh = plan.program.mesh.clone();
    let mut small = mesh.clone();
    if !full {
        small
            .axes
            .iter_mut()
            .zip(mesh::sizes(&plan.program.mesh, most))
            .for_each(|(axis, size)| axis.size = size);
    }
    let layers = |of: &Program| -> Vec<u64> {
        of.repeats
            .indices()
            .map(|block| if full { of.repeats[block].count } else { few_layers(of, block, &small) })
            .collect()
    };
    let (of_program, of_plan) = (layers(program), layers(&plan.program));
    let layers = layer_texts(&plan.program, &of_plan);
    let fewer =
        plan.program.repeats.iter().zip(&of_plan).any(|(repeat, &layers)| repeat.count > layers);
    let mut scaled = fewer || small != mesh;
    let (mut program, mut plan) = (program.clone(), plan.clone());
    if !full {
        reduce_stages(&mut program, &small);
        reduce_stages(&mut plan.program, &small);
    }
    (program.mesh, plan.program.mesh) = (small.clone(), small);
    let mut program = unroll::program(&program, &|block| of_program[block.index()]);
    let unroll::Unrolled { mut plan, stages, .. } =
        unroll::plan(&plan, &|block| of_plan[block.index()]);
    if full {
        return Scaled { program, plan, stages, differs: false, batches, layers };
    }
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
    for dim in program
        .dims
        .iter_mut()
        .filter(|dim| plan.program.dims.iter().all(|other| other.name != dim.name))
    {
        dim.size = dim.size.min(2);
    }
    Scaled { program, plan, stages, differs: scaled, batches, layers }
}

/// The number of layers of a block that are run on a mesh: for a pipeline, that many on every
/// stage.
fn few_layers(program: &Program, block: RepeatId, mesh: &Mesh) -> u64 {
    let count = program.repeats[block].count;
    let Some(pipeline) = &program.repeats[block].pipeline else {
        return count.min(FEWEST_LAYERS);
    };
    reduced(pipeline, mesh).layers().iter().sum()
}

/// The stages of a pipeline that are run on a mesh.
fn reduced(pipeline: &Pipeline, mesh: &Mesh) -> Stages {
    pipeline.stages.reduced(mesh.axes[pipeline.axis].size, FEWEST_LAYERS)
}

fn reduce_stages(program: &mut Program, mesh: &Mesh) {
    for pipeline in program.repeats.iter_mut().filter_map(|repeat| repeat.pipeline.as_mut()) {
        pipeline.stages = reduced(pipeline, mesh);
    }
}

/// The smallest size from `least` on that behaves as `size` under splits that `unit` is a multiple
/// of: divided by all of them, or by some not.
fn smallest(size: u64, unit: u64, taken: &[u64], least: u64) -> u64 {
    let free = |size: &u64| *size > 1 && *size >= least && !taken.contains(size);
    if size == 1 {
        1
    } else if size.is_multiple_of(unit) {
        (1..=MOST_DIMS).map(|k| k * unit).find(free).unwrap_or(size)
    } else {
        (unit + 1..unit + MOST_DIMS)
            .filter(|size| !size.is_multiple_of(unit))
            .find(free)
            .unwrap_or(unit + 1)
    }
}

/// The sizes of the plan's dimensions, and the grids that their blocks are cut from.
pub(super) fn extents(plan: &Plan) -> IndexVec<DimId, Extent> {
    // Renamed dimensions are split alike.
    let class = relations::renamed(plan);
    let members = |dim: DimId| {
        class.indices().filter(|&other| class[other] == class[dim]).collect::<Vec<_>>()
    };
    let extent = |dim: DimId| {
        let unit = members(dim).into_iter().map(|member| unit(plan, member)).fold(1, lcm);
        let size = plan.program.dims[dim].size;
        Extent { size: size as usize, grid: size.next_multiple_of(unit) as usize }
    };
    plan.program.dims.indices().map(extent).collect()
}

/// The sizes that the blocks of each dimension are cut from.
pub(crate) fn padded_sizes(plan: &Plan) -> IndexVec<DimId, u64> {
    extents(plan).into_iter().map(|extent| extent.grid as u64).collect()
}

/// The plan at the smallest sizes that keep every split, blocks included, on `most` devices if that
/// is possible.
pub(crate) fn small(plan: &Plan, most: u64) -> Plan {
    let scaled = scale_to(&plan.program, plan, Sizes::Scaled, most).plan.program;
    let mut small = plan.clone();
    let program = &mut small.program;
    let before = std::mem::replace(&mut program.dims, scaled.dims);
    for (block, repeat) in program.repeats.iter_mut_enumerated() {
        repeat.count = few_layers(&plan.program, block, &scaled.mesh);
        if let Some(pipeline) = &mut repeat.pipeline {
            pipeline.microbatches = pipeline.microbatches.min(FEWEST_LAYERS);
        }
    }
    reduce_stages(program, &scaled.mesh);
    relations::move_windows(program, &before);
    program.mesh = scaled.mesh;
    small
}

/// `X=4 Y=2; B=8 D=2; L=2 of 40`.
pub(super) fn describe(program: &Program, layers: &[String]) -> String {
    let axes: Vec<String> =
        program.mesh.axes.iter().map(|axis| format!("{}={}", axis.name, axis.size)).collect();
    let dims: Vec<String> =
        program.dims.iter().map(|dim| format!("{}={}", dim.name, dim.size)).collect();
    let blocks = if layers.is_empty() { String::new() } else { format!("; {}", layers.join(", ")) };
    format!("{}; {}{blocks}", axes.join(" "), dims.join(" "))
}

/// The least common multiple of all splits of a dimension.
fn unit(plan: &Plan, dim: DimId) -> u64 {
    splits(plan, dim).iter().map(|axes| parts(&plan.program, axes)).fold(1, lcm)
}

/// Every axis list of a dimension in the plan.
fn splits(plan: &Plan, dim: DimId) -> Vec<AxisList> {
    let declared = plan.program.values.iter_enumerated().filter_map(|(id, value)| {
        Some((id, value.declared_sharding.as_ref().and_then(Pin::exact)?))
    });
    let steps = plan
        .steps
        .iter()
        .flat_map(|step| step.operands.iter().chain([&step.result]))
        .map(|m| (m.value, m.sharding.clone()));
    let mut lists: Vec<AxisList> = Vec::new();
    for (value, sharding) in declared.chain(steps) {
        let dims = &plan.program.values[value].dims;
        lists.extend(
            dims.iter().zip(sharding.dims).filter(|(d, _)| **d == dim).map(|(_, axes)| axes),
        );
    }
    lists
}

fn parts(program: &Program, axes: &AxisList) -> u64 {
    axes.iter().map(|axis| axis.size(&program.mesh)).product()
}

fn lcm(a: u64, b: u64) -> u64 {
    a / mesh::gcd(a, b) * b
}
