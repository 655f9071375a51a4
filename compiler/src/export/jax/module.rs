//! The module around the functions: sizes, mesh, specs, and a `main` that compares.

use indexmap::IndexSet;

use super::super::json::{PlanJson, TensorJson, ValueJson};
use super::super::python::collectives::axes;
use super::super::python::layout;
use super::super::python::module::{Functions, dims_of, functions, helper_text, staged};
use super::super::python::padding;
use super::super::walk::Result;
use super::super::walk::structure::loops;
use super::dialect::{Jax, jax_dtype};
use super::styles::Style;

/// The module of a plan in a style.
pub(super) fn module(plan: &PlanJson, small: &PlanJson, style: Style) -> Result {
    let jax = Jax { style };
    let Functions { step, reference, mut helpers, opaque, sizes, padded, .. } =
        functions(plan, small, &jax)?;
    let is_staged = plan.blocks.iter().any(|block| block.pipeline.is_some());
    if is_staged {
        helpers.insert("layer_slots");
    }
    helpers.insert("dtype");
    let complete = complete(plan);
    let shown = if style == Style::ShardMap { plan } else { &complete };
    let mut text = head(plan, style);
    text += &sizes;
    text += &specs(shown);
    text += &reductions(shown);
    text += &padded_places(plan, &padded);
    text += &helper_text(&helpers, &jax);
    text += &opaque;
    text += &step_head(style);
    text += &step;
    text += sharded_step(style);
    text += if style != Style::ShardMap {
        include_str!("helpers/placed_typed.py")
    } else if is_staged {
        include_str!("helpers/placed_staged.py")
    } else if padded.is_empty() {
        include_str!("helpers/placed.py")
    } else {
        include_str!("helpers/placed_padded.py")
    };
    text += "\n\ndef reference(n, given):\n";
    text += "    \"\"\"The same on complete arrays, for comparison.\"\"\"\n";
    text += &reference;
    text += include_str!("helpers/main.py");
    Ok(text)
}

/// The plan with arguments and outputs that are complete, where it has them in parts.
fn complete(plan: &PlanJson) -> PlanJson {
    let mut plan = plan.clone();
    let given = plan.values.iter_mut().filter_map(|value| value.given.as_mut());
    for of in given.chain(plan.outputs.iter_mut().map(|output| &mut output.tensor)) {
        of.unreduced.clear();
        of.reduction = None;
    }
    plan
}

/// What surrounds the function of a plan in a style: what the module says about collectives, and
/// what else it imports.
fn about(style: Style) -> [&'static str; 2] {
    match style {
        Style::ShardMap => [
            "The collectives of `device_step` are those of the plan, in its order. \
             Comments are its\n\
             types: `x[B_X, D] {U_Y}` is split over X along B, and a sum over Y is pending.",
            "from jax import lax\nfrom jax.sharding import NamedSharding\n",
        ],
        Style::Explicit => [
            "Arrays have the plan's shardings in their types; comments are the plan's types. \
             XLA's\n\
             partitioner inserts the collectives: they may be others than the plan's.",
            "from jax import lax\n\
             from jax.sharding import AxisType, Mesh, NamedSharding, auto_axes, reshard\n",
        ],
        Style::Constraints => [
            "Statements have the plan's shardings as constraints; comments are the plan's types. \
             XLA's\n\
             partitioner inserts the collectives: they may be others than the plan's.",
            "from jax import lax\nfrom jax.sharding import AxisType, Mesh, NamedSharding\n",
        ],
    }
}

fn head(plan: &PlanJson, style: Style) -> String {
    let mesh: Vec<String> =
        plan.mesh.iter().map(|axis| format!("{}={}", axis.axis, axis.size)).collect();
    let (program, mesh) = (layout::in_string(&plan.program), mesh.join(", "));
    let [collectives, imports] = about(style);
    format!(
        "\"\"\"{program}: a plan of shardwise, on a mesh of {mesh}.\n\n\
         Run it to compare the plan with the unsharded program on small data:\n\n    \
         python {program}.py\n\n{collectives}\n\
         \"\"\"\n\nimport math\nfrom functools import partial\nfrom typing import NamedTuple\n\n\
         import jax\nimport jax.numpy as jnp\nimport numpy as np\n{imports}\
         from jax.sharding import PartitionSpec as P\n\n"
    )
}

fn step_head(style: Style) -> String {
    let (name, about) = match style {
        Style::ShardMap => ("device_step", "What each device runs, on its blocks of the arrays."),
        _ => ("global_step", "The program on complete arrays in the plan's shardings."),
    };
    format!("\n\ndef {name}(n, given):\n    \"\"\"{about}\"\"\"\n")
}

