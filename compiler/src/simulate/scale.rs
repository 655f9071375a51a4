//! Finds smaller sizes at which the same plan can be run.
//!
//! Large meshes shrink (`mesh`). A dimension becomes the smallest multiple of everything that
//! splits it that is larger than 1 and not another dimension's size, so that swapped dimensions are
//! detected; one that is padded stays padded. Two layers of every block are run, so that yielded
//! values are checked, or two microbatches; for a pipeline two layers in each chunk of each stage.
//!
//! Renamed dimensions keep equal sizes, a product the size of its factors, and a factor that is
//! split completely stays so, since that makes reshapes local; slices keep their order in a
//! dimension, with elements before and after them as in the original (`solver`). Where no small
//! sizes satisfy all of that, the dimensions concerned keep their own, and all microbatches are
//! run; if that is not enough, on the plan's own mesh. So do dimensions along which a plan cuts or
//! shifts at other places than the program that it is compared with: small ones have few places.

use std::collections::BTreeSet;

use index_vec::IndexVec;
use shardwise_ir::ids::{AxisId, DimId, RepeatId, ValueId};
use shardwise_ir::mesh::Mesh;
use shardwise_ir::pipeline::Pipeline;
use shardwise_ir::plan::Plan;
use shardwise_ir::program::{BatchSplit, BlockKind, Blocks, Program, Repeat, Scan};
use shardwise_ir::stages::Stages;
use shardwise_ir::unroll::{self, Stage};

use super::devices::Extent;
use super::effort;

mod mesh;
mod relations;
mod samples;
mod solver;

pub(crate) use mesh::gcd;

use relations::Relations;
use solver::Solver;

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

/// A dimension that is split into microbatches or chunks, the dimension of these, if they have one,
/// and how many of them are run.
pub(super) struct Batch {
    pub(super) whole: String,
    pub(super) part: Option<String>,
    pub(super) count: u64,
}

/// The batches of a plan, with a limit of microbatches that are run.
fn batches(plan: &Plan, most: u64) -> Vec<Batch> {
    let name = |dim: DimId| plan.program.dims[dim].name.clone();
    let batch = |repeat: &Repeat| {
        let BatchSplit { batch, microbatch } = repeat.microbatches_of?;
        Some(Batch {
            whole: name(batch),
            part: Some(name(microbatch)),
            count: repeat.count.min(most),
        })
    };
    plan.program.repeats.iter().filter_map(batch).collect()
}

/// The scans of a plan, with a limit of steps that are run.
fn scans(plan: &Plan, most: u64) -> Vec<Batch> {
    let name = |dim: DimId| plan.program.dims[dim].name.clone();
    let scan = |repeat: &Repeat| {
        let Scan { dim, chunk } = repeat.scan?;
        Some(Batch { whole: name(dim), part: chunk.map(name), count: repeat.count.min(most) })
    };
    plan.program.repeats.iter().filter_map(scan).collect()
}

/// The program that is run, at its own sizes or smaller ones.
pub(super) struct Scaled {
    pub(super) program: Program,
    pub(super) plan: Plan,
    /// For a value of one stage only, that stage.
    pub(super) stages: IndexVec<ValueId, Option<Stage>>,
    pub(super) parts: IndexVec<ValueId, Option<AxisId>>,
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
    let text = |(Repeat { name, count, microbatches_of, scan, .. }, run): (&Repeat, &u64)| {
        if microbatches_of.is_some() {
            format!("{run} of {count} microbatches")
        } else if scan.is_some() {
            format!("{run} of {count} steps along {name}")
        } else {
            format!("{name}={run} of {count}")
        }
    };
    blocks.map(text).collect()
}

/// What is run of a plan.
struct Part {
    mesh: Mesh,
    /// The limits of layers of a block, and of microbatches.
    layers: u64,
    microbatches: u64,
    /// Whether dimensions whose sizes depend on each other keep their own.
    keeps_related: bool,
    /// Dimensions that have one element, if relations of sizes allow that.
    single: BTreeSet<DimId>,
    /// Whether microbatches of pipelines are run apart, so that splits divide each of them.
    splits_pipelines: bool,
}

/// Program and plan at the sizes they are run at: the smallest part of them in which all relations
/// of sizes hold; `None` if they are too long to be written out.
pub(super) fn scale(program: &Program, plan: &Plan, sizes: Sizes) -> Option<Scaled> {
    let own = || unrolled(program, plan, &Part::whole(plan));
    match sizes {
        Sizes::Scaled => {
            let found = smallest(program, plan, mesh::MOST_DEVICES, false);
            found.map(|(_, scaled)| scaled).or_else(own)
        }
        Sizes::Full => own(),
    }
}

