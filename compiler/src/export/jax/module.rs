//! The module around the functions: sizes, mesh, specs, and a `main` that compares.

use indexmap::IndexSet;

use super::super::json::{PlanJson, TensorJson, ValueJson};
use super::body::Writer;
use super::expression::jax_dtype;
use super::layout;
use super::names::identifier;
use super::sizes::{block_field, count_name, loops};
use super::{Result, phases, sizes, unsupported};

/// Helper functions, in the order in which they are written.
const HELPERS: &[(&str, &str)] = &[
    ("dtype", include_str!("helpers/dtype.py")),
    ("local", include_str!("helpers/local.py")),
    ("own_part", include_str!("helpers/own_part.py")),
    ("first_only", include_str!("helpers/first_only.py")),
    ("relabel", include_str!("helpers/relabel.py")),
    ("roll", include_str!("helpers/roll.py")),
    ("zigzag", include_str!("helpers/zigzag.py")),
    ("microbatches", include_str!("helpers/microbatches.py")),
    ("layer_slots", include_str!("helpers/layer_slots.py")),
    ("run_stages", include_str!("helpers/run_stages.py")),
    ("sum_of_layers", include_str!("helpers/sum_of_layers.py")),
    ("joined", include_str!("helpers/joined.py")),
    ("chunks", include_str!("helpers/chunks.py")),
    ("stacked", include_str!("helpers/stacked.py")),
    ("pull_back", include_str!("helpers/pull_back.py")),
    ("adam_step", include_str!("helpers/adam_step.py")),
    ("layer_norm", include_str!("helpers/layer_norm.py")),
    ("rms_norm", include_str!("helpers/rms_norm.py")),
    ("one_hot", include_str!("helpers/one_hot.py")),
    ("take_rows", include_str!("helpers/take_rows.py")),
    ("update_rows", include_str!("helpers/update_rows.py")),
    ("pad", include_str!("helpers/pad.py")),
    ("top_k", include_str!("helpers/top_k.py")),
    ("route", include_str!("helpers/route.py")),
];

/// The module of a plan.
pub(super) fn module(plan: &PlanJson, small: &PlanJson) -> Result {
    supported(plan)?;
    let offsets = sizes::offsets(plan, small);
    let by_phase = phases::split(plan);
    let (step, expressions) = Writer::new(&by_phase, false, &offsets).body()?;
    let mut helpers = expressions.helpers;
    let (reference, expressions) = Writer::new(plan, true, &offsets).body()?;
    helpers.extend(expressions.helpers);
    let is_staged = plan.blocks.iter().any(|block| block.pipeline.is_some());
    if is_staged {
        helpers.insert("layer_slots");
    }
    let mut text = head(plan);
    text += &sizes::sizes(plan, small, &offsets);
    text += &specs(plan);
    text += &helper_text(&helpers);
    text += "\n\ndef device_step(n, given):\n";
    text += "    \"\"\"What each device runs, on its blocks of the arrays.\"\"\"\n";
    text += &step;
    text += include_str!("helpers/sharded_step.py");
    text += if is_staged {
        include_str!("helpers/placed_staged.py")
    } else {
        include_str!("helpers/placed.py")
    };
    text += "\n\ndef reference(n, given):\n";
    text += "    \"\"\"The same on complete arrays, for comparison.\"\"\"\n";
    text += &reference;
    text += include_str!("helpers/main.py");
    Ok(text)
}

/// Why a plan cannot be written yet.
fn supported(plan: &PlanJson) -> Result<()> {
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

/// The block around a block whose layers are on stages.
fn on_stages(plan: &PlanJson, block: usize) -> Option<usize> {
    loops(plan, block).into_iter().find(|&block| plan.blocks[block].pipeline.is_some())
}

/// The values of layers that are on stages, and the fields that say which layers each has.
fn staged(plan: &PlanJson) -> String {
    let of_stages =
        |value: &&ValueJson| value.block.is_some_and(|block| on_stages(plan, block).is_some());
    let is_output =
        |value: &ValueJson| plan.outputs.iter().any(|it| it.tensor.value == value.value);
    let values = plan.values.iter().filter(of_stages);
    let values = values.filter(|value| value.given.is_some() || is_output(value));
    let lines: String = values
        .filter_map(|value| {
            let field = block_field(plan, on_stages(plan, value.block?)?, "chunks");
            Some(layout::line(4, &format!("{:?}: {field:?},", value.value)))
        })
        .collect();
    if lines.is_empty() {
        return String::new();
    }
    format!(
        "\n# The chunks of layers of what is sharded over stages: by these, not in order.\n\
         STAGED = {{\n{lines}}}\n"
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
        axes => super::communication::axes(axes),
    });
    let mut parts: Vec<String> = pending.chain(layers).chain(dims).collect();
    while parts.last().is_some_and(|part| part == "None") {
        parts.pop();
    }
    format!("P({})", parts.join(", "))
}

fn argument(plan: &PlanJson, value: &ValueJson) -> String {
    let layers = value.block.map(|block| loops(plan, block)).unwrap_or_default();
    let layers = layers.into_iter().map(|block| count_name(plan, block));
    let dims = value.dims.iter().map(|dim| identifier(dim));
    let names: Vec<String> = layers.chain(dims).map(|dim| format!("{dim:?}")).collect();
    let pending = value.given.iter().flat_map(|given| &given.unreduced);
    let pending: Vec<String> = pending.map(|axis| format!("{axis:?}")).collect();
    let dtype = jax_dtype(&value.dtype);
    format!("{}, {}, {dtype}", layout::tuple(&pending), layout::tuple(&names))
}

fn helper_text(used: &IndexSet<&'static str>) -> String {
    let text = HELPERS.iter().filter(|(name, _)| used.contains(name) || *name == "dtype");
    text.map(|(_, text)| format!("\n\n{}", text.trim_end()) + "\n").collect()
}
