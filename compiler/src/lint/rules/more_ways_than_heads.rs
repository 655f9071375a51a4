//! `more-ways-than-heads`: tensor parallelism is wider than the number of heads.
//!
//! Heads are a dimension of a weight that both factors of a product of activations keep: queries
//! and keys are multiplied head by head. The dimension that the product sums (a head's features)
//! should not be split; without more heads to split, values are replicated.

use shardwise_ir::ids::{AxisId, DimId, OpId, ValueId};
use shardwise_ir::mesh::Axis;
use shardwise_ir::plan::Step;
use shardwise_ir::program::{Dim, Op, OpKind, Program};
use shardwise_ir::sharding::{AxisRef, Pin};
use shardwise_passes::crossover::batch_like;
use shardwise_passes::local_shape;
use shardwise_passes::report::StepCost;

use crate::display::units;
use crate::lint::analysis::program::is_param;
use crate::lint::definition::{Finding, Group, Level, Lint, LintContext};

pub(crate) const LINT: Lint = Lint {
    code: "SW315",
    name: "more-ways-than-heads",
    group: Group::Communication,
    level: Level::Warn,
    of_plans: false,
    what: "Tensor parallelism has more shards than there are (KV) heads.",
    why: "Attention is sharded by heads without communication. An axis that does not divide the \
        heads splits every head instead, and all scores become partial sums; or it splits \
        nothing, and the devices along it hold the same keys and values. Use the remaining \
        devices for the batch or the sequence.",
    bad_example: "hardware tpu-v5e
mesh Y=16
dim B=64, S=1024, D=4096, K=8, G=4, H=128
input X[B, D]
param WQ[D, K, G, H_Y]
state Keys[B, S, K, H_Y]
Q = X *D WQ
Scores = Q *H Keys
output Scores[B, K, G, S_Y]
",
    good_example: "hardware tpu-v5e
mesh Y=8, Z=2
dim B=64, S=1024, D=4096, K=8, G=4, H=128
input X[B_Z, D]
param WQ[D, K_Y, G, H]
state Keys[B_Z, S, K_Y, H]
Q = X *D WQ
Scores = Q *H Keys
output Scores[B_Z, K_Y, G, S]
",
    parameters: &[],
    check,
};

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    let program = context.program;
    let mut reported: Vec<(DimId, AxisId)> = Vec::new();
    let mut found = Vec::new();
    for op in &program.ops {
        for heads in heads(program, op) {
            for axis in ways(program) {
                if !reported.contains(&(heads, axis))
                    && let Some(finding) = finding(context, op, heads, axis)
                {
                    reported.push((heads, axis));
                    found.push(finding);
                }
            }
        }
    }
    found
}

/// The heads that the factors of a product of activations share.
fn heads(program: &Program, op: &Op) -> Vec<DimId> {
    let OpKind::Einsum { contracted } = &op.kind else { return Vec::new() };
    let (left, right) = (op.operands[0].value, op.operands[1].value);
    if contracted.is_empty() || is_param(program, left) || is_param(program, right) {
        return Vec::new();
    }
    let of_param = |dim: &DimId| {
        program
            .values
            .indices()
            .any(|id| is_param(program, id) && program.values[id].dims.contains(dim))
    };
    let both = program.values[left]
        .dims
        .iter()
        .copied()
        .filter(|dim| program.values[right].dims.contains(dim));
    both.filter(|dim| !contracted.contains(dim) && of_param(dim)).collect()
}

/// The axes of tensor parallelism: those that split weights, and no batch of a declared value.
fn ways(program: &Program) -> Vec<AxisId> {
    let batch = batch_like(program);
    let splits = |axis: AxisId, weights: bool| {
        program
            .values
            .iter_enumerated()
            .filter(|(id, value)| value.role.is_some() && (!weights || is_param(program, *id)))
            .any(|(_, value)| {
                let dims = value
                    .dims
                    .iter()
                    .zip(value.declared_sharding.iter().flat_map(|declared| &declared.dims));
                dims.filter(|(dim, _)| weights || batch.contains(dim))
                    .any(|(_, pin)| uses(pin.named().iter(), axis))
            })
    };
    program
        .mesh
        .ids()
        .filter(|&axis| {
            program.mesh.axes[axis].size > 1 && splits(axis, true) && !splits(axis, false)
        })
        .collect()
}

fn uses<'a>(mut axes: impl Iterator<Item = &'a AxisRef>, axis: AxisId) -> bool {
    axes.any(|other| other.axis() == axis)
}

