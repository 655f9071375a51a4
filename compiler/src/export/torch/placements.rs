//! `DTensor` placements of arguments and outputs: for each axis of the mesh what it does to an
//! array, in the order in which axes split it.
//!
//! A list of placements is read from the first axis of the mesh to the last, so that it cannot say
//! that a later axis splits a dimension before an earlier one. A mesh with its axes in the other
//! order can; so placements are listed by axis, in the order that this array needs.

use indexmap::IndexSet;

use super::super::json::{PlanJson, TensorJson, ValueJson};
use super::super::python::layout;
use super::super::walk::structure::loops;

/// The tables of a plan.
pub(super) fn tables(plan: &PlanJson) -> String {
    let mut text = "\n# What each axis of the mesh does to arguments".to_owned();
    if plan.values.iter().any(|value| value.role.is_some() && value.block.is_some()) {
        text += "; those of layers have one more dimension for each\n# loop, the first";
    }
    text += ".\nIN_PLACEMENTS = {\n";
    for value in &plan.values {
        if let Some(given) = &value.given {
            text += &line(plan, value, given);
        }
    }
    text += "}\n\n# The same for outputs.\nOUT_PLACEMENTS = {\n";
    let mut written = IndexSet::new();
    for output in &plan.outputs {
        let value = plan.values.iter().find(|value| value.value == output.tensor.value);
        if let Some(value) = value.filter(|value| written.insert(value.value.clone())) {
            text += &line(plan, value, &output.tensor);
        }
    }
    text + "}\n"
}

/// `"x": {"X": Shard(0), "Y": Replicate()},`
fn line(plan: &PlanJson, value: &ValueJson, of: &TensorJson) -> String {
    let layers = value.block.map(|block| loops(plan, block)).unwrap_or_default();
    let stages = |block: usize| plan.blocks[block].pipeline.as_ref().map(|it| it.axis.as_str());
    let layers: Vec<Option<&str>> = layers.into_iter().map(stages).collect();
    let order = order(plan, of);
    let in_mesh_order = order.iter().copied().eq(plan.mesh.iter().map(|axis| axis.axis.as_str()));
    let mut text = String::new();
    if !in_mesh_order {
        text += "    # On a mesh with its axes in this order: a later one splits first.\n";
    }
    let placements: Vec<String> = order
        .into_iter()
        .map(|axis| format!("{axis:?}: {}", placement(of, axis, &layers)))
        .collect();
    let placements = format!("{:?}: {{{}}},", value.value, placements.join(", "));
    text + &layout::line(4, &placements)
}

/// The axes of the mesh, each after those that split the same dimension before it.
fn order<'p>(plan: &'p PlanJson, of: &'p TensorJson) -> Vec<&'p str> {
    let mut left: Vec<&str> = plan.mesh.iter().map(|axis| axis.axis.as_str()).collect();
    let mut found: Vec<&str> = Vec::new();
    while !left.is_empty() {
        let is_next = |axis: &&str| {
            let dim = of.dims.iter().find(|dim| dim.axes.iter().any(|other| other == axis));
            dim.is_none_or(|dim| {
                let before = dim.axes.iter().take_while(|other| *other != axis);
                before.into_iter().all(|other| found.contains(&other.as_str()))
            })
        };
        let place = left.iter().position(is_next).unwrap_or(0);
        found.push(left.remove(place));
    }
    found
}

/// What an axis does to an array, whose first dimensions are of layers: on the stages of an axis,
/// or on all devices.
fn placement(of: &TensorJson, axis: &str, layers: &[Option<&str>]) -> String {
    if let Some(place) = layers.iter().position(|stages| *stages == Some(axis)) {
        return format!("Shard({place})");
    }
    if of.unreduced.iter().any(|other| other == axis) {
        return match of.reduction.as_deref() {
            None | Some("sum") => "Partial()".to_owned(),
            Some(how) => format!("Partial({how:?})"),
        };
    }
    let dim = of.dims.iter().position(|dim| dim.axes.iter().any(|other| other == axis));
    dim.map_or("Replicate()".to_owned(), |dim| format!("Shard({})", dim + layers.len()))
}
