//! Blocks of padded dimensions. Where a dimension is sharded, all blocks are as long as the first
//! one, and what lies beyond the end of the dimension is undefined; where it is complete, it has
//! its own size. So only sums and other reductions along a sharded dimension have to leave out what
//! lies beyond, and only collectives that shard or complete one change its size.
//!
//! Keeping zeros there would not do: functions of zero are not zero, and a maximum needs others.

use indexmap::IndexSet;

use super::super::json::{Operation, PlanJson, StepJson, TensorJson};
use super::super::walk::collectives::place_of;
use super::super::walk::{Result, unsupported};
use super::expression::Expressions;
use super::names::identifier;

/// The dimensions whose blocks are padded, in a plan or in the same plan at small sizes.
pub(super) fn padded(plan: &PlanJson, small: &PlanJson) -> IndexSet<String> {
    let is_padded = |dim: &str| {
        let of = |plan: &PlanJson| {
            plan.dims.iter().any(|other| other.dim == dim && other.padded_size != other.size)
        };
        of(plan) || of(small)
    };
    let tensors = plan.steps.iter().flat_map(|step| step.operands.iter().chain([&step.result]));
    let given = plan.values.iter().filter_map(|value| value.given.as_ref());
    let dims = tensors.chain(given).flat_map(|of| &of.dims).filter(|dim| !dim.axes.is_empty());
    dims.filter(|dim| is_padded(&dim.dim)).map(|dim| dim.dim.clone()).collect()
}

/// The field of the size that blocks of a padded dimension are cut from.
pub(in crate::export) fn padded_name(dim: &str) -> String {
    identifier(&format!("{dim}_padded"))
}

/// `{0: "N"}`: the places of an array that have padded blocks, and the fields of their sizes;
/// `first` are the dimensions before those of the value.
pub(in crate::export) fn places(
    padded: &IndexSet<String>,
    of: &TensorJson,
    first: usize,
) -> Option<String> {
    let dims = of.dims.iter().enumerate();
    let dims = dims.filter(|(_, dim)| !dim.axes.is_empty() && padded.contains(&dim.dim));
    let places: Vec<String> =
        dims.map(|(place, dim)| format!("{}: {:?}", first + place, identifier(&dim.dim))).collect();
    (!places.is_empty()).then(|| format!("{{{}}}", places.join(", ")))
}

/// Why padded blocks of a plan cannot be written yet.
pub(super) fn supported(plan: &PlanJson, padded: &IndexSet<String>) -> Result<()> {
    let Some(any) = padded.first() else { return Ok(()) };
    if plan.blocks.iter().any(|block| block.pipeline.is_some()) {
        return unsupported("", format!("the padded dimension `{any}` in a pipeline"));
    }
    for step in &plan.steps {
        let tensors = || step.operands.iter().chain([&step.result]);
        let is_split = |dim: &str| {
            let of = tensors().flat_map(|of| &of.dims).find(|of| of.dim == dim);
            padded.contains(dim) && of.is_some_and(|of| !of.axes.is_empty())
        };
        if let Some(dim) = regrouped(step).into_iter().find(|dim| is_split(dim)) {
            return unsupported(&step.value, format!("the padded dimension `{dim}`"));
        }
    }
    Ok(())
}

/// The dimensions whose elements a step puts elsewhere, block by block.
fn regrouped(step: &StepJson) -> Vec<&str> {
    match &step.operation {
        Some(Operation::Reshape { groups }) => {
            groups.iter().flat_map(|(old, new)| old.iter().chain(new)).map(String::as_str).collect()
        }
        Some(
            Operation::Part { from, to }
            | Operation::Join { from, to }
            | Operation::Windows { from, to, .. }
            | Operation::Overlap { from, to, .. },
        ) => vec![from, to],
        Some(Operation::Roll { dim, .. }) => vec![dim],
        Some(Operation::Chunk { from, to }) => {
            std::iter::once(from).chain(to).map(|dim| &**dim).collect()
        }
        Some(Operation::Stack { from, to }) => from.iter().chain([to]).map(|dim| &**dim).collect(),
        _ => Vec::new(),
    }
}

impl Expressions<'_> {
    /// Whether blocks along a dimension may go beyond its end.
    pub(super) fn is_padded(&self, of: &TensorJson, dim: &str) -> bool {
        let split = of.dims.iter().find(|other| other.dim == dim);
        self.padded.contains(dim) && split.is_some_and(|split| !self.is_whole(&split.axes))
    }

    /// A block with `fill` for what lies beyond the end of some of its dimensions.
    pub(super) fn within(
        &mut self,
        of: &TensorJson,
        text: &str,
        dims: &[String],
        fill: &str,
    ) -> String {
        let mut text = text.to_owned();
        for dim in dims.iter().filter(|dim| of.dims.iter().any(|other| other.dim == **dim)) {
            if self.is_padded(of, dim) {
                self.helper("within");
                let start = self.start(of, dim).unwrap_or_default();
                let (place, size) = (place_of(of, dim), identifier(dim));
                text = format!("within({text}, {place}, n.{size} - {start}, {fill})");
            }
        }
        text
    }

    /// What a collective gets: a dimension that it shards is padded before.
    pub(super) fn padded_before(&mut self, step: &StepJson, text: &str) -> String {
        let mut text = text.to_owned();
        for (place, dim) in step.operands[0].dims.iter().enumerate() {
            if dim.axes.is_empty() && self.is_padded(&step.result, &dim.dim) {
                self.helper("pad");
                text = format!("pad({text}, 0, n.{}, {place})", padded_name(&dim.dim));
            }
        }
        text
    }

    /// What a collective leaves: a dimension that it completes has its own size.
    pub(super) fn cut_after(&self, step: &StepJson, text: &str) -> String {
        let mut text = text.to_owned();
        for (place, dim) in step.result.dims.iter().enumerate() {
            if dim.axes.is_empty() && self.is_padded(&step.operands[0], &dim.dim) {
                let size = format!("n.{}", identifier(&dim.dim));
                text = self.dialect.window(&text, place, "0", &size);
            }
        }
        text
    }
}