/// Samples of a plan, in which one of `share` dimensions has more than one element; `None` if there
/// is a sample that no sizes satisfy.
pub(super) fn samples(program: &Program, plan: &Plan, share: usize) -> Option<Vec<Scaled>> {
    let sample = |samples::Sample { mesh, single }| {
        let [layers, microbatches] = [FEWEST_LAYERS; 2];
        let part = Part {
            mesh,
            layers,
            microbatches,
            keeps_related: false,
            single,
            splits_pipelines: false,
        };
        scaled(program, plan, &part)
    };
    samples::samples(plan, share).into_iter().map(sample).collect()
}

/// The same on a mesh of `most` devices, if it can shrink to them.
fn smallest(
    program: &Program,
    plan: &Plan,
    most: u64,
    splits_pipelines: bool,
) -> Option<(Part, Scaled)> {
    let own = &plan.program.mesh;
    let few = |mesh: &Mesh, microbatches: u64| Part {
        mesh: mesh.clone(),
        layers: FEWEST_LAYERS,
        microbatches,
        keeps_related: microbatches > FEWEST_LAYERS,
        single: BTreeSet::new(),
        splits_pipelines,
    };
    let meshes = mesh::smaller(own, most).into_iter();
    let mut parts = meshes.flat_map(|mesh| [FEWEST_LAYERS, u64::MAX].map(|most| few(&mesh, most)));
    parts.find_map(|part| {
        let scaled = scaled(program, plan, &part)?;
        Some((part, scaled))
    })
}

/// A part of a plan at small sizes; `None` if there are none that satisfy all relations.
fn scaled(program: &Program, plan: &Plan, part: &Part) -> Option<Scaled> {
    let mesh = &plan.program.mesh;
    let pipelined = if part.splits_pipelines { pipelined(plan) } else { Vec::new() };
    let scans = scans(plan, part.microbatches);
    let mut scaled = unrolled(program, plan, part)?;
    let Scaled { program, plan, batches, differs, .. } = &mut scaled;
    let relations = Relations::new(program, plan, batches.iter().chain(&scans));
    let Part { keeps_related, ref single, .. } = *part;
    let kept = relations::moved_apart(program, &plan.program);
    let relations = &relations;
    let solver = Solver { plan, mesh, relations, keeps_related, kept, single, pipelined };
    let chosen = solver.solve()?;
    let before = plan.program.dims.clone();
    for (dim, size) in plan.program.dims.iter_mut().zip(chosen) {
        *differs |= size != dim.size;
        dim.size = size;
    }
    for dim in &mut program.dims {
        let planned = plan.program.dims.iter().find(|other| other.name == dim.name);
        dim.size = planned.map_or(dim.size.min(2), |other| other.size);
    }
    relations::move_windows(program, &before);
    relations::move_windows(&mut plan.program, &before);
    Some(scaled)
}

/// A part of a plan at its own sizes; `None` if that has too many statements.
fn unrolled(program: &Program, plan: &Plan, part: &Part) -> Option<Scaled> {
    let written = effort::statements(plan, &|block| part.iterations(&plan.program, block));
    if written > effort::MOST_STATEMENTS {
        return None;
    }
    let is_whole = part.layers == u64::MAX;
    let batches = batches(plan, part.microbatches);
    let counts = |of: &Program| -> Vec<u64> {
        of.repeats.indices().map(|block| part.iterations(of, block)).collect()
    };
    let (of_program, of_plan) = (counts(program), counts(&plan.program));
    let layers = layer_texts(&plan.program, &of_plan);
    let mut blocks = plan.program.repeats.iter().zip(&of_plan);
    let differs =
        blocks.any(|(block, &count)| block.count > count) || part.mesh != plan.program.mesh;
    let (mut program, mut plan) = (program.clone(), plan.clone());
    if !is_whole {
        reduce_stages(&mut program, &part.mesh);
        reduce_stages(&mut plan.program, &part.mesh);
    }
    (program.mesh, plan.program.mesh) = (part.mesh.clone(), part.mesh.clone());
    let program = unroll::program(&program, &|block| of_program[block.index()]);
    let unroll::Unrolled { plan, stages, parts, .. } =
        unroll::plan(&plan, &|block| of_plan[block.index()]);
    Some(Scaled { program, plan, stages, parts, differs, batches, layers })
}

