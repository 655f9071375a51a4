//! `reshape-moves`: a value is resharded before a reshape, since its blocks would not stay
//! contiguous.

use shardwise_ir::plan::Step;
use shardwise_ir::print;
use shardwise_ir::program::{Op, OpKind};
use shardwise_ir::rearrange::{Rearrange, Regroup};
use shardwise_passes::op_layouts;

use crate::display::{and_list, units};
use crate::lint::analysis::program::is_worth_reporting;
use crate::lint::definition::{Finding, Group, Level, Lint, LintContext};

pub(crate) const LINT: Lint = Lint {
    code: "SW316",
    name: "reshape-moves",
    group: Group::Communication,
    level: Level::Warn,
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

/// A reshape whose operand is resharded for it alone, from a sharding that the reshape cannot keep.
fn finding(context: &LintContext<'_>, step: &Step, op: &Op) -> Option<Finding> {
    let (best, program) = (context.best(), context.program);
    let (_, moved, cost, kind) =
        best.moves().find(|(_, moved, ..)| moved.result == step.operands[0])?;
    let from = &moved.operands[0];
    if op_layouts::result_sharding(program, op, std::slice::from_ref(&from.sharding)).is_some()
        || !is_worth_reporting(cost.seconds, best.report.serial_s)
    {
        return None;
    }
    let message = format!(
        "the reshape of `{}` moves data: {}",
        context.name(from.value),
        units::seconds(cost.seconds)
    );
    let label = format!("`{}` would break its blocks", print::materialization(program, from));
    let name = |dims: &[shardwise_ir::ids::DimId]| {
        dims.iter().map(|&dim| program.dims[dim].name.as_str()).collect::<Vec<_>>().join("*")
    };
    let pairs: Vec<String> = groups(op)?
        .iter()
        .map(|group| format!("`{}` and `{}`", name(&group.from), name(&group.to)))
        .collect();
    let help = format!(
        "hence the {}; between {}, only the major factor passes its axes on, and only as far as \
            they divide it: split that one, or change their order",
        kind.name(),
        and_list(&pairs)
    );
    Some(Finding::new(&LINT, message, op.span, label).help(help).costs(cost.seconds, cost.bytes))
}
