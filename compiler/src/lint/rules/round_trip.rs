//! `round-trip`: a value is resharded back to a sharding that is still available.

use shardwise_ir::Span;
use shardwise_ir::plan::{Step, StepKind};

use crate::display::units;
use crate::lint::definition::{Finding, Fix, Group, Level, Lint, LintContext, Priced};

pub(crate) const LINT: Lint = Lint {
    code: "SW305",
    name: "round-trip",
    group: Group::Communication,
    level: Level::Warn,
    of_plans: true,
    what: "Collectives reshard a value to a sharding in which it already exists.",
    why: "A declared or computed value exists until its last use: a use can select it by its \
        brackets instead of resharding it back.",
    bad_example: "hardware tpu-v5p
mesh X=4
dim B=8192, D=8192
input In[B_X, D]
In[B, D] = AllGather_X(In[B_X, D])
In[B_X, D] = Slice_X(In[B, D])
Out = gelu(In[B_X, D])
output Out[B_X, D]
",
    good_example: "hardware tpu-v5p
mesh X=4
dim B=8192, D=8192
input In[B_X, D]
Out = gelu(In[B_X, D])
output Out[B_X, D]
",
    parameters: &[],
    check,
};

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    let plan = &context.textbook;
    (0..plan.plan.steps.len()).filter_map(|number| finding(context, plan, number)).collect()
}

fn finding(context: &LintContext<'_>, plan: &Priced, number: usize) -> Option<Finding> {
    let step = &plan.plan.steps[number];
    let back = context.written(step)?;
    let before = &plan.plan.steps[..number];
    // `gathered-twice` reports the same collective on the same value.
    let is_repeated =
        before.iter().any(|other| other.result == step.result && other.operands == step.operands);
    if is_repeated || !is_there(context, before, step) {
        return None;
    }
    let mut spans = vec![back.span];
    let mut seconds = plan.report.steps[number].total_s();
    let away = before.iter().rposition(|other| {
        other.result == step.operands[0] && matches!(other.kind, StepKind::Collective(..))
    });
    let only =
        away.filter(|&away| plan.readers(away).count() == 1 && !context.leaves(&step.operands[0]));
    let away = only.and_then(|away| Some((away, context.written(&before[away])?.span)));
    let name = context.name(step.result.value);
    if let Some((away, span)) = away {
        seconds += plan.report.steps[away].total_s();
        spans.insert(0, span);
    }
    let message = format!(
        "`{name}` is resharded back to a sharding that still exists: {} without need",
        units::seconds(seconds)
    );
    let finding = Finding::new(&LINT, message, back.span, "in this sharding it is there already");
    let finding = away
        .map(|(_, span): (usize, Span)| finding.clone().and(span, "resharded here"))
        .unwrap_or(finding);
    let fix = Fix::without("remove both reshards", context.source, &spans);
    let bytes = plan.report.steps[number].total_bytes();
    Some(
        finding.help("use the existing one: its brackets select it").costs(seconds, bytes).fix(fix),
    )
}

/// Whether the step's result is declared in that sharding, or an earlier step produces it.
fn is_there(context: &LintContext<'_>, before: &[Step], step: &Step) -> bool {
    let value = &context.program.values[step.result.value];
    let declared = value.is_declared()
        && value
            .declared_sharding
            .as_ref()
            .is_some_and(|declared| declared.accepts(&step.result.sharding));
    declared || before.iter().any(|other| other.result == step.result)
}
