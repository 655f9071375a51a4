//! The module around the functions: sizes, mesh, specs, and a `main` that compares.

use std::fmt::Write as _;

use indexmap::IndexSet;

use super::super::json::{Operation, PlanJson, StepJson, TensorJson, ValueJson};
use super::body::Writer;
use super::expression::{jax_dtype, offset_name};
use super::layout;
use super::names::identifier;
use super::{Result, unsupported};

/// Helper functions, in the order in which they are written.
const HELPERS: &[(&str, &str)] = &[
    ("dtype", include_str!("helpers/dtype.py")),
    ("local", include_str!("helpers/local.py")),
    ("own_part", include_str!("helpers/own_part.py")),
    ("relabel", include_str!("helpers/relabel.py")),
    ("roll", include_str!("helpers/roll.py")),
    ("microbatches", include_str!("helpers/microbatches.py")),
    ("joined", include_str!("helpers/joined.py")),
    ("pull_back", include_str!("helpers/pull_back.py")),
    ("adam_step", include_str!("helpers/adam_step.py")),
    ("layer_norm", include_str!("helpers/layer_norm.py")),
    ("rms_norm", include_str!("helpers/rms_norm.py")),
    ("one_hot", include_str!("helpers/one_hot.py")),
    ("take_rows", include_str!("helpers/take_rows.py")),
    ("pad", include_str!("helpers/pad.py")),
    ("top_k", include_str!("helpers/top_k.py")),
    ("route", include_str!("helpers/route.py")),
];

/// The field of the trip count of a block.
pub(super) fn count_name(plan: &PlanJson, block: usize) -> String {
    let of = &plan.blocks[block];
    if let Some(forward) = of.reverses {
        return count_name(plan, forward);
    }
    let is_dim = plan.dims.iter().any(|dim| dim.dim == of.name);
    let earlier =
        plan.blocks[..block].iter().any(|other| other.name == of.name && other.reverses.is_none());
    let number = if earlier { format!("_{block}") } else { String::new() };
    let word = match (of.microbatches, is_dim) {
        (true, _) => format!("{}_microbatches", of.name),
        (false, true) => format!("{}_layers", of.name),
        (false, false) => of.name.clone(),
    };
    identifier(&(word + &number))
}

/// The module of a plan.
pub(super) fn module(plan: &PlanJson, small: &PlanJson) -> Result {
    supported(plan)?;
    let offsets = offsets(plan, small);
    let (step, expressions) = Writer::new(plan, false, &offsets)?.body()?;
    let mut helpers = expressions.helpers;
    let (reference, expressions) = Writer::new(plan, true, &offsets)?.body()?;
    helpers.extend(expressions.helpers);
    let mut text = head(plan);
    text += &sizes(plan, small, &offsets);
    text += &specs(plan);
    text += &helper_text(&helpers);
    text += "\n\ndef device_step(n, given):\n";
    text += "    \"\"\"What each device runs, on its blocks of the arrays.\"\"\"\n";
    text += &step;
    text += include_str!("helpers/sharded_step.py");
    text += "\n\ndef reference(n, given):\n";
    text += "    \"\"\"The same on complete arrays, for comparison.\"\"\"\n";
    text += &reference;
    text += include_str!("helpers/main.py");
    Ok(text)
}

/// Why a plan cannot be written yet.
fn supported(plan: &PlanJson) -> Result<()> {
    if let Some(block) = plan.blocks.iter().find(|block| block.pipeline.is_some()) {
        return unsupported("", format!("the pipeline of `{}`", block.name));
    }
    let tensors = plan.steps.iter().flat_map(|step| step.operands.iter().chain([&step.result]));
    let given = plan.values.iter().filter_map(|value| value.given.as_ref());
    let padded = |dim: &str| {
        plan.dims.iter().any(|other| other.dim == dim && other.padded_size != other.size)
    };
    for tensor in tensors.chain(given) {
        if let Some(dim) = tensor.dims.iter().find(|dim| !dim.axes.is_empty() && padded(&dim.dim)) {
            return unsupported(&tensor.value, format!("the padded dimension `{}`", dim.dim));
        }
    }
    let leaving = plan.outputs.iter().map(|output| &output.tensor);
    let given = plan.values.iter().filter_map(|value| value.given.as_ref());
    for tensor in leaving.chain(given) {
        if tensor.reduction.as_deref().is_some_and(|how| how != "sum") {
            return unsupported(&tensor.value, "an argument or output of partial maxima or minima");
        }
    }
    for value in plan.values.iter().filter(|value| value.block.is_some()) {
        if value.given.as_ref().is_some_and(|given| !given.unreduced.is_empty()) {
            return unsupported(&value.value, "a parameter of layers that is given in parts");
        }
    }
    Ok(())
}

fn head(plan: &PlanJson) -> String {
    let mesh: Vec<String> =
        plan.mesh.iter().map(|axis| format!("{}={}", axis.axis, axis.size)).collect();
    format!(
        "\"\"\"{}: a plan of shardwise, on a mesh of {}.\n\n\
         Run it to compare the plan with the unsharded program on small data:\n\n    \
         python {}.py\n\n\
         The collectives of `device_step` are those of the plan, in its order. Comments are its\n\
         types: `x[B_X, D] {{U_Y}}` is split over X along B, and a sum over Y is pending.\n\
         \"\"\"\n\nimport math\nfrom functools import partial\nfrom typing import NamedTuple\n\n\
         import jax\nimport jax.numpy as jnp\nimport numpy as np\nfrom jax import lax\n\
         from jax.sharding import NamedSharding\n\
         from jax.sharding import PartitionSpec as P\n\n",
        plan.program,
        mesh.join(", "),
        plan.program
    )
}

