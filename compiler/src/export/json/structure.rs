//! What surrounds the steps of a plan: sizes of dimensions, values, outputs, and the blocks that
//! run several times.
//!
//! The steps stay one flat list, as in `shardwise.plan/1`; the tree has their numbers. A tree of
//! complete steps would be shorter to walk, and would break every reader of the list.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shardwise_ir::ids::{DimId, RepeatId};
use shardwise_ir::pipeline::Pipeline;
use shardwise_ir::plan::{Materialization, Plan};
use shardwise_ir::print;
use shardwise_ir::program::{BlockKind, Blocks, Dim, Output, Program, Repeat, Value};
use shardwise_ir::sharding::Pin;

use super::{TensorJson, tensor};
use crate::{Role, simulate};

/// A dimension.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SizeJson {
    /// Its name.
    pub dim: String,
    /// Its size.
    pub size: u64,
    /// The dimensions that it is the product of, major to minor.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub factors: Vec<String>,
    /// The size that its blocks are cut from: the next multiple of everything that splits it.
    /// Blocks end where the dimension ends, so the last ones may be shorter or empty.
    pub padded_size: u64,
    /// The pairs of blocks of its order: the `i`-th of so many pairs is the `i`-th block of the
    /// sequence and the `i`-th from its end. Positions count in the sequence.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub zigzag: Option<u64>,
}

/// A value: an array of the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ValueJson {
    /// Its name.
    pub value: String,
    /// Its dimensions in order.
    pub dims: Vec<String>,
    /// Its element type.
    pub dtype: String,
    /// `input`, `param` or `state`; absent for results of steps.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub role: Option<String>,
    /// The share of its elements that a device holds and sends, of slots of experts where nothing
    /// is dropped, and of gradients of tables that are updated row by row; absent where that is
    /// all.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub filled: Option<f64>,
    /// Whether it is a parameter that is not trained.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub frozen: bool,
    /// The sharding that it is given in; absent for results of steps.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub given: Option<TensorJson>,
    /// The block that it is a value of: there is one for each iteration, or, of a declared value,
    /// one for each layer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub block: Option<usize>,
}

/// An output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OutputJson {
    /// The value in the sharding that it leaves in; of a value of a block, one for each iteration.
    pub tensor: TensorJson,
    /// The parameter or state that it is in the next step.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub updates: Option<String>,
}

/// A block of steps that run several times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlockJson {
    /// The name of the layers, the dimension that is scanned, or the batch that is split into
    /// microbatches.
    pub name: String,
    /// The trip count.
    pub count: u64,
    /// The block whose iterations it goes through from the last to the first, reading the values
    /// of each.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reverses: Option<usize>,
    /// Whether its iterations are the steps of a scan.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub scan: bool,
    /// Whether it iterates over microbatches.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub microbatches: bool,
    /// The values that iterations pass to the next one.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub yields: Vec<YieldJson>,
    /// What is gathered once and kept for all microbatches.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub kept_gathered: Vec<TensorJson>,
    /// The pipeline that its layers are in. In a pipeline of several blocks each has its own, and
    /// the block around them none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pipeline: Option<StagesJson>,
}

/// A value that an iteration passes to the next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct YieldJson {
    /// The value, in the sharding that it is passed in.
    pub tensor: TensorJson,
    /// The result of the `carry` that receives it.
    pub to: String,
}

/// The stages of a block's layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StagesJson {
    /// The stage axis.
    pub axis: String,
    /// The dimension that is split into microbatches.
    pub batch: String,
    /// The number of microbatches.
    pub microbatches: u64,
    /// As programs write it.
    pub schedule: String,
    /// The coordinate on the stage axis of the devices that run each layer.
    pub stage_of_layer: Vec<u64>,
}

/// A part of a plan: the number of a step, or a block with its parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum NodeJson {
    /// A step, counted from 0.
    Step(usize),
    /// A block.
    Block {
        /// Its number in `blocks`.
        block: usize,
        /// Its parts in order.
        body: Vec<NodeJson>,
    },
}

pub(super) fn sizes(plan: &Plan) -> Vec<SizeJson> {
    let program = &plan.program;
    let padded = simulate::padded_sizes(plan);
    let one = |(id, dim): (DimId, &Dim)| SizeJson {
        dim: dim.name.clone(),
        size: dim.size,
        factors: dim.factors.iter().map(|&factor| program.dims[factor].name.clone()).collect(),
        padded_size: padded[id],
        zigzag: dim.zigzag.map(|order| order.pairs),
    };
    program.dims.iter_enumerated().map(one).collect()
}

