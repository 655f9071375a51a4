//! `small-shard`: blocks smaller than the matrix unit, which computes their padding as well.
//!
//! The unit's edge is that of the chip (256 from the sixth generation on, 128 before); for chips
//! without a systolic array the lint is silent unless the edge is set.

use shardwise_ir::ids::{DimId, OpId};
use shardwise_ir::plan::{Step, StepKind};
use shardwise_ir::program::{Op, OpKind, Program};
use shardwise_passes::local;
use shardwise_passes::local_shape;
use shardwise_passes::op_layouts::indices;
use shardwise_passes::report::StepCost;

use crate::display::units;
use crate::lint::analysis::program::is_worth_reporting;
use crate::lint::definition::{Finding, Group, Level, Lint, LintContext, Parameter};

pub(crate) const LINT: Lint = Lint {
    code: "SW322",
    name: "small-shard",
    group: Group::Compute,
    level: Level::Warn,
    of_plans: false,
    what: "A product is sharded so finely that a block is smaller than the matrix unit, though \
        the unsharded dimension is not.",
    why: "The unit multiplies 128x128 (or 256x256) blocks, padded if necessary: a block of 64 \
        takes as long as one of 128. Sharding over a smaller axis, or another dimension, uses all \
        of it.",
    bad_example: "hardware tpu-v5p
mesh X=16, Y=16
dim B=65536, D=8192, F=1024
input In[B_X, D]
param Win[D, F_Y]
Tmp = In *D Win
output Tmp[B_X, F_Y]
",
    good_example: "hardware tpu-v5p
mesh X=32, Y=8
dim B=65536, D=8192, F=1024
input In[B_X, D]
param Win[D, F_Y]
Tmp = In *D Win
output Tmp[B_X, F_Y]
",
    parameters: &[Parameter {
        name: "unit",
        default: 0.0,
        meaning: "edge of the matrix unit; 0: \
        that of the chip",
    }],
    check,
};

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    let Some(unit) = unit(context) else { return Vec::new() };
    let is_small =
        |(step, ..): &(&Step, &StepCost, OpId)| smallest(context.program, step, unit).is_some();
    if !context.textbook.work().any(|step| is_small(&step)) {
        return Vec::new();
    }
    context.best().work().filter_map(|(step, _, op)| finding(context, step, op, unit)).collect()
}

/// The edge of the matrix unit.
fn unit(context: &LintContext<'_>) -> Option<f64> {
    let set = LINT.number(context, "unit");
    let name = context.program.hardware.name.as_str();
    let of_chip = || {
        name.starts_with("tpu").then_some(if ["tpu-v6e", "tpu7x"].contains(&name) {
            256.0
        } else {
            128.0
        })
    };
    if set > 0.0 { Some(set) } else { of_chip() }
}

/// One side of a product: its indices.
type Side = Vec<DimId>;

/// The rows, columns and summed indices of a product.
fn sides(program: &Program, op: &Op) -> Vec<Side> {
    let OpKind::Einsum { contracted } = &op.kind else { return Vec::new() };
    let of = |operand: usize| &program.values[op.operands[operand].value].dims;
    let only = |here: usize, other: usize| {
        indices(program, op)
            .into_iter()
            .filter(|dim| of(here).contains(dim) && !of(other).contains(dim))
            .collect()
    };
    vec![contracted.clone(), only(0, 1), only(1, 0)]
}

/// The smallest side that splitting has made smaller than the unit, and its block's size.
fn smallest(program: &Program, step: &Step, unit: f64) -> Option<(Side, f64)> {
    let StepKind::Local(op) = step.kind else { return None };
    let size = |dim: DimId| {
        let held = step.operands.iter().find_map(|of| {
            let place = program.values[of.value].dims.iter().position(|other| *other == dim)?;
            Some(local_shape::local_size(
                program,
                program.values[of.value].repeat,
                dim,
                &of.sharding.dims[place],
            ) as f64)
        });
        held.unwrap_or(1.0)
    };
    let whole =
        |side: &Side| side.iter().map(|&dim| program.dims[dim].size as f64).product::<f64>();
    let block = |side: &Side| side.iter().map(|&dim| size(dim)).product::<f64>();
    let small = sides(program, &program.ops[op])
        .into_iter()
        .filter(|side| !side.is_empty() && whole(side) >= unit && block(side) < unit);
    small.map(|side| (side.clone(), block(&side))).min_by(|a, b| a.1.total_cmp(&b.1))
}

fn finding(context: &LintContext<'_>, step: &Step, op: OpId, unit: f64) -> Option<Finding> {
    let program = context.program;
    let (side, block) = smallest(program, step, unit)?;
    let read: Vec<_> = step.operands.iter().map(|of| &of.sharding).collect();
    let work = local::work(program, &program.ops[op], &read, &step.result.sharding);
    let (plain, padded) = (work.flops_s, work.flops_s * unit / block);
    // A product that is bound by memory bandwidth does not use the unit fully anyway.
    if padded < work.seconds / 2.0
        || !is_worth_reporting(padded - plain, context.best().report.serial_s)
    {
        return None;
    }
    let names: Vec<&str> = side.iter().map(|&dim| program.dims[dim].name.as_str()).collect();
    let (names, name) = (names.join(", "), context.name(program.ops[op].result));
    let (before, after) = (units::seconds(plain), units::seconds(padded));
    let message =
        format!("`{name}` has blocks of {block} along `{names}`: {before} of compute take {after}");
    let label = format!("{:.0}% of a matrix unit {unit} wide are used", 100.0 * block / unit);
    let finding = Finding::new(&LINT, message, program.ops[op].span, label);
    let lost = padded - plain;
    Some(finding.help(help(program, step, (&side, &names))).costs(lost, 0.0))
}

/// What makes blocks larger: where no axis splits them, they are those of a microbatch.
fn help(program: &Program, step: &Step, (side, names): (&Side, &str)) -> String {
    let is_split = step.operands.iter().any(|of| {
        let dims = program.values[of.value].dims.iter().zip(&of.sharding.dims);
        dims.into_iter().any(|(dim, axes)| side.contains(dim) && !axes.is_empty())
    });
    if is_split {
        format!("split `{names}` over fewer devices, or another dimension")
    } else {
        format!("cut `{names}` into fewer microbatches, or make it larger")
    }
}
