//! The sizes of a module: of dimensions, trip counts, the stages of pipelines, and offsets, each a
//! field, so that the same functions run at the plan's sizes and at small ones.

use indexmap::IndexSet;

use super::super::json::{BlockJson, Operation, PlanJson, StagesJson, StepJson};
use super::super::walk::stages::chunks;
use super::expression::offset_name;
use super::layout;
use super::names::identifier;
use super::padding::{self, padded_name};

/// The field of the trip count of a block.
pub(in crate::export) fn count_name(plan: &PlanJson, block: usize) -> String {
    let of = &plan.blocks[block];
    let is_dim = plan.dims.iter().any(|dim| dim.dim == of.name);
    let word = match of {
        BlockJson { microbatches: true, .. } => "microbatches",
        BlockJson { scan: true, .. } => "steps",
        _ if is_dim => "layers",
        _ => "",
    };
    block_field(plan, block, word)
}

/// A field of a block; of its forward block for one that reverses another.
pub(in crate::export) fn block_field(plan: &PlanJson, block: usize, word: &str) -> String {
    let of = &plan.blocks[block];
    if let Some(forward) = of.reverses {
        return block_field(plan, forward, word);
    }
    let earlier =
        plan.blocks[..block].iter().any(|other| other.name == of.name && other.reverses.is_none());
    let number = if earlier { block.to_string() } else { String::new() };
    let words = [of.name.as_str(), word, &number];
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    identifier(&words.join("_"))
}

/// What has a field only in some modules.
pub(in crate::export) struct SizeFields {
    /// Values that are made with another offset at small sizes.
    pub(super) offsets: IndexSet<String>,
    /// Dimensions whose blocks are padded.
    pub(in crate::export) padded: IndexSet<String>,
}

impl SizeFields {
    pub(super) fn of(plan: &PlanJson, small: &PlanJson) -> Self {
        Self { offsets: offsets(plan, small), padded: padding::padded(plan, small) }
    }
}

/// The sizes of the plan, and the small ones.
pub(in crate::export) fn sizes(plan: &PlanJson, small: &PlanJson, of: &SizeFields) -> String {
    let mesh = |plan: &PlanJson| {
        let axes = plan.mesh.iter().map(|axis| format!("{:?}: {}", axis.axis, axis.size));
        axes.collect::<Vec<_>>().join(", ")
    };
    let mut text = layout::line(0, &format!("MESH = {{{}}}", mesh(plan)));
    text += &layout::line(0, &format!("SMALL_MESH = {{{}}}", mesh(small)));
    text += "\n\nclass Sizes(NamedTuple):\n    \"\"\"The sizes of the plan.\"\"\"\n\n";
    for [name, kind, size] in fields(plan, of) {
        text += &layout::line(4, &format!("{name}: {kind} = {size}"));
    }
    if fields(plan, of).is_empty() {
        text += "    pass\n";
    }
    let small: Vec<String> =
        fields(small, of).iter().map(|[name, _, size]| format!("{name}={size}")).collect();
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

/// Sizes of dimensions, trip counts, stages, and offsets: name, type and value.
fn fields(plan: &PlanJson, of: &SizeFields) -> Vec<[String; 3]> {
    let number = |name: String, size: u64| [name, "int".to_owned(), size.to_string()];
    let dims = plan.dims.iter().map(|dim| number(identifier(&dim.dim), dim.size));
    let forward = plan.blocks.iter().enumerate().filter(|(_, block)| block.reverses.is_none());
    let padded = plan.dims.iter().filter(|dim| of.padded.contains(&dim.dim));
    let padded = padded.map(|dim| number(padded_name(&dim.dim), dim.padded_size));
    let counts = forward.clone().map(|(id, block)| number(count_name(plan, id), block.count));
    let staged = forward.filter_map(|(id, block)| Some((id, block.pipeline.as_ref()?)));
    let staged = staged.flat_map(|(id, stages)| {
        let chunks = block_field(plan, id, "chunks");
        let microbatches = block_field(plan, id, "microbatches");
        [
            number(microbatches, stages.microbatches),
            [chunks, "tuple".to_owned(), chunks_text(stages)],
        ]
    });
    let moved = plan.steps.iter().filter(|step| of.offsets.contains(&step.value));
    let moved = moved.filter_map(|step| Some(number(offset_name(&step.value), offset(step)?)));
    dims.chain(padded).chain(counts).chain(staged).chain(moved).collect()
}

/// `((0, 4), (1, 4))`: the stage and the number of layers of each chunk.
fn chunks_text(stages: &StagesJson) -> String {
    let parts = chunks(stages).into_iter().map(|(stage, layers)| format!("({stage}, {layers})"));
    layout::tuple(&parts.collect::<Vec<_>>())
}
