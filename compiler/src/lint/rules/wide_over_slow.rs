//! `wide-over-slow`: four bytes per element are sent over the slowest links.

use shardwise_grammar::ast::Statement;
use shardwise_ir::dtype::DType;
use shardwise_ir::ids::ValueId;
use shardwise_ir::program::Value;

use crate::display::{units, with_article};
use crate::lint::analysis::program::{is_param, slow_axes};
use crate::lint::definition::{Finding, Group, Level, Lint, LintContext, Priced};

pub(crate) const LINT: Lint = Lint {
    code: "SW308",
    name: "wide-over-slow",
    group: Group::Communication,
    level: Level::Warn,
    of_plans: false,
    what: "An f32 value is communicated over the slowest network.",
    why: "Between slices a device has a few GB/s. Gradients that are reduced there in f32 take \
        twice as long as in bf16; the sums inside a slice and the optimizer's copy can stay in \
        f32.",
    bad_example: "hardware tpu-v5p
mesh P=2 dcn, X=16
dim B=65536, D=8192, F=8192
input In[B_PX, D], dOut: f32[B_PX, F]
dW = In *B dOut
output dW[D_X, F]
",
    good_example: "hardware tpu-v5p
mesh P=2 dcn, X=16
dim B=65536, D=8192, F=8192
input In[B_PX, D], dOut[B_PX, F]
dW = In *B dOut
output dW[D_X, F]
",
    parameters: &[],
    check,
};

/// Less than this share of a collective's time is not worth fewer digits: the rest is the wait for
/// the network, which takes as long for any number of bytes.
const LEAST_SAVED: f64 = 0.1;

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    let program = context.program;
    let slow = slow_axes(program);
    let is_wide = |dtype: DType| dtype.bits() == 32 && dtype.is_float();
    if slow.is_empty() || !program.values.iter().any(|value| is_wide(value.dtype)) {
        return Vec::new();
    }
    let wide = context.best().moves().filter_map(|(number, step, cost, kind)| {
        let axis = cost.axes.iter().copied().find(|axis| slow.contains(axis))?;
        is_wide(program.values[step.result.value].dtype).then_some((number, step, axis, cost, kind))
    });
    let wide: Vec<_> = wide.collect();
    let halved = in_bf16(context, wide.iter().map(|(_, step, ..)| step.result.value));
    let mut findings = Vec::new();
    for (number, step, axis, cost, kind) in wide {
        let now = cost.total_s();
        let saved = now - halved.report.steps[number].total_s();
        if saved < LEAST_SAVED * now {
            continue;
        }
        let value = &program.values[step.result.value];
        let (name, dtype, axis) = (&value.name, value.dtype.name(), &program.mesh.axes[axis].name);
        let message = format!(
            "`{name}` crosses `{axis}` in {dtype}: {} of its {} are for the second half of each \
                number",
            units::seconds(saved),
            units::seconds(now)
        );
        let kind = with_article(kind.name());
        let label = format!("the plan has {kind} of it over the slowest links");
        findings.push(
            Finding::new(&LINT, message, value.span, label)
                .help(help(context, value))
                .costs(saved, cost.total_bytes() / 2.0),
        );
    }
    findings
}

/// The plan with some of its values in bf16.
fn in_bf16(context: &LintContext<'_>, values: impl Iterator<Item = ValueId>) -> Priced {
    let mut plan = context.best().plan.clone();
    for value in values {
        plan.program.values[value].dtype = DType::Bf16;
    }
    Priced::new(plan, context.refinement())
}

/// Gradients that `backward` derives have no statement for a cast.
fn help(context: &LintContext<'_>, value: &Value) -> &'static str {
    let program = context.program;
    let is_of = |id: ValueId| value.name.strip_prefix('d') == Some(&program.values[id].name);
    let of_param = program.values.indices().any(|id| is_of(id) && is_param(program, id));
    let mut statements = context.file.statements.iter();
    if of_param && statements.any(|it| matches!(it.node, Statement::Backward(_))) {
        "write `gradients=bf16`; moments and the optimizer's copy of parameters can stay in f32"
    } else {
        "make it bf16 (`cast<bf16>`) before it crosses"
    }
}
