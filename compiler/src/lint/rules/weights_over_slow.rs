//! `weights-over-slow`: parameters are sharded between slices, and gathered over the slowest links
//! in every step.

use shardwise_ir::ids::{AxisId, ValueId};
use shardwise_ir::mesh::Mesh;
use shardwise_ir::sharding::Sharding;

use crate::display::{and_list, units, with_article};
use crate::lint::analysis::program::{is_param, slow_axes};
use crate::lint::definition::{Finding, Group, Level, Lint, LintContext};

pub(crate) const LINT: Lint = Lint {
    code: "SW314",
    name: "weights-over-slow",
    group: Group::Communication,
    level: Level::Warn,
    of_plans: false,
    what: "A parameter is gathered over a slow axis, though there are faster axes to shard it \
        over.",
    why: "Sharded over the fast axes of a slice, a weight is gathered at the speed of its links; \
        between slices only gradients are reduced, once per step. Sharded between slices, every \
        layer waits for the network.",
    bad_example: "hardware tpu-v5p
mesh P=4 dcn, X=16
dim B=1048576, D=8192, F=32768
input In[B_PX, D]
param Win[D_P, F]
Tmp = In *D Win
output Tmp[B_PX, F]
",
    good_example: "hardware tpu-v5p
mesh P=4 dcn, X=16
dim B=1048576, D=8192, F=32768
input In[B_PX, D]
param Win[D_X, F]
Tmp = In *D Win
output Tmp[B_PX, F]
",
    parameters: &[],
    check,
};

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    let mesh = &context.program.mesh;
    let slow = slow_axes(context.program);
    let fast: Vec<AxisId> =
        mesh.ids().filter(|axis| mesh.axes[*axis].size > 1 && !slow.contains(axis)).collect();
    if slow.is_empty() || fast.is_empty() {
        return Vec::new();
    }
    let program = context.program;
    let is_named = |param: ValueId, axis: AxisId| {
        let pin = program.values[param].declared_sharding.iter();
        pin.flat_map(|pin| &pin.dims).any(|dim| dim.named().iter().any(|of| of.axis() == axis))
    };
    let mut findings = Vec::new();
    for (_, step, cost, kind) in context.best().moves() {
        let param = step.result.value;
        let mut crossed = cost.axes.iter().copied();
        let Some(axis) = crossed
            .find(|axis| slow.contains(axis) && is_named(param, *axis))
            .filter(|_| is_param(program, param))
        else {
            continue;
        };
        let (name, axis) = (context.name(param), &mesh.axes[axis]);
        let time = units::seconds(cost.total_s());
        let message = format!(
            "`{name}` crosses {} links of `{}` in every step: {time}",
            axis.kind_name(),
            axis.name
        );
        let (kind, bytes) = (with_article(kind.name()), units::bytes(cost.total_bytes()));
        let label = format!("the plan has {kind} of it: {bytes}");
        let finding = Finding::new(&LINT, message, program.values[param].span, label);
        findings.push(
            finding
                .help(help(mesh, &fast, &step.operands[0].sharding, &axis.name))
                .costs(cost.total_s(), cost.total_bytes()),
        );
    }
    findings
}

/// Where to shard a parameter that has `sharding`, with a slow axis among its axes.
fn help(mesh: &Mesh, fast: &[AxisId], sharding: &Sharding, slow: &str) -> String {
    let named = |axes: &[AxisId]| {
        let names: Vec<String> =
            axes.iter().map(|&axis| format!("`{}`", mesh.axes[axis].name)).collect();
        and_list(&names)
    };
    let splits = |axis: AxisId| sharding.axes().any(|used| used.axis() == axis);
    let (used, free): (Vec<AxisId>, Vec<AxisId>) =
        fast.iter().copied().partition(|&axis| splits(axis));
    if free.is_empty() {
        let verb = if used.len() == 1 { "splits" } else { "split" };
        format!("leave `{slow}` out of its brackets: {} {verb} it already", named(&used))
    } else {
        format!("shard it over {} instead", named(&free))
    }
}
