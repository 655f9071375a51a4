//! `all-reduce-for-scatter`: every device gets the whole sum, and then uses a part of it.
//!
//! Two ways lead there: brackets that ask for the whole sum in a program that the compiler completes (`pins` finds them), and an AllReduce
//! that the author wrote, whose every use is a slice.

use shardwise_ir::Span;
use shardwise_ir::plan::Step;
use shardwise_ir::program::CollectiveKind;
use shardwise_ir::sharding::Sharding;
use shardwise_passes::cost::collective_seconds;

use super::gather_then_slice::only_slice;
use super::pinned_whole::finding;
use super::pins::{self, Kind};
use crate::lint::{Finding, Group, Level, Lint, Priced, Subject};
use crate::{text, units};

pub(crate) const LINT: Lint = Lint {
    code: "SW302",
    name: "all-reduce-for-scatter",
    group: Group::Communication,
    level: Level::Warn,
    what: "An AllReduce gives every device the whole sum, and each then uses a part of it: a ReduceScatter serves.",
    why: "An AllReduce is a ReduceScatter followed by an AllGather, and takes twice as long. Where the next statement needs each device's part
only, the second half is moved for nothing.",
    trigger: "hardware tpu-v5p
mesh X=4
dim B=8192, D=8192, F=32768
input In[B, F_X]
param W[F_X, D]
Sum[B, D] = In *F W
Out = gelu(Sum)
output Out[B, D_X]
",
    cure: "hardware tpu-v5p
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

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let pinned = pins::costly(subject).iter().filter(|pinned| pinned.kind == Kind::AllReduce);
    let mut findings: Vec<Finding> =
        pinned.map(|pinned| finding(&LINT, subject, pinned, "is summed whole on every device that uses a part of it")).collect();
    let plan = &subject.textbook;
    let reduced = plan.moves().filter(|(_, _, _, kind)| **kind == CollectiveKind::AllReduce);
    findings.extend(reduced.filter_map(|(number, step, ..)| written(subject, plan, number, step)));
    findings
}

/// An AllReduce of the author's whose every use is the same slice.
fn written(subject: &Subject<'_>, plan: &Priced, number: usize, step: &Step) -> Option<Finding> {
    let op = subject.written(step)?;
    let first = only_slice(subject, plan, number, step)?;
    scattered(&step.operands[0].sharding, &first.result.sharding)?;
    let now = plan.report.steps[number].seconds;
    let axes = &plan.report.steps[number].axes;
    let bytes = plan.report.steps[number].bytes;
    let then = collective_seconds(&subject.program.mesh, &CollectiveKind::ReduceScatter, axes, bytes, subject.refinement());
    let name = subject.name(step.result.value);
    let message =
        format!("`{name}` is summed whole and then sliced: {} where a ReduceScatter takes {}", units::seconds(now), units::seconds(then));
    let finding = Finding::new(&LINT, message, op.span, "every device gets all of it");
    let slice = subject.written(first).map_or(Span::default(), |op| op.span);
    let label = format!("and keeps a part: `{}`", text::step(&plan.plan, first));
    let finding = if slice == Span::default() { finding } else { finding.and(slice, label) };
    Some(finding.help(format!("write `ReduceScatter` from `{{U}}` straight to the part")).costs(now - then, bytes))
}

/// Whether the axes that the slice splits by are among those that were summed over.
fn scattered(partial: &Sharding, part: &Sharding) -> Option<()> {
    let kept = part.axes().filter(|axis| !partial.dims.iter().flatten().any(|other| other == axis));
    let mut split = kept.peekable();
    split.peek()?;
    split.all(|axis| partial.unreduced.axes().contains(&axis)).then_some(())
}