pub(super) fn values(program: &Program) -> Vec<ValueJson> {
    let one = |(id, value): (_, &Value)| ValueJson {
        value: value.name.clone(),
        dims: value.dims.iter().map(|&dim| program.dims[dim].name.clone()).collect(),
        dtype: value.dtype.name().to_owned(),
        role: value.role.map(|role| role_name(role).to_owned()),
        filled: Some(value.filled.share).filter(|&share| share < 1.0),
        frozen: value.is_frozen,
        given: value
            .declared_sharding
            .as_ref()
            .and_then(Pin::exact)
            .filter(|_| value.is_declared())
            .map(|sharding| tensor(program, &Materialization { value: id, sharding })),
        block: value.repeat.map(RepeatId::index),
    };
    program.values.iter_enumerated().map(one).collect()
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::Input => "input",
        Role::Param | Role::FrozenParam => "param",
        Role::State => "state",
        Role::Output => "output",
    }
}

pub(super) fn outputs(plan: &Plan) -> Vec<OutputJson> {
    let program = &plan.program;
    let one = |output: &Output| {
        let leaving = print::output(plan, output)?;
        let updates = program.updates(output).map(|of| program.values[of].name.clone());
        Some(OutputJson { tensor: tensor(program, &leaving), updates })
    };
    program.outputs.iter().filter_map(one).collect()
}

pub(super) fn blocks(plan: &Plan) -> Vec<BlockJson> {
    let program = &plan.program;
    let one = |(id, block): (RepeatId, &Repeat)| BlockJson {
        name: block.name.clone(),
        count: block.count,
        reverses: block.reversed.map(RepeatId::index),
        scan: block.scan.is_some(),
        microbatches: block.microbatches_of.is_some(),
        yields: yields(plan, id),
        kept_gathered: block.kept_gathered.iter().map(|of| tensor(program, of)).collect(),
        pipeline: block
            .pipeline
            .as_ref()
            .filter(|_| block.kind != BlockKind::Pipeline)
            .map(|pipeline| stages(program, block, pipeline)),
    };
    program.repeats.iter_enumerated().map(one).collect()
}

/// The loop-carried values of a block: each is yielded in the sharding that the next iteration
/// has it in.
fn yields(plan: &Plan, block: RepeatId) -> Vec<YieldJson> {
    let program = &plan.program;
    let one = |output: &Output| {
        let to = program.carried_into(output)?;
        let carry = plan.steps.iter().find(|step| step.result.value == to)?;
        let sharding = carry.result.sharding.clone();
        let tensor = tensor(program, &Materialization { value: output.value, sharding });
        (carry.repeat == Some(block))
            .then(|| YieldJson { tensor, to: program.values[to].name.clone() })
    };
    program.outputs.iter().filter_map(one).collect()
}

fn stages(program: &Program, block: &Repeat, pipeline: &Pipeline) -> StagesJson {
    StagesJson {
        axis: program.mesh.axes[pipeline.axis].name.clone(),
        batch: program.dims[pipeline.batch].name.clone(),
        microbatches: pipeline.microbatches,
        schedule: pipeline.schedule.name().to_owned(),
        stage_of_layer: (0..block.count).map(|layer| pipeline.stages.stage_of(layer)).collect(),
    }
}

/// The steps in their blocks.
pub(super) fn body(plan: &Plan) -> Vec<NodeJson> {
    let paths: Vec<Vec<RepeatId>> =
        plan.steps.iter().map(|step| plan.program.repeats.path(step.repeat)).collect();
    nodes(&paths, 0, 0)
}

/// The nodes of consecutive steps, the first of which is step `first`, inside `depth` blocks.
fn nodes(paths: &[Vec<RepeatId>], first: usize, depth: usize) -> Vec<NodeJson> {
    let mut found = Vec::new();
    let mut start = first;
    for run in paths.chunk_by(|a, b| a.get(depth) == b.get(depth)) {
        match run[0].get(depth) {
            None => found.extend((start..start + run.len()).map(NodeJson::Step)),
            Some(block) => found
                .push(NodeJson::Block { block: block.index(), body: nodes(run, start, depth + 1) }),
        }
        start += run.len();
    }
    found
}
