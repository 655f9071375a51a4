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

/// The module of a plan.
pub(super) fn module(plan: &PlanJson, small: &PlanJson) -> Result {
    let Functions { step, reference, mut helpers, sizes, padded, .. } =
        functions(plan, small, &Jax)?;
    let is_staged = plan.blocks.iter().any(|block| block.pipeline.is_some());
    if is_staged {
        helpers.insert("layer_slots");
    }
    helpers.insert("dtype");
    let mut text = head(plan);
    text += &sizes;
    text += &specs(plan);
    text += &reductions(plan);
    text += &padded_places(plan, &padded);
    text += &helper_text(&helpers, &Jax);
    text += "\n\ndef device_step(n, given):\n";
    text += "    \"\"\"What each device runs, on its blocks of the arrays.\"\"\"\n";
    text += &step;
    text += include_str!("helpers/sharded_step.py");
    text += if is_staged {
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
    let dims = of.dims.iter().map(|dim| match dim.axes.as_slice() {
        [] => "None".to_owned(),
        split => axes(split),
    });
    let mut parts: Vec<String> = pending.chain(layers).chain(dims).collect();
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
