//! `tensor-parallel-over-slow`: activations cross the slowest network in every layer.

use shardwise_ir::Role;
use shardwise_ir::ids::{AxisId, ValueId};
use shardwise_ir::mesh::{Axis, AxisKind};
use shardwise_ir::plan::Step;
use shardwise_ir::print;
use shardwise_ir::program::{CollectiveKind, Program};
use shardwise_ir::sharding::{AxisRef, Pin};
use shardwise_passes::collective::time_by_network;
use shardwise_passes::crossover::batch_like;
use shardwise_passes::report::StepCost;

use crate::display::units;
use crate::lint::analysis::program::slow_axes;
use crate::lint::definition::{Finding, Group, Level, Lint, LintContext};

pub(crate) const LINT: Lint = Lint {
    code: "SW309",
    name: "tensor-parallel-over-slow",
    group: Group::Communication,
    level: Level::Warn,
    of_plans: false,
    what: "Weights are sharded over a slow axis so that activations are communicated over it, \
        though there are faster axes.",
    why: "Tensor parallelism communicates activations twice per layer, data parallelism \
        gradients once per step. The axis with the least bandwidth (between slices, between \
        nodes) is for the batch; what every layer communicates belongs on the fastest links.",
    bad_example: "hardware tpu-v5p
mesh P=4 dcn, X=4
dim B=8192, D=8192, F=32768
input In[B_X, D]
param Win[D, F_P], Wout[F_P, D]
Tmp = In *D Win
Out = Tmp *F Wout
output Out[B_X, D]
",
    good_example: "hardware tpu-v5p
mesh P=4 dcn, X=4
dim B=8192, D=8192, F=32768
input In[B_P, D]
param Win[D, F_X], Wout[F_X, D]
Tmp = In *D Win
Out = Tmp *F Wout
output Out[B_P, D]
",
    parameters: &[],
    check,
};

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    let mesh = &context.program.mesh;
    let slow = slow_axes(context.program);
    let has_fast = mesh.ids().any(|axis| mesh.axes[axis].size > 1 && !slow.contains(&axis));
    let could_stay = |axis: &AxisId| has_fast || mesh.axes[*axis].across_nodes().is_some();
    slow.iter().copied().filter(could_stay).filter_map(|axis| finding(context, axis)).collect()
}

fn finding(context: &LintContext<'_>, axis: AxisId) -> Option<Finding> {
    let program = context.program;
    let param = split_over(program, axis)?;
    let batch = batch_like(program);
    let is_activation =
        |value: ValueId| program.values[value].dims.iter().any(|dim| batch.contains(dim));
    let crossing: Vec<_> = context
        .best()
        .moves()
        .filter(|(_, step, cost, _)| cost.axes.contains(&axis) && is_activation(step.result.value))
        .collect();
    let (_, first, ..) = crossing.first()?;
    let seconds: f64 = crossing.iter().map(|(_, _, cost, _)| cost.total_s()).sum();
    let bytes: f64 = crossing.iter().map(|(_, _, cost, _)| cost.total_bytes()).sum();
    let slow = &program.mesh.axes[axis];
    let message = format!(
        "`{}` is sharded over `{}`, so that activations cross {} links: {}{}",
        context.name(param),
        slow.name,
        slow.kind_name(),
        units::seconds(seconds),
        between_nodes(context, slow, &crossing)
    );
    let step = print::step(&context.best().plan.program, first);
    let finding =
        Finding::new(&LINT, message, program.values[param].span, format!("hence `{step}`"));
    Some(finding.help(help(program, slow)?).costs(seconds, bytes))
}

/// `, 63 us of it between nodes`, where the axis spans nodes.
fn between_nodes(
    context: &LintContext<'_>,
    slow: &Axis,
    crossing: &[(usize, &Step, &StepCost, &CollectiveKind)],
) -> String {
    if slow.across_nodes().is_none() {
        return String::new();
    }
    let parts = |cost: &StepCost, kind| {
        time_by_network(context.program, kind, &cost.axes, cost.bytes, context.refinement())
    };
    let between = |cost: &StepCost, kind| -> f64 {
        let parts = parts(cost, kind).into_iter().filter(|part| part.kind == AxisKind::Dcn);
        cost.times * parts.map(|part| part.seconds).sum::<f64>()
    };
    let seconds: f64 = crossing.iter().map(|(_, _, cost, kind)| between(cost, kind)).sum();
    format!(", {} of it between nodes", units::seconds(seconds))
}

/// The axis on which tensor parallelism would be faster: the part inside a node, or another axis.
fn help(program: &Program, slow: &Axis) -> Option<String> {
    if let Some((inside, nodes)) = slow.across_nodes() {
        return Some(format!(
            "a node fits {inside} along `{}`: make it an axis of {inside} for weights, and \
                one of {nodes} for the batch",
            slow.name
        ));
    }
    let fastest = program
        .mesh
        .axes
        .iter()
        .filter(|other| other.size > 1)
        .max_by(|a, b| a.bandwidth().total_cmp(&b.bandwidth()))?;
    let times = fastest.bandwidth() / slow.bandwidth();
    Some(format!(
        "shard weights over `{}`, whose links have {} times the bandwidth, and the batch over `{}`",
        fastest.name,
        units::number(times),
        slow.name
    ))
}

/// The first parameter that is split over `axis`.
fn split_over(program: &Program, axis: AxisId) -> Option<ValueId> {
    let uses = |declared: &Pin| {
        declared.dims.iter().any(|pin| pin.named().contains(&AxisRef::whole(axis)))
    };
    let params =
        program.values.iter_enumerated().filter(|(_, value)| value.role == Some(Role::Param));
    params
        .into_iter()
        .find(|(_, value)| value.declared_sharding.as_ref().is_some_and(uses))
        .map(|(id, _)| id)
}
