//! `partial-output`: an output is a partial sum that the caller has to reduce.

use shardwise_ir::program::CollectiveKind;
use shardwise_passes::collective::collective_seconds;
use shardwise_passes::local_shape;

use crate::display::units;
use crate::lint::definition::{Finding, Group, Level, Lint, LintContext};

pub(crate) const LINT: Lint = Lint {
    code: "SW307",
    name: "partial-output",
    group: Group::Communication,
    level: Level::Warn,
    of_plans: false,
    what: "An output leaves the program as a partial sum.",
    why: "Each device has a part of the sum and no device has an element of the result: the \
        program that reads it must know, and pays for the reduction outside of this plan. Reduced \
        here, it can be a ReduceScatter, and the plan counts it.",
    bad_example: "hardware tpu-v5p
mesh X=4
dim B=8192, D=8192, F=8192
input In[B, F_X]
param W[F_X, D]
Out = In *F W
output Out[B, D] {U_X}
",
    good_example: "hardware tpu-v5p
mesh X=4
dim B=8192, D=8192, F=8192
input In[B, F_X]
param W[F_X, D]
Out = In *F W
output Out[B, D_X]
",
    parameters: &[],
    check,
};

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    let program = context.program;
    let mut findings = Vec::new();
    for output in program.outputs.iter().filter(|output| !output.pin.unreduced.is_empty()) {
        let axes: Vec<_> = output.pin.unreduced.axes().iter().map(|axis| axis.axis()).collect();
        let names: Vec<&str> = program.mesh.names(&axes);
        let name = context.name(output.value);
        let bytes = output
            .pin
            .exact()
            .map_or(0.0, |sharding| local_shape::local_bytes(program, output.value, &sharding));
        let seconds = collective_seconds(
            program,
            &CollectiveKind::AllReduce,
            &axes,
            bytes,
            context.refinement(),
        );
        let message = format!(
            "output `{name}` is a partial sum over {}: its reader pays {}",
            names.join(", "),
            units::seconds(seconds)
        );
        let finding = Finding::new(&LINT, message, output.span, "leaves unreduced");
        let half = units::seconds(seconds / 2.0);
        let help = format!(
            "reduce it here: scattered over a dimension (`_{}`) it takes {half}",
            names.join("")
        );
        findings.push(finding.help(help).costs(seconds, bytes));
    }
    findings
}
