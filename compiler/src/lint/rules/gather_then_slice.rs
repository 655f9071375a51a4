//! `gather-then-slice`: the value is gathered and then sliced, where one cheaper collective does
//! both.

use shardwise_ir::plan::Step;
use shardwise_ir::print;
use shardwise_ir::program::CollectiveKind;

use crate::display::units;
use crate::lint::analysis::slices::only_slice;
use crate::lint::definition::{Finding, Group, Level, Lint, LintContext, Priced};

pub(crate) const LINT: Lint = Lint {
    code: "SW303",
    name: "gather-then-slice",
    group: Group::Communication,
    level: Level::Warn,
    of_plans: true,
    what: "A value is gathered and then sliced along another dimension.",
    why: "Every device receives the full value and discards most of it. An AllToAll moves the \
        axis from one dimension to the other and sends each device only its own part.",
    bad_example: "hardware tpu-v5p
mesh X=4
dim B=8192, D=8192
input In[B_X, D]
In[B, D] = AllGather_X(In[B_X, D])
In[B, D_X] = Slice_X(In[B, D])
Out = gelu(In[B, D_X])
output Out[B, D_X]
",
    good_example: "hardware tpu-v5p
mesh X=4
dim B=8192, D=8192
input In[B_X, D]
In[B, D_X] = AllToAll_{X->D}(In[B_X, D])
Out = gelu(In[B, D_X])
output Out[B, D_X]
",
    parameters: &[],
    check,
};

/// Distances are whole numbers of a small unit: the same way there may take less by rounding.
const ROUNDING: f64 = 1.0 - 1e-6;

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    let plan = &context.textbook;
    let gathers = plan.moves().filter(|(_, _, _, kind)| **kind == CollectiveKind::AllGather);
    gathers.filter_map(|(number, step, ..)| finding(context, plan, number, step)).collect()
}

/// A gather of the author's whose only use is a slice.
fn finding(
    context: &LintContext<'_>,
    plan: &Priced,
    number: usize,
    gather: &Step,
) -> Option<Finding> {
    let op = context.written(gather)?;
    let slice = only_slice(context, plan, number, gather)?;
    let (from, to) = (&gather.operands[0], &slice.result);
    if from.sharding == to.sharding {
        return None;
    }
    let tables = context.tables()?;
    let table = tables.of(to.value);
    let (start, end) = (table.space.find(&from.sharding)?, table.space.find(&to.sharding)?);
    let cost = &plan.report.steps[number];
    let (now, bytes) = (cost.total_s(), cost.total_bytes());
    let direct = cost.times * table.distance(start, end).as_seconds();
    if direct >= now * ROUNDING {
        return None;
    }
    let way: Vec<String> =
        table.path(start, end).iter().map(|hop| format!("`{}`", hop.kind.name())).collect();
    let message = format!(
        "`{}` is gathered and then sliced: {}",
        context.name(to.value),
        units::seconds(now)
    );
    let finding = Finding::new(&LINT, message, op.span, "all of it on every device");
    let finding = match context.written(slice) {
        Some(slice) => finding.and(slice.span, "of which each keeps a part"),
        None => finding,
    };
    let target = format!("to `{}`", print::materialization(context.program, to));
    Some(
        finding
            .help(format!("{} leads {target} in {}", way.join(" and "), units::seconds(direct)))
            .costs(now - direct, bytes),
    )
}
