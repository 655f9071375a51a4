//! `export jax --format specs`: the shardings of a plan alone, for modules that Flax, `MaxText` or
//! `jax.jit` partition: a `PartitionSpec` for each parameter by name, and logical axes with the
//! rules that map them to the mesh.
//!
//! A logical axis is a dimension. A rule maps a name to the same mesh axes in all arrays; so where
//! arrays split one dimension in different ways, each way has its own name (`D`, `D@X`), and the
//! rules say exactly what the specs say.

use std::collections::{BTreeMap, BTreeSet};

use super::super::json::{PlanJson, TensorJson, ValueJson};
use super::super::python::layout;
use super::super::python::sizes::count_name;
use super::super::walk::structure::loops;

/// The dictionaries of the module: the role of their values, their name, and what they are.
const ROLES: [(&str, &str, &str); 3] = [
    ("param", "PARAMS", "Parameters"),
    ("state", "STATE", "State: caches and moments"),
    ("input", "INPUTS", "Inputs"),
];

/// An axis of an array: its name, and the mesh axes that split it.
type Axis = (String, Vec<String>);

/// The module of a plan.
pub(super) fn module(plan: &PlanJson) -> String {
    let mesh: Vec<String> =
        plan.mesh.iter().map(|axis| format!("{:?}: {}", axis.axis, axis.size)).collect();
    let mut text = format!(
        "\"\"\"{}: how a plan of shardwise shards its arrays.\n\n\
         Arrays of layers have one more dimension for each loop around them, the outermost first.\n\
         \"\"\"\n\nfrom jax.sharding import PartitionSpec as P\n\n",
        layout::in_string(&plan.program)
    );
    text += &layout::line(0, &format!("MESH = {{{}}}", mesh.join(", ")));
    for (role, name, about) in ROLES {
        let of_role = |value: &&ValueJson| value.role.as_deref() == Some(role);
        let declared = plan.values.iter().filter(of_role);
        let given = declared.filter_map(|value| Some((value, value.given.as_ref()?)));
        text += &specs(plan, name, about, given);
    }
    let left = plan.outputs.iter().filter(|output| output.updates.is_none()).filter_map(|output| {
        let value = plan.values.iter().find(|value| value.value == output.tensor.value)?;
        Some((value, &output.tensor))
    });
    text += &specs(plan, "OUTPUTS", "Outputs, without those that are parameters or state", left);
    text + &logical(plan)
}

fn specs<'p>(
    plan: &PlanJson,
    name: &str,
    about: &str,
    values: impl Iterator<Item = (&'p ValueJson, &'p TensorJson)>,
) -> String {
    let mut text = format!("\n# {about}.\n{name} = {{\n");
    let mut written = BTreeSet::new();
    for (value, tensor) in values {
        if written.insert(&value.value) {
            let spec = spec(&axes(plan, value, tensor));
            text += &layout::line(4, &format!("{:?}: {spec},", value.value));
        }
    }
    text + "}\n"
}

fn spec(axes: &[Axis]) -> String {
    let mut parts: Vec<String> = axes.iter().map(|(_, mesh)| mesh_axes(mesh)).collect();
    while parts.last().is_some_and(|part| part == "None") {
        parts.pop();
    }
    format!("P({})", parts.join(", "))
}

fn mesh_axes(axes: &[String]) -> String {
    if axes.is_empty() { "None".to_owned() } else { super::super::python::collectives::axes(axes) }
}

/// The axes of a value: loops, then dimensions. Sums that are pending are no axes: the value is
/// theirs, as XLA's partitioner reads specs.
fn axes(plan: &PlanJson, value: &ValueJson, tensor: &TensorJson) -> Vec<Axis> {
    let loops = value.block.map(|block| loops(plan, block)).unwrap_or_default();
    let loops = loops.into_iter().map(|block| (layers(plan, block), stages(plan, block)));
    let dims = value.dims.iter().map(|name| {
        let split = tensor.dims.iter().find(|dim| dim.dim == *name);
        (name.clone(), split.map_or_else(Vec::new, |dim| dim.axes.clone()))
    });
    loops.chain(dims).collect()
}

/// The logical name of the layers of a block.
fn layers(plan: &PlanJson, block: usize) -> String {
    count_name(plan, block)
}

/// The stage axis that splits layers, where stages have neighbouring layers, all as many.
fn stages(plan: &PlanJson, block: usize) -> Vec<String> {
    let Some(pipeline) = &plan.blocks[block].pipeline else { return Vec::new() };
    let of_layer = &pipeline.stage_of_layer;
    let stages = of_layer.iter().max().map_or(1, |last| last + 1) as usize;
    let is_even = of_layer.len().is_multiple_of(stages);
    let share = of_layer.len() / stages;
    let is_in_order = of_layer.iter().enumerate().all(|(at, &stage)| at / share == stage as usize);
    if is_even && is_in_order { vec![pipeline.axis.clone()] } else { Vec::new() }
}

/// Logical axes of all arrays that are given, and their rules.
fn logical(plan: &PlanJson) -> String {
    let given = plan
        .values
        .iter()
        .filter_map(|value| Some((value.value.clone(), axes(plan, value, value.given.as_ref()?))));
    let given: Vec<(String, Vec<Axis>)> = given.collect();
    let mut ways: BTreeMap<&str, BTreeSet<&[String]>> = BTreeMap::new();
    for (name, mesh) in given.iter().flat_map(|(_, axes)| axes) {
        ways.entry(name).or_default().insert(mesh);
    }
    let mut rules: BTreeMap<String, &[String]> = BTreeMap::new();
    let mut lines = String::new();
    for (value, axes) in &given {
        let mut names = Vec::new();
        for (name, mesh) in axes {
            let is_one_way = ways[name.as_str()].len() == 1 || mesh.is_empty();
            let logical =
                if is_one_way { name.clone() } else { format!("{name}@{}", mesh.join(",")) };
            names.push(format!("{logical:?}"));
            rules.insert(logical, mesh);
        }
        lines += &layout::line(4, &format!("{value:?}: {},", layout::tuple(&names)));
    }
    let rules = rules
        .iter()
        .map(|(name, mesh)| layout::line(4, &format!("({name:?}, {}),", mesh_axes(mesh))));
    format!(
        "\n# The logical axes of each array: its dimensions, named by how they are split where \
         that differs.\nLOGICAL_AXES = {{\n{lines}}}\n\n\
         # Rules of Flax, and `logical_axis_rules` of MaxText.\nLOGICAL_AXIS_RULES = (\n{})\n",
        rules.collect::<String>()
    )
}
