//! Programs of complete arrays, in which each statement says how its result is sharded and XLA's
//! partitioner inserts the collectives: `--style explicit` and `--style constraints`.
//!
//! `explicit` has shardings in the types of arrays: a product says with `out_sharding` what becomes
//! of the sum that it leaves, `reshard` stands where the plan has a collective, and JAX refuses
//! a statement whose sharding is not certain; so statements other than products and element-wise
//! functions run under `auto_axes` with the planned sharding of their result. `constraints` puts
//! `with_sharding_constraint` around each statement.
//!
//! Neither promises the plan's collectives. Both say where a value is, not how it gets there: the
//! partitioner may gather in another order, all together or in parts, may move a collective
//! through other statements, or merge two of the plan's. Partial sums have no name in a constraint,
//! so that such values have none, and the partitioner reduces them where it likes; on CPU it
//! always writes an `AllReduce` and a slice for a `ReduceScatter`. Only `shard_map` runs the plan.
//! (`PartitionSpec(unreduced=…)` would name them, but few operations take such values.)

use super::super::json::{Operation, PlanJson, StepJson, TensorJson};
use super::super::python::dialect::Written;
use super::super::python::expression::Expressions;
use super::super::python::layout::tuple;
use super::super::walk::collectives::is_collective;
use super::module::spec_of;

/// How a module has the plan's shardings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::export) enum Style {
    /// The plan's collectives under `jax.shard_map`.
    ShardMap,
    /// Shardings in types.
    Explicit,
    /// Constraints.
    Constraints,
}

/// A complete array in its planned sharding.
pub(super) fn annotated(
    style: Style,
    e: &mut Expressions<'_>,
    of: &Written<'_>,
    text: String,
) -> String {
    // A mesh without axes has no shardings.
    if e.plan.mesh.is_empty() {
        return text;
    }
    let spec = spec_of(of.of, of.leading);
    match style {
        Style::ShardMap => text,
        Style::Constraints if !of.of.unreduced.is_empty() => text,
        Style::Constraints => format!("lax.with_sharding_constraint({text}, {spec})"),
        Style::Explicit => explicit(e.plan, of, text, &spec),
    }
}

fn explicit(plan: &PlanJson, of: &Written<'_>, text: String, spec: &str) -> String {
    match of.step {
        None => format!("reshard({text}, {spec})"),
        Some(step) if is_collective(step) || of.variables.is_empty() => {
            format!("reshard({text}, {spec})")
        }
        Some(step) => match &step.operation {
            Some(Operation::Einsum { contracted }) if !contracted.is_empty() => {
                let spec = spec_of(reduced(plan, step), 0);
                let call = text.strip_suffix(')').unwrap_or(&text);
                format!("{call}, out_sharding={spec})")
            }
            Some(Operation::Last | Operation::Total) => text,
            _ if is_elementwise(step) => text,
            _ => in_auto(of.variables, &text, spec),
        },
    }
}

/// What becomes of a sum that a product leaves: the sharding in which the only step that reads it
/// reduces it, or its own.
fn reduced<'p>(plan: &'p PlanJson, step: &'p StepJson) -> &'p TensorJson {
    let mut readers = plan.steps.iter().filter(|other| other.operands.contains(&step.result));
    let leaves = plan.outputs.iter().any(|output| output.tensor == step.result);
    let yielded = plan.blocks.iter().flat_map(|block| &block.yields);
    let is_read_once = !leaves && !yielded.into_iter().any(|one| one.tensor == step.result);
    match (readers.next(), readers.next()) {
        (Some(only), None) if is_read_once => match only.operation {
            Some(Operation::AllReduce { .. } | Operation::ReduceScatter { .. }) => &only.result,
            _ => &step.result,
        },
        _ => &step.result,
    }
}

/// Whether a step's operands have its dimensions, in its shardings.
fn is_elementwise(step: &StepJson) -> bool {
    let is_map = matches!(
        &step.operation,
        Some(Operation::Map { .. } | Operation::Cast { .. } | Operation::Einsum { .. })
    );
    is_map && step.operands.iter().all(|of| of.dims == step.result.dims)
}

/// A call of a function of what is read, in which shardings are left to the partitioner.
fn in_auto(variables: &[String], text: &str, spec: &str) -> String {
    let mut given: Vec<&String> = Vec::new();
    for variable in variables {
        if !given.contains(&variable) {
            given.push(variable);
        }
    }
    let is_name = |text: &str| text.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
    let mut body = text.to_owned();
    let mut names = Vec::new();
    for (number, variable) in given.iter().enumerate() {
        if is_name(variable) {
            names.push((*variable).clone());
        } else {
            let name = format!("given_{number}");
            body = body.replace(variable.as_str(), &name);
            names.push(name);
        }
    }
    let given: Vec<String> = given.into_iter().cloned().collect();
    let given = tuple(&given);
    let names = names.join(", ");
    format!("auto_axes(lambda {names}: {body}, out_sharding={spec})(*{given})")
}