impl Part {
    fn whole(plan: &Plan) -> Self {
        let mesh = plan.program.mesh.clone();
        let single = BTreeSet::new();
        let (layers, microbatches) = (u64::MAX, u64::MAX);
        let splits_pipelines = false;
        Self { mesh, layers, microbatches, keeps_related: true, single, splits_pipelines }
    }

    /// The number of layers or microbatches of a block that are run; of a pipeline that many layers
    /// on every stage.
    fn iterations(&self, program: &Program, block: RepeatId) -> u64 {
        let repeat = &program.repeats[block];
        let Repeat { count, microbatches_of, scan, .. } = repeat;
        if microbatches_of.is_some() || scan.is_some() {
            return (*count).min(self.microbatches);
        }
        match &repeat.pipeline {
            Some(_) if repeat.kind != BlockKind::Layers => 1,
            Some(pipeline) if self.layers < u64::MAX => {
                reduced(program, (block, pipeline), &self.mesh).layers().iter().sum()
            }
            _ => (*count).min(self.layers),
        }
    }
}

/// The number of microbatches that are run of so many: as few as divide them.
fn few(microbatches: u64) -> u64 {
    (2..=microbatches).find(|&few| microbatches.is_multiple_of(few)).unwrap_or(1)
}

/// The batches that pipelines split, and the number of microbatches that are run.
fn pipelined(plan: &Plan) -> Vec<(DimId, u64)> {
    let pipelines = plan.program.repeats.iter().filter_map(|repeat| repeat.pipeline.as_ref());
    pipelines.map(|pipeline| (pipeline.batch, few(pipeline.microbatches))).collect()
}

/// The stages of a pipeline that are run on a mesh.
fn reduced(program: &Program, (block, pipeline): (RepeatId, &Pipeline), mesh: &Mesh) -> Stages {
    let stages = mesh.axes[pipeline.axis].size;
    let repeats = &program.repeats;
    let whole = program.whole_pipeline(Some(repeats.forward_block(block)));
    let several = whole.filter(|&whole| repeats[whole].kind == BlockKind::Pipeline);
    let blocks = several.map(|whole| program.blocks_of_pipeline(whole)).unwrap_or_default();
    if blocks.len() <= 1 {
        return pipeline.stages.reduced(stages, FEWEST_LAYERS);
    }
    let place = blocks.iter().position(|&one| one == repeats.forward_block(block));
    let all = blocks.iter().filter_map(|&one| Some(&repeats[one].pipeline.as_ref()?.stages));
    match place {
        Some(place) => {
            Stages::sampled(&all.collect::<Vec<_>>(), stages, FEWEST_LAYERS).remove(place)
        }
        None => pipeline.stages.once(stages),
    }
}

fn reduce_stages(program: &mut Program, mesh: &Mesh) {
    let blocks = program.repeats.iter_enumerated();
    let few = blocks.map(|(block, repeat)| {
        repeat.pipeline.as_ref().map(|pipeline| reduced(program, (block, pipeline), mesh))
    });
    let few: Vec<Option<Stages>> = few.collect();
    for (repeat, few) in program.repeats.iter_mut().zip(few) {
        if let (Some(pipeline), Some(few)) = (&mut repeat.pipeline, few) {
            pipeline.stages = few;
        }
    }
}

/// The sizes of the plan's dimensions, and the grids that their blocks are cut from.
pub(super) fn extents(plan: &Plan) -> IndexVec<DimId, Extent> {
    let relations = Relations::new(&plan.program, plan, std::iter::empty());
    let parts = |dim: DimId| {
        let counts =
            relations.splits[dim].iter().map(|axes| relations::count(&plan.program.mesh, axes));
        counts.fold(1, lcm)
    };
    let units: IndexVec<DimId, u64> = plan.program.dims.indices().map(parts).collect();
    let extent = |dim: DimId| {
        // Renamed dimensions are split alike.
        let unit = relations.members(dim).iter().map(|&member| units[member]).fold(1, lcm);
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
    let Some((part, scaled)) = smallest(&plan.program, plan, most, true) else {
        return plan.clone();
    };
    let scaled = scaled.plan.program;
    let mut small = plan.clone();
    let program = &mut small.program;
    let before = std::mem::replace(&mut program.dims, scaled.dims);
    for (block, repeat) in program.repeats.iter_mut_enumerated() {
        repeat.count = part.iterations(&plan.program, block);
        if let Some(pipeline) = &mut repeat.pipeline {
            pipeline.microbatches = few(pipeline.microbatches);
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

fn lcm(a: u64, b: u64) -> u64 {
    (a / mesh::gcd(a, b)).saturating_mul(b)
}