fn finding(context: &LintContext<'_>, op: &Op, heads: DimId, axis: AxisId) -> Option<Finding> {
    let program = context.program;
    let (dim, along) = (&program.dims[heads], &program.mesh.axes[axis]);
    if dim.size.is_multiple_of(along.size) || splits_others(context, op, heads, axis) {
        return None;
    }
    let held = program.values.indices().filter(|&id| {
        program.values[id].role.is_some() && program.values[id].dims.contains(&heads)
    });
    let (of, fault) =
        held.into_iter().find_map(|id| Some((id, fault(program, op, id, heads, axis)?)))?;
    let (seconds, bytes, what, label) = match fault {
        Fault::SplitsHeads(feature) => {
            let moves = || {
                context.best().moves().filter(|(_, step, cost, _)| {
                    step.result.value == op.result && cost.axes.contains(&axis)
                })
            };
            let label =
                format!("every head is sharded along `{}` instead", program.dims[feature].name);
            (
                moves().map(|(_, _, cost, _)| cost.seconds).sum(),
                moves().map(|(_, _, cost, _)| cost.bytes).sum(),
                "of sums to reduce",
                label,
            )
        }
        Fault::Repeats => {
            let declared = program.values[of].declared_sharding.as_ref().and_then(Pin::exact)?;
            let held = local_shape::local_bytes(program, of, &declared);
            let bytes = held - held / along.size as f64;
            let seconds = program.hardware.hbm_bandwidth.map_or(0.0, |bandwidth| bytes / bandwidth);
            (seconds, bytes, "repeated", format!("the same on all {} devices", along.size))
        }
    };
    if bytes == 0.0 {
        return None;
    }
    let message = format!(
        "`{}` has {} ways, but there are {} of `{}`: {} {what}",
        along.name,
        along.size,
        dim.size,
        dim.name,
        units::bytes(bytes)
    );
    Some(
        Finding::new(&LINT, message, program.values[of].span, label)
            .and(op.span, "heads meet here")
            .help(otherwise(dim, along))
            .costs(seconds, bytes),
    )
}

/// Whether the plan splits another dimension of a product over an axis: then its devices have
/// other rows of the batch, or of the sequence.
fn splits_others(context: &LintContext<'_>, op: &Op, heads: DimId, axis: AxisId) -> bool {
    let values = &context.program.values;
    let is_of_op = |of: &(&Step, &StepCost, OpId)| context.program.ops[of.2].result == op.result;
    context.best().work().filter(is_of_op).any(|(step, ..)| {
        let dims = values[op.result].dims.iter().zip(&step.result.sharding.dims);
        dims.filter(|(dim, _)| **dim != heads).any(|(_, axes)| uses(axes.iter(), axis))
    })
}

/// What to do with the devices for which there are no heads.
fn otherwise(heads: &Dim, axis: &Axis) -> String {
    let (heads, most, axis, ways) = (&heads.name, heads.size, &axis.name, axis.size);
    if axis.contains('.') || !ways.is_multiple_of(most) {
        return format!(
            "split `{heads}` at most {most} ways, and give the other devices of `{axis}` an axis \
                of their own, for the batch or the sequence"
        );
    }
    format!(
        "use its parts, `mesh {axis}={ways} as {most}x{}`: `{heads}_{axis}.0`, and \
            `{axis}.1` for the batch or the sequence",
        ways / most
    )
}

/// The effect of an axis for which there are no heads.
enum Fault {
    /// It splits this, which the product sums.
    SplitsHeads(DimId),
    /// It splits nothing.
    Repeats,
}

fn fault(program: &Program, op: &Op, of: ValueId, heads: DimId, axis: AxisId) -> Option<Fault> {
    let OpKind::Einsum { contracted } = &op.kind else { return None };
    let value = &program.values[of];
    let declared = value.declared_sharding.as_ref().and_then(Pin::exact)?;
    let split = |dim: DimId| {
        value.dims.iter().position(|&other| other == dim).map(|place| &declared.dims[place])
    };
    let taken =
        split(heads)?.iter().fold(1_u64, |n, other| n.saturating_mul(other.size(&program.mesh)));
    let together = taken.saturating_mul(program.mesh.axes[axis].size);
    if uses(split(heads)?.iter(), axis) || together <= program.dims[heads].size {
        return None;
    }
    let feature = contracted
        .iter()
        .copied()
        .find(|&dim| split(dim).is_some_and(|axes| uses(axes.iter(), axis)));
    let whole = !declared.axes().any(|other| other.axis() == axis);
    feature.map(Fault::SplitsHeads).or(whole.then_some(Fault::Repeats))
}
