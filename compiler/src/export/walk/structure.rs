//! Blocks around blocks, and what no target can write.

use super::super::json::{NodeJson, PlanJson};
use super::{Result, unsupported};

/// The layers around a block and its own, the outermost first.
pub(in crate::export) fn loops(plan: &PlanJson, block: usize) -> Vec<usize> {
    let mut found = path(&plan.body, block).unwrap_or_else(|| vec![block]);
    found.retain(|&block| !plan.blocks[block].microbatches);
    found
}

/// The blocks around a block, and itself.
fn path(body: &[NodeJson], wanted: usize) -> Option<Vec<usize>> {
    body.iter().find_map(|node| match node {
        NodeJson::Block { block, .. } if *block == wanted => Some(vec![wanted]),
        NodeJson::Block { block, body } => {
            path(body, wanted).map(|inner| [vec![*block], inner].concat())
        }
        NodeJson::Step(_) => None,
    })
}

/// Why a plan cannot be written yet.
pub(in crate::export) fn supported(plan: &PlanJson) -> Result<()> {
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
    has_sums_only(plan)?;
    has_pipelines_of_one_block(plan)?;
    has_whole_layers(plan)
}

/// Whether arguments and outputs are pending as sums, not as maxima or minima.
pub(in crate::export) fn has_sums_only(plan: &PlanJson) -> Result<()> {
    let leaving = plan.outputs.iter().map(|output| &output.tensor);
    let given = plan.values.iter().filter_map(|value| value.given.as_ref());
    for tensor in leaving.chain(given) {
        if tensor.reduction.as_deref().is_some_and(|how| how != "sum") {
            return unsupported(&tensor.value, "an argument or output of partial maxima or minima");
        }
    }
    Ok(())
}

/// Whether the layers of every pipeline are in one block.
pub(in crate::export) fn has_pipelines_of_one_block(plan: &PlanJson) -> Result<()> {
    let inside = plan.body.iter().filter_map(|node| match node {
        NodeJson::Block { body, .. } => Some(body),
        NodeJson::Step(_) => None,
    });
    for node in inside.flatten() {
        let NodeJson::Block { block, .. } = node else { continue };
        let block = &plan.blocks[*block];
        if block.pipeline.is_some() {
            return unsupported(&block.name, "a pipeline of several blocks");
        }
    }
    Ok(())
}

/// Whether parameters of layers are given as they are, not as parts of a sum.
pub(in crate::export) fn has_whole_layers(plan: &PlanJson) -> Result<()> {
    for value in plan.values.iter().filter(|value| value.block.is_some()) {
        if value.given.as_ref().is_some_and(|given| !given.unreduced.is_empty()) {
            return unsupported(&value.value, "a parameter of layers that is given in parts");
        }
    }
    Ok(())
}
