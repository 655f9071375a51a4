//! `unused-value`: a value is declared, computed or resharded, and never read.

use std::collections::BTreeSet;

use indexmap::IndexSet;
use shardwise_grammar::ast::{Role, Statement};
use shardwise_ir::ids::ValueId;
use shardwise_ir::plan::Materialization;
use shardwise_ir::print;
use shardwise_ir::program::Budget;
use shardwise_ir::sharding::Pin;
use shardwise_passes::local_shape;

use crate::display::units;
use crate::lint::definition::{Finding, Fix, Group, Level, Lint, LintContext, Priced};

pub(crate) const LINT: Lint = Lint {
    code: "SW353",
    name: "unused-value",
    group: Group::Tidiness,
    level: Level::Warn,
    of_plans: true,
    what: "A value is declared or computed, but no statement uses it and it is not an output.",
    why: "An unused result is computed all the same, and an unused parameter fills memory. \
        Usually an `output` is missing, or another name was meant.",
    bad_example: "hardware tpu-v5p
mesh X=4
dim B=8192, D=8192
input In[B_X, D]
Old = tanh(In)
Out = gelu(In)
output Out[B_X, D]
",
    good_example: "hardware tpu-v5p
mesh X=4
dim B=8192, D=8192
input In[B_X, D]
Out = gelu(In)
output Out[B_X, D]
",
    parameters: &[],
    check,
};

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    let program = context.program;
    if context.is_explicit() {
        // The values of a plan are those that the program and its gradients have.
        return moved(context);
    }
    if program.outputs.is_empty() {
        // Without outputs the program is a sketch, and every value counts as read.
        return Vec::new();
    }
    let differentiated = differentiated(context);
    let unused = program
        .values
        .indices()
        .filter(|&value| !is_used(context, value) && !differentiated.contains(context.name(value)));
    let values =
        unused.filter_map(|value| declared(context, value).or_else(|| computed(context, value)));
    values.chain(moved(context)).collect()
}

/// Whether an operation reads a value, other than to move it, or an output or an `assert` names it.
fn is_used(context: &LintContext<'_>, value: ValueId) -> bool {
    let program = context.program;
    let mut readers = program.dataflow().uses_of(value);
    let mut asserts = program.asserts.iter();
    readers.any(|(reader, _)| program.ops[reader].result != value)
        || context.is_output(value)
        || asserts.any(|assert| assert.budget == Budget::StaysSharded(value))
}

/// Collectives of the author's whose result nothing reads, though other shardings of the value are
/// read.
fn moved(context: &LintContext<'_>) -> Vec<Finding> {
    let plan = &context.textbook;
    let read: IndexSet<&Materialization> =
        plan.plan.steps.iter().flat_map(|step| &step.operands).collect();
    let values: BTreeSet<ValueId> = read.iter().map(|of| of.value).collect();
    let is_idle = |of: &Materialization| {
        values.contains(&of.value) && !read.contains(of) && !context.leaves(of)
    };
    let mut findings = Vec::new();
    for (step, cost) in
        plan.plan.steps.iter().zip(&plan.report.steps).filter(|(step, _)| is_idle(&step.result))
    {
        let Some(op) = context.written(step) else { continue };
        let result = print::materialization(context.program, &step.result);
        let message = format!(
            "`{result}` is produced and never used: {} without need",
            units::seconds(cost.total_s())
        );
        let fix = Fix::without(format!("remove `{result}`"), context.source, &[op.span]);
        findings.push(
            Finding::new(&LINT, message, op.span, "nothing reads it in this sharding")
                .help("remove it")
                .costs(cost.total_s(), cost.total_bytes())
                .fix(fix),
        );
    }
    findings
}

/// The values that `backward` names.
fn differentiated<'a>(context: &LintContext<'a>) -> BTreeSet<&'a str> {
    let directives = context.file.statements.iter().filter_map(|s| {
        if let Statement::Backward(directive) = &s.node { Some(directive) } else { None }
    });
    directives
        .flat_map(|directive| [Some(&directive.from), directive.given.as_ref()])
        .flatten()
        .map(|name| name.node.as_str())
        .collect()
}

fn declared(context: &LintContext<'_>, value: ValueId) -> Option<Finding> {
    let (role, tensor) = context.declaration(value)?;
    let sharding = context.program.values[value].declared_sharding.as_ref().and_then(Pin::exact)?;
    let bytes = local_shape::local_bytes(context.program, value, &sharding);
    let keyword = shardwise_grammar::print::role_name(role);
    let held = if role == Role::Input { "are brought to" } else { "stay on" };
    let message = format!(
        "{keyword} `{}` is not used: {} {held} every device without need",
        tensor.name.node,
        units::bytes(bytes)
    );
    let finding =
        Finding::new(&LINT, message, tensor.name.span, "no statement reads it").costs(0.0, bytes);
    Some(finding.help("remove it, or use it"))
}

fn computed(context: &LintContext<'_>, value: ValueId) -> Option<Finding> {
    let (definition, span) = context.definition(value)?;
    let of_value = |priced: &Priced| -> f64 {
        let steps = priced.plan.steps.iter().zip(&priced.report.steps);
        steps.filter(|(step, _)| step.result.value == value).map(|(_, cost)| cost.total_s()).sum()
    };
    let seconds = of_value(&context.textbook);
    let name = &definition.target.name;
    let message = format!(
        "`{}` is computed and never used: {} without need",
        name.node,
        units::seconds(seconds)
    );
    let finding = Finding::new(&LINT, message, name.span, "nothing reads it").costs(seconds, 0.0);
    let fix = Fix::without(format!("remove `{}`", name.node), context.source, &[span]);
    let several = context.program.ops.iter().filter(|op| op.result == value).count() > 1;
    let finding = finding.help("remove it, or make it an `output`");
    Some(if several { finding } else { finding.fix(fix) })
}
