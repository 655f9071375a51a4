//! `gathered-twice`: the same collective on the same value runs twice.

use shardwise_ir::plan::Step;
use shardwise_passes::local_shape;

use crate::display::units;
use crate::lint::definition::{Finding, Fix, Group, Level, Lint, LintContext, Priced};

pub(crate) const LINT: Lint = Lint {
    code: "SW304",
    name: "gathered-twice",
    group: Group::Communication,
    level: Level::Warn,
    of_plans: true,
    what: "A statement repeats a collective whose result already exists.",
    why: "The second collective communicates every byte again. Keeping the first result instead \
        costs only memory; the lint is silent where the chip does not have enough of it (which is \
        why weights are gathered a second time for their gradients).",
    bad_example: "plan
hardware tpu-v5p
mesh X=4
dim B=8192, D=8192, F=8192
input In[B_X, D]
param W[D_X, F]
W[D, F] = AllGather_X(W[D_X, F])
Tmp[B_X, F] = In[B_X, D] *D W[D, F]
W[D, F] = AllGather_X(W[D_X, F])
Out[B_X, D] = Tmp[B_X, F] *F W[D, F]
output Out[B_X, D]
",
    good_example: "plan
hardware tpu-v5p
mesh X=4
dim B=8192, D=8192, F=8192
input In[B_X, D]
param W[D_X, F]
W[D, F] = AllGather_X(W[D_X, F])
Tmp[B_X, F] = In[B_X, D] *D W[D, F]
Out[B_X, D] = Tmp[B_X, F] *F W[D, F]
output Out[B_X, D]
",
    parameters: &[],
    check,
};

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    let plan = &context.textbook;
    plan.moves().filter_map(|(number, step, ..)| finding(context, plan, number, step)).collect()
}

fn finding(
    context: &LintContext<'_>,
    plan: &Priced,
    number: usize,
    step: &Step,
) -> Option<Finding> {
    let again = context.written(step)?;
    let same = |other: &&Step| other.operands == step.operands && other.result == step.result;
    let first = plan.plan.steps[..number].iter().find(same)?;
    let held = local_shape::local_bytes(context.program, step.result.value, &step.result.sharding);
    if context.capacity().is_some_and(|capacity| plan.report.memory.peak_bytes + held > capacity) {
        return None;
    }
    let cost = &plan.report.steps[number];
    let name = context.name(step.result.value);
    let message =
        format!("`{name}` is resharded a second time: {} more", units::seconds(cost.total_s()));
    let finding = Finding::new(&LINT, message, again.span, "the same collective on the same value");
    let finding = match context.written(first) {
        Some(first) => finding.and(first.span, "first here"),
        None => finding,
    };
    let fix = Fix::without("remove the second one".to_owned(), context.source, &[again.span]);
    let help =
        format!("remove it: keeping the first result takes {} of memory", units::bytes(held));
    Some(finding.help(help).costs(cost.total_s(), cost.total_bytes()).fix(fix))
}
