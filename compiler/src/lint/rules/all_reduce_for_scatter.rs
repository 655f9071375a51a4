//! `all-reduce-for-scatter`: every device gets the complete sum, and then uses a part of it.
//!
//! There are two causes: brackets that ask for the complete sum in a sketch (`pins` finds them),
//! and an AllReduce that the author wrote, whose every use is a slice.

use shardwise_ir::plan::Step;
use shardwise_ir::print;
use shardwise_ir::program::CollectiveKind;
use shardwise_ir::sharding::{AxisRef, Sharding};
use shardwise_passes::collective::collective_seconds;
use shardwise_passes::describe;

use crate::display::units;
use crate::lint::analysis::pins::{self, finding};
use crate::lint::analysis::slices::only_slice;
use crate::lint::definition::{
    Edit, Finding, Fix, Group, Level, Lint, LintContext, PinnedBy, Priced,
};

pub(crate) const LINT: Lint = Lint {
    code: "SW302",
    name: "all-reduce-for-scatter",
    group: Group::Communication,
    level: Level::Warn,
    of_plans: true,
    what: "An AllReduce gives every device the full sum, and each then uses a part of it: a \
        ReduceScatter is enough.",
    why: "An AllReduce is a ReduceScatter followed by an AllGather, and takes twice as long. \
        Where the next statement needs only each device's part, the second half is unnecessary.",
    bad_example: "hardware tpu-v5p
mesh X=4
dim B=8192, D=8192, F=32768
input In[B, F_X]
param W[F_X, D]
Sum[B, D] = In *F W
Out = gelu(Sum)
output Out[B, D_X]
",
    good_example: "hardware tpu-v5p
mesh X=4
dim B=8192, D=8192, F=32768
input In[B, F_X]
param W[F_X, D]
Sum = In *F W
Out = gelu(Sum)
output Out[B, D_X]
",
    parameters: &[],
    check,
};

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    let pinned = pins::costly(context).iter().filter(|pinned| pinned.by == PinnedBy::AllReduce);
    let mut findings: Vec<Finding> = pinned
        .map(|pinned| {
            finding(
                &LINT,
                context,
                pinned,
                "is all-reduced on every device though each uses a part of it",
            )
        })
        .collect();
    let plan = &context.textbook;
    let reduced = plan.moves().filter(|(_, _, _, kind)| **kind == CollectiveKind::AllReduce);
    findings.extend(reduced.filter_map(|(number, step, ..)| written(context, plan, number, step)));
    findings
}

/// An AllReduce of the author's whose every use is the same slice.
fn written(
    context: &LintContext<'_>,
    plan: &Priced,
    number: usize,
    step: &Step,
) -> Option<Finding> {
    let op = context.written(step)?;
    let part = only_slice(context, plan, number, step)?;
    let from = &step.operands[0];
    if !is_scatter(&from.sharding, &part.result.sharding) {
        return None;
    }
    let cost = &plan.report.steps[number];
    let scatter = CollectiveKind::ReduceScatter;
    let then =
        collective_seconds(context.program, &scatter, &cost.axes, cost.bytes, context.refinement());
    let name = context.name(step.result.value);
    let (now, then) = (cost.total_s(), cost.times * then);
    let (now_text, then_text) = (units::seconds(now), units::seconds(then));
    let message = format!(
        "`{name}` is all-reduced and then sliced: {now_text} where a ReduceScatter takes \
            {then_text}"
    );
    let moved = describe(&scatter, &from.sharding, &part.result.sharding);
    let text = print::collective(context.program, &moved, from, &part.result);
    let finding = Finding::new(&LINT, message, op.span, "every device gets all of it")
        .help(format!("write `{text}`"));
    let finding = finding.costs(now - then, cost.total_bytes());
    let Some(slice) = context.written(part) else { return Some(finding) };
    let mut fix = Fix::without("scatter the sum", context.source, &[slice.span]);
    fix.edits.insert(0, Edit { span: op.span, text });
    Some(finding.and(slice.span, "of which each keeps a part").fix(fix))
}

/// Whether `part` is split over exactly the axes that `partial` is to be summed over.
fn is_scatter(partial: &Sharding, part: &Sharding) -> bool {
    let mut added: Vec<AxisRef> = part
        .axes()
        .filter(|axis| !partial.dims.iter().flatten().any(|other| other == axis))
        .collect();
    added.sort_unstable();
    part.unreduced.is_empty() && added == partial.unreduced.axes()
}
