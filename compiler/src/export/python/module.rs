//! What modules of all frameworks have: the functions of devices and of the whole, and tables.

use indexmap::IndexSet;

use super::super::json::{PlanJson, ValueJson};
use super::super::walk::structure::{self, loops};
use super::super::walk::{Result, phases, unsupported};
use super::body;
use super::dialect::{Dialect, View};
use super::layout;
use super::names::identifier;
use super::opaque;
use super::padding;
use super::sizes::{self, SizeFields, block_field, count_name};

/// The functions of a module.
pub(in crate::export) struct Functions {
    /// The body of what a device runs.
    pub(in crate::export) step: String,
    /// The body of the unsharded program.
    pub(in crate::export) reference: String,
    /// The helper functions that they call.
    pub(in crate::export) helpers: IndexSet<&'static str>,
    /// The functions that their author has to write.
    pub(in crate::export) opaque: String,
    /// The lists of axes that collectives run over together.
    pub(in crate::export) groups: IndexSet<Vec<String>>,
    /// The mesh, and sizes of dimensions and loops.
    pub(in crate::export) sizes: String,
    /// The dimensions whose blocks are padded.
    pub(in crate::export) padded: IndexSet<String>,
}

/// The functions of a plan; `small` is the same at other sizes.
pub(in crate::export) fn functions(
    plan: &PlanJson,
    small: &PlanJson,
    dialect: &dyn Dialect,
) -> Result<Functions> {
    supported(plan, dialect)?;
    let fields = SizeFields::of(plan, small);
    if dialect.has_padded_blocks() {
        padding::supported(plan, &fields.padded)?;
    } else if let Some(dim) = fields.padded.first() {
        return unsupported("", format!("the padded dimension `{dim}`"));
    }
    let view = dialect.view();
    let staged = plan.blocks.iter().find(|block| block.pipeline.is_some());
    if let Some(block) = staged.filter(|_| view == View::Sharded) {
        return unsupported(&block.name, "a pipeline, which XLA's partitioner has no stages for,");
    }
    let by_phase = phases::split(plan);
    let (step, expressions) = body::function(&by_phase, view, (&fields, dialect))?;
    let (mut helpers, groups) = (expressions.helpers, expressions.groups);
    let (reference, expressions) = body::function(plan, View::Unsharded, (&fields, dialect))?;
    helpers.extend(expressions.helpers);
    let sizes = sizes::sizes(plan, small, &fields);
    let padded = fields.padded;
    let opaque = opaque::functions(plan)?;
    Ok(Functions { step, reference, helpers, opaque, groups, sizes, padded })
}

/// Why a plan cannot be written yet.
fn supported(plan: &PlanJson, dialect: &dyn Dialect) -> Result<()> {
    if !dialect.has_pending_dims() {
        structure::has_sums_only(plan)?;
    }
    structure::has_pipelines_of_one_block(plan)?;
    structure::has_whole_layers(plan)
}

/// The block around a block whose layers are on stages.
fn on_stages(plan: &PlanJson, block: usize) -> Option<usize> {
    loops(plan, block).into_iter().find(|&block| plan.blocks[block].pipeline.is_some())
}

/// `("L", "B")`: the dimensions of an argument by the fields of their sizes, those of layers first.
pub(in crate::export) fn dims_of(plan: &PlanJson, value: &ValueJson) -> String {
    let layers = value.block.map(|block| loops(plan, block)).unwrap_or_default();
    let layers = layers.into_iter().map(|block| count_name(plan, block));
    let dims = value.dims.iter().map(|dim| identifier(dim));
    layout::tuple(&layers.chain(dims).map(|dim| format!("{dim:?}")).collect::<Vec<_>>())
}

/// The helper functions that are used, in their order.
pub(in crate::export) fn helper_text(
    used: &IndexSet<&'static str>,
    dialect: &dyn Dialect,
) -> String {
    let text = dialect.helpers().iter().filter(|(name, _)| used.contains(name));
    text.map(|(_, text)| format!("\n\n{}", text.trim_end()) + "\n").collect()
}

/// The values of layers that are on stages, and the fields that say which layers each has.
pub(in crate::export) fn staged(plan: &PlanJson) -> String {
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
