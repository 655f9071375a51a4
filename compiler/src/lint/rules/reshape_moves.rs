//! `reshape-moves`: a value is resharded before a reshape, since its blocks would not stay
//! contiguous.

use shardwise_ir::ids::{DimId, ValueId};
use shardwise_ir::plan::{Materialization, Step};
use shardwise_ir::print;
use shardwise_ir::program::{Op, OpKind, Program};
use shardwise_ir::rearrange::{Rearrange, Regroup, atoms};
use shardwise_passes::op_layouts;

use crate::display::{and_list, units};
use crate::lint::analysis::program::is_worth_reporting;
use crate::lint::definition::{Finding, Group, Level, Lint, LintContext};

pub(crate) const LINT: Lint = Lint {
    code: "SW316",
    name: "reshape-moves",
    group: Group::Communication,
    level: Level::Warn,
    of_plans: false,
    what: "A reshape moves data: the sharding of its operand would not leave blocks contiguous.",
    why: "Devices hold blocks of a dimension. A dimension that is split into factors keeps its \
        blocks only where the axes divide the major factor, and merged factors only where the \
        major one is sharded completely. Otherwise every element has to be communicated first, \
        for an operation that computes nothing.",
    bad_example: "hardware tpu-v5p
mesh Y=8
dim B=4096, H=128, K=3, G=8, N=K*G
input Q[B, N_Y, H]
Grouped[B, K, G_Y, H] = reshape(Q)
output Grouped[B, K, G_Y, H]
",
    good_example: "hardware tpu-v5p
mesh Y=8
dim B=4096, H=128, K=3, G=8, N=G*K
input Q[B, N_Y, H]
Grouped[B, G_Y, K, H] = reshape(Q)
output Grouped[B, G_Y, K, H]
",
    parameters: &[],
    check,
};

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    let reshapes = context.best().work().filter_map(|(step, _, op)| {
        Some((step, &context.best().plan.program.ops[op])).filter(|(_, op)| groups(op).is_some())
    });
    reshapes.filter_map(|(step, op)| finding(context, step, op)).collect()
}

/// The dimensions that a reshape regroups.
fn groups(op: &Op) -> Option<&[Regroup]> {
    if let OpKind::Rearrange(Rearrange::Reshape(groups)) = &op.kind { Some(groups) } else { None }
}

/// The operand as it is written: a reshape may have a value of its own in between, in factors of
/// both sides, which no statement names.
fn written_operand(program: &Program, op: &Op, operand: ValueId) -> ValueId {
    let made = program.ops.iter().find(|other| other.result == operand);
    let is_inside = |of: &Op| op.span.start <= of.span.start && of.span.end <= op.span.end;
    match made.filter(|made| is_inside(made) && groups(made).is_some()) {
        Some(made) => written_operand(program, made, made.operands[0].value),
        None => operand,
    }
}

/// What decides which axes a reshape keeps, of the groups that are split or of all.
fn rule(program: &Program, groups: &[Regroup], from: &Materialization) -> String {
    let names = |dims: &[DimId]| {
        dims.iter().map(|&dim| program.dims[dim].name.as_str()).collect::<Vec<_>>().join("*")
    };
    let is_split = |group: &&Regroup| {
        let dims = program.values[from.value].dims.iter().zip(&from.sharding.dims);
        dims.clone().any(|(dim, axes)| !axes.is_empty() && group.from.contains(dim))
    };
    let split: Vec<&Regroup> = groups.iter().filter(is_split).collect();
    let groups = if split.is_empty() { groups.iter().collect() } else { split };
    let rules: Vec<String> = groups
        .iter()
        .map(|group| {
            let major = atoms(&program.dims, group.from[0])[0];
            let major = &program.dims[major].name;
            let (from, to) = (names(&group.from), names(&group.to));
            format!("between `{from}` and `{to}`, only the major factor `{major}`")
        })
        .collect();
    format!(
        "{} keeps its axes, as far as they divide it: split that one, or change the order of \
            factors",
        and_list(&rules)
    )
}

/// A reshape whose operand is resharded for it alone, from a sharding that the reshape cannot keep.
fn finding(context: &LintContext<'_>, step: &Step, op: &Op) -> Option<Finding> {
    let (best, program) = (context.best(), context.program);
    let (_, moved, cost, kind) =
        best.moves().find(|(_, moved, ..)| moved.result == step.operands[0])?;
    let from = &moved.operands[0];
    if op_layouts::result_sharding(program, op, std::slice::from_ref(&from.sharding)).is_some()
        || !is_worth_reporting(cost.total_s(), best.report.serial_s)
    {
        return None;
    }
    let given = written_operand(program, op, from.value);
    let message = format!(
        "the reshape of `{}` moves data: {}",
        context.name(given),
        units::seconds(cost.total_s())
    );
    let held = print::materialization(program, from);
    let label = if given == from.value {
        format!("`{held}` would break its blocks")
    } else {
        let brackets = held.trim_start_matches(context.name(from.value));
        format!("in factors, `{brackets}` would break its blocks")
    };
    let help = format!("hence the {}; {}", kind.name(), rule(program, groups(op)?, from));
    Some(
        Finding::new(&LINT, message, op.span, label)
            .help(help)
            .costs(cost.total_s(), cost.total_bytes()),
    )
}
