//! `wide-over-slow`: four bytes per element are sent over the slowest links.

use shardwise_ir::dtype::DType;

use crate::display::units;
use crate::lint::analysis::program::slow_axes;
use crate::lint::definition::{Finding, Group, Level, Lint, LintContext};

pub(crate) const LINT: Lint = Lint {
    code: "SW308",
    name: "wide-over-slow",
    group: Group::Communication,
    level: Level::Warn,
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

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    let program = context.program;
    let slow = slow_axes(program);
    let is_wide = |dtype: DType| dtype.bits() == 32 && dtype.is_float();
    if slow.is_empty() || !program.values.iter().any(|value| is_wide(value.dtype)) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (_, step, cost, kind) in context.best().moves() {
        let value = &program.values[step.result.value];
        let Some(axis) =
            cost.axes.iter().find(|axis| slow.contains(axis)).filter(|_| is_wide(value.dtype))
        else {
            continue;
        };
        let saved = cost.seconds / 2.0;
        let (name, dtype, axis) = (&value.name, value.dtype.name(), &program.mesh.axes[*axis].name);
        let message = format!(
            "`{name}` crosses `{axis}` in {dtype}: {} of its {} are for the second half of each \
                number",
            units::seconds(saved),
            units::seconds(cost.seconds)
        );
        let finding = Finding::new(
            &LINT,
            message,
            value.span,
            format!("the plan has an {} of it over the slowest links", kind.name()),
        );
        findings.push(
            finding
                .help("make it bf16 (`cast<bf16>`) before it crosses")
                .costs(saved, cost.bytes / 2.0),
        );
    }
    findings
}