fn sizes(plan: &PlanJson, small: &PlanJson, offsets: &IndexSet<String>) -> String {
    let mesh = |plan: &PlanJson| {
        let axes = plan.mesh.iter().map(|axis| format!("{:?}: {}", axis.axis, axis.size));
        axes.collect::<Vec<_>>().join(", ")
    };
    let mut text = layout::line(0, &format!("MESH = {{{}}}", mesh(plan)));
    text += &layout::line(0, &format!("SMALL_MESH = {{{}}}", mesh(small)));
    text += "\n\nclass Sizes(NamedTuple):\n    \"\"\"The sizes of the plan.\"\"\"\n\n";
    for (name, size) in fields(plan, offsets) {
        let _ = writeln!(text, "    {name}: int = {size}");
    }
    if fields(plan, offsets).is_empty() {
        text += "    pass\n";
    }
    let small: Vec<String> =
        fields(small, offsets).iter().map(|(name, size)| format!("{name}={size}")).collect();
    text + "\n\n# The smallest sizes that the plan's shardings divide.\n"
        + &layout::line(0, &format!("SMALL = Sizes({})", small.join(", ")))
}

/// The offset of a step, if it has one.
fn offset(step: &StepJson) -> Option<u64> {
    match step.operation.as_ref()? {
        Operation::Window { start, .. } | Operation::Pad { start, .. } => Some(*start),
        Operation::Roll { distance, .. } => Some(*distance),
        _ => None,
    }
}

/// Values that are made with another offset at small sizes.
fn offsets(plan: &PlanJson, small: &PlanJson) -> IndexSet<String> {
    let pairs = plan.steps.iter().zip(&small.steps);
    let moved = pairs.filter(|(a, b)| offset(a) != offset(b));
    moved.map(|(step, _)| step.value.clone()).collect()
}

/// Sizes of dimensions, trip counts, and offsets.
fn fields(plan: &PlanJson, offsets: &IndexSet<String>) -> Vec<(String, u64)> {
    let dims = plan.dims.iter().map(|dim| (identifier(&dim.dim), dim.size));
    let forward = plan.blocks.iter().enumerate().filter(|(_, block)| block.reverses.is_none());
    let counts = forward.map(|(id, block)| (count_name(plan, id), block.count));
    let moved = plan.steps.iter().filter(|step| offsets.contains(&step.value));
    let moved = moved.filter_map(|step| Some((offset_name(&step.value), offset(step)?)));
    dims.chain(counts).chain(moved).collect()
}

fn specs(plan: &PlanJson) -> String {
    let declared = plan.values.iter().filter(|value| value.given.is_some());
    let mut text = "\n# How arguments are sharded".to_owned();
    if plan.values.iter().any(|value| value.role.is_some() && value.block.is_some()) {
        text += "; those of layers have one more dimension, the first";
    }
    text += ".\nIN_SPECS = {\n";
    for value in declared.clone() {
        if let Some(given) = &value.given {
            text += &layout::line(4, &format!("{:?}: {},", value.value, spec(value, given)));
        }
    }
    text += "}\nOUT_SPECS = {\n";
    let mut written = IndexSet::new();
    for output in &plan.outputs {
        let value = plan.values.iter().find(|value| value.value == output.tensor.value);
        if let Some(value) = value.filter(|value| written.insert(value.value.clone())) {
            text +=
                &layout::line(4, &format!("{:?}: {},", value.value, spec(value, &output.tensor)));
        }
    }
    text += "}\n\n# Outputs that are still to be summed, over the first dimensions.\n";
    let pending = plan.outputs.iter().filter(|output| !output.tensor.unreduced.is_empty());
    let pending = pending.map(|output| {
        let axes: Vec<String> =
            output.tensor.unreduced.iter().map(|axis| format!("{axis:?}")).collect();
        format!("{:?}: {}", output.tensor.value, layout::tuple(&axes))
    });
    text += &layout::line(0, &format!("PENDING = {{{}}}", pending.collect::<Vec<_>>().join(", ")));
    text += "\n# Pending axes, dimensions and types of arguments.\nARGUMENTS = {\n";
    for value in declared {
        text += &layout::line(4, &format!("{:?}: ({}),", value.value, argument(plan, value)));
    }
    text + "}\n"
}

/// `P("X", None)`, with a dimension for layers, and one for each pending axis.
fn spec(value: &ValueJson, of: &TensorJson) -> String {
    let layers = value.block.map(|_| "None".to_owned());
    let pending = of.unreduced.iter().map(|axis| format!("{axis:?}"));
    let dims = of.dims.iter().map(|dim| match dim.axes.as_slice() {
        [] => "None".to_owned(),
        axes => super::communication::axes(axes),
    });
    let mut parts: Vec<String> = pending.chain(layers).chain(dims).collect();
    while parts.last().is_some_and(|part| part == "None") {
        parts.pop();
    }
    format!("P({})", parts.join(", "))
}

fn argument(plan: &PlanJson, value: &ValueJson) -> String {
    let layers = value.block.map(|block| count_name(plan, block));
    let dims = value.dims.iter().map(|dim| identifier(dim));
    let names: Vec<String> = layers.into_iter().chain(dims).map(|dim| format!("{dim:?}")).collect();
    let pending = value.given.iter().flat_map(|given| &given.unreduced);
    let pending: Vec<String> = pending.map(|axis| format!("{axis:?}")).collect();
    let dtype = jax_dtype(&value.dtype);
    format!("{}, {}, {dtype}", layout::tuple(&pending), layout::tuple(&names))
}

fn helper_text(used: &IndexSet<&'static str>) -> String {
    let text = HELPERS.iter().filter(|(name, _)| used.contains(name) || *name == "dtype");
    text.map(|(_, text)| format!("\n\n{}", text.trim_end()) + "\n").collect()
}