fn sharded_step(style: Style) -> &'static str {
    match style {
        Style::ShardMap => include_str!("helpers/sharded_step.py"),
        Style::Explicit => include_str!("helpers/step_explicit.py"),
        Style::Constraints => include_str!("helpers/step_constraints.py"),
    }
}

fn specs(plan: &PlanJson) -> String {
    let declared = plan.values.iter().filter(|value| value.given.is_some());
    let mut text = "\n# How arguments are sharded".to_owned();
    if plan.values.iter().any(|value| value.role.is_some() && value.block.is_some()) {
        text += "; those of layers have one more dimension for each loop, the first";
    }
    text += ".\nIN_SPECS = {\n";
    for value in declared.clone() {
        if let Some(given) = &value.given {
            text += &layout::line(4, &format!("{:?}: {},", value.value, spec(plan, value, given)));
        }
    }
    text += "}\nOUT_SPECS = {\n";
    let mut written = IndexSet::new();
    for output in &plan.outputs {
        let value = plan.values.iter().find(|value| value.value == output.tensor.value);
        if let Some(value) = value.filter(|value| written.insert(value.value.clone())) {
            text += &layout::line(
                4,
                &format!("{:?}: {},", value.value, spec(plan, value, &output.tensor)),
            );
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
    text + "}\n" + &staged(plan)
}

/// How arguments and outputs are combined that are pending for another reduction than a sum.
fn reductions(plan: &PlanJson) -> String {
    let given = plan.values.iter().filter_map(|value| value.given.as_ref());
    let tensors = given.chain(plan.outputs.iter().map(|output| &output.tensor));
    let others: IndexSet<String> = tensors
        .filter_map(|of| {
            let how = of.reduction.as_deref().filter(|how| *how != "sum")?;
            Some(format!("{:?}: {how:?}", of.value))
        })
        .collect();
    let others = others.into_iter().collect::<Vec<_>>().join(", ");
    let line = layout::line(0, &format!("REDUCTIONS = {{{others}}}"));
    format!("\n# How what is pending is combined, where that is no sum.\n{line}")
}

/// The places of arguments and outputs at which blocks are padded.
fn padded_places(plan: &PlanJson, padded: &IndexSet<String>) -> String {
    if padded.is_empty() {
        return String::new();
    }
    let one = |value: &ValueJson, of: &TensorJson| {
        let layers = value.block.map(|block| loops(plan, block)).unwrap_or_default();
        let places = padding::places(padded, of, of.unreduced.len() + layers.len())?;
        Some(layout::line(4, &format!("{:?}: {places},", value.value)))
    };
    let given = plan.values.iter().filter_map(|value| one(value, value.given.as_ref()?));
    let value = |of: &TensorJson| plan.values.iter().find(|value| value.value == of.value);
    let left = plan.outputs.iter().map(|output| &output.tensor);
    let left = left.filter_map(|of| one(value(of)?, of));
    let left: IndexSet<String> = left.collect();
    format!(
        "\n# Where blocks of arguments and outputs are padded: places, and the fields of sizes.\n\
         PADDED_IN = {{\n{}}}\nPADDED_OUT = {{\n{}}}\n",
        given.collect::<String>(),
        left.into_iter().collect::<String>()
    )
}

/// `P("X", None)`, with a dimension for layers, and one for each pending axis.
fn spec(plan: &PlanJson, value: &ValueJson, of: &TensorJson) -> String {
    let layers = value.block.map(|block| loops(plan, block)).unwrap_or_default();
    let layers = layers.into_iter().map(|block| match &plan.blocks[block].pipeline {
        Some(stages) => format!("{:?}", stages.axis),
        None => "None".to_owned(),
    });
    let pending = of.unreduced.iter().map(|axis| format!("{axis:?}"));
    trimmed(pending.chain(layers).chain(split(of)).collect())
}

/// The same of an array with unsharded dimensions before those of the plan; sums are complete.
pub(super) fn spec_of(of: &TensorJson, leading: usize) -> String {
    trimmed(vec!["None".to_owned(); leading].into_iter().chain(split(of)).collect())
}

/// The axes of each dimension.
fn split(of: &TensorJson) -> impl Iterator<Item = String> {
    of.dims.iter().map(|dim| match dim.axes.as_slice() {
        [] => "None".to_owned(),
        split => axes(split),
    })
}

fn trimmed(mut parts: Vec<String>) -> String {
    while parts.last().is_some_and(|part| part == "None") {
        parts.pop();
    }
    format!("P({})", parts.join(", "))
}

fn argument(plan: &PlanJson, value: &ValueJson) -> String {
    let pending = value.given.iter().flat_map(|given| &given.unreduced);
    let pending: Vec<String> = pending.map(|axis| format!("{axis:?}")).collect();
    let dtype = jax_dtype(&value.dtype);
    format!("{}, {}, {dtype}", layout::tuple(&pending), dims_of(plan, value))
}
