//! The module around the functions: sizes, mesh, placements, and a `main` that compares.

use super::super::json::PlanJson;
use super::super::python::collectives::tuple_of;
use super::super::python::layout;
use super::super::python::module::{Functions, dims_of, functions, helper_text, staged};
use super::super::walk::{Result, Unsupported};
use super::dialect::{Torch, torch_dtype};
use super::placements;

/// The module of a plan.
pub(super) fn module(plan: &PlanJson, small: &PlanJson) -> Result {
    let Functions { step, reference, mut helpers, opaque, groups, sizes, .. } =
        functions(plan, small, &Torch)?;
    let is_staged = plan.blocks.iter().any(|block| block.pipeline.is_some());
    if is_staged {
        helpers.insert("layer_slots");
    }
    let groups: Vec<String> = groups.iter().map(|axes| tuple_of(axes)).collect();
    let mut text = head(plan, &[&step, &reference, &helper_text(&helpers, &Torch)]);
    text += &sizes;
    text += &placements::tables(plan);
    text += "\n# The axes along which devices communicate.\n";
    text += &layout::line(0, &format!("GROUPS = {}", layout::tuple(&groups)));
    text += &arguments(plan)?;
    text += &staged(plan);
    text += "\n\n";
    text += include_str!("helpers/axes.py");
    text += &helper_text(&helpers, &Torch);
    text += &opaque;
    text += "\n\ndef device_step(axes, n, given):\n";
    text += "    \"\"\"What each device runs, on its blocks of the arrays.\"\"\"\n";
    text += &step;
    text += include_str!("helpers/mesh_of.py");
    text += if is_staged {
        include_str!("helpers/placed_staged.py")
    } else {
        include_str!("helpers/placed.py")
    };
    text += include_str!("helpers/sharded_step.py");
    text += "\n\ndef reference(n, given):\n";
    text += "    \"\"\"The same on complete arrays, for comparison.\"\"\"\n";
    text += &reference;
    text += include_str!("helpers/main.py");
    Ok(text)
}

/// The documentation, and what the functions import.
fn head(plan: &PlanJson, functions: &[&str]) -> String {
    let mesh: Vec<String> =
        plan.mesh.iter().map(|axis| format!("{}={}", axis.axis, axis.size)).collect();
    let uses = |word: &str| functions.iter().any(|text| text.contains(word));
    let imported = |word: &str, line: &str| {
        if uses(word) { format!("{line}\n") } else { String::new() }
    };
    let program = layout::in_string(&plan.program);
    format!(
        "\"\"\"{program}: a plan of shardwise, on a mesh of {}.\n\n\
         Run it to compare the plan with the unsharded program on small data:\n\n    \
         python {program}.py\n\n\
         The collectives of `device_step` are those of the plan, in its order. Comments are its\n\
         types: `x[B_X, D] {{U_Y}}` is split over X along B, and a sum over Y is pending.\n\
         \"\"\"\n\n{}{}import math\nimport tempfile\nfrom typing import NamedTuple\n\n\
         import torch\nimport torch.distributed as dist\n{}from torch import multiprocessing\n\
         from torch.distributed.device_mesh import DeviceMesh, init_device_mesh\n\
         from torch.distributed.tensor import (\n    DTensor,\n    Partial,\n    Replicate,\n    \
         Shard,\n    distribute_tensor,\n)\n{}\n",
        mesh.join(", "),
        imported("functools.", "import functools"),
        imported("itertools.", "import itertools"),
        imported("funcol.", "import torch.distributed._functional_collectives as funcol"),
        imported("functional.", "from torch.nn import functional"),
    )
}

/// Dimensions and types of arguments.
fn arguments(plan: &PlanJson) -> Result {
    let mut text = "\n# Dimensions and types of arguments.\nARGUMENTS = {\n".to_owned();
    for value in plan.values.iter().filter(|value| value.given.is_some()) {
        let dtype = torch_dtype(&value.dtype)
            .map_err(|of| Unsupported { value: value.value.clone(), ..of })?;
        let dims = dims_of(plan, value);
        text += &layout::line(4, &format!("{:?}: ({dims}, {dtype}),", value.value));
    }
    Ok(text + "}\n")
}
