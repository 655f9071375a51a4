//! `data-parallel-decode`: every device reads all weights, each for a share of a few tokens.
//!
//! Replicated weights can be sliced at no cost, and the search does so; this lint finds brackets in
//! the statements that prevent it.

use shardwise_ir::Role;
use shardwise_ir::ids::{AxisId, OpId, ValueId};
use shardwise_ir::plan::{Materialization, Step};
use shardwise_ir::print;
use shardwise_ir::program::{OpKind, Program};
use shardwise_ir::sharding::{AxisRef, DimPin, Pin};

use crate::display::{and_list, units};
use crate::lint::analysis::program::{is_decode, is_worth_reporting};
use crate::lint::definition::{Finding, Group, Level, Lint, LintContext, Priced};

pub(crate) const LINT: Lint = Lint {
    code: "SW311",
    name: "data-parallel-decode",
    group: Group::Communication,
    level: Level::Warn,
    of_plans: false,
    what: "A decode step shards its batch over an axis along which the weights are replicated.",
    why: "A decode step takes as long as reading its weights. Sharding the batch leaves every \
        device with all of them to read; sharding the weights divides the time by the number of \
        devices, for a few kilobytes of communicated activations.",
    bad_example: "hardware tpu-v5e
mesh X=16
dim B=64, D=8192, F=32768
input In[B_X, D]
param Win[D, F], Wout[F, D]
Tmp = In[B_X, D] *D Win[D, F]
Out = Tmp[B_X, F] *F Wout[F, D]
output Out[B_X, D]
",
    good_example: "hardware tpu-v5e
mesh X=16
dim B=64, D=8192, F=32768
input In[B_X, D]
param Win[D, F_X], Wout[F_X, D]
Tmp = In *D Win
Out = Tmp *F Wout
output Out[B_X, D]
",
    parameters: &[],
    check,
};

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    if !is_decode(context.program) {
        return Vec::new();
    }
    context.program.mesh.ids().filter_map(|axis| finding(context, axis)).collect()
}

fn finding(context: &LintContext<'_>, axis: AxisId) -> Option<Finding> {
    let program = context.program;
    let reads = |plan: &Priced| {
        plan.work()
            .filter_map(|(step, _, op)| whole_weight(program, step, op, axis))
            .collect::<Vec<_>>()
    };
    if reads(&context.textbook).is_empty() {
        return None;
    }
    let read: Vec<(OpId, ValueId)> = reads(context.best());
    let &(op, _) = read.first()?;
    let mut weights: Vec<ValueId> = read.iter().map(|(_, weight)| *weight).collect();
    weights.sort_unstable();
    weights.dedup();
    let saving = context.saving(|program| leave_open(program, &read))?;
    if !is_worth_reporting(saving.seconds, context.best().report.serial_s) {
        return None;
    }
    let placed = weights.iter().filter_map(|&value| {
        let declared = &saving.after.plan.program.values[value].declared_sharding;
        let sharding = declared.as_ref().and_then(Pin::exact)?;
        Some(Materialization { value, sharding })
    });
    let placed: Vec<Materialization> = placed.collect();
    // What is saved may have another cause, such as a sum over another axis.
    if !placed.iter().any(|weight| weight.sharding.uses(AxisRef::whole(axis))) {
        return None;
    }
    let printed = |weight| format!("`{}`", print::materialization(program, weight));
    let placed: Vec<String> = placed.iter().map(printed).collect();
    let devices = program.mesh.axes[axis].size;
    let name = &program.mesh.axes[axis].name;
    let message = format!(
        "{devices} devices along `{name}` each read all of the weights: {} per step are lost",
        units::seconds(saving.seconds)
    );
    let finding = Finding::new(
        &LINT,
        message,
        program.ops[op].span,
        format!("the batch is sharded over `{name}` here, the weight is not"),
    );
    let help = format!("omit the brackets of these statements, and declare {}", and_list(&placed));
    Some(finding.help(help).costs(saving.seconds, 0.0))
}

/// Opens the weights, and all brackets of the statements that read them.
fn leave_open(program: &mut Program, read: &[(OpId, ValueId)]) {
    for &(op, weight) in read {
        let result = program.ops[op].result;
        open(&mut program.values[weight].declared_sharding);
        open(&mut program.values[result].declared_sharding);
        open(&mut program.ops[op].result_pin);
        program.ops[op].operands.iter_mut().for_each(|operand| open(&mut operand.pin));
    }
}

fn open(pin: &mut Option<Pin>) {
    pin.iter_mut().flat_map(|pin| &mut pin.dims).for_each(|pin| *pin = DimPin::open());
}

/// The statement and its weight, if the other operand is split over `axis` and the weight is not.
fn whole_weight(program: &Program, step: &Step, op: OpId, axis: AxisId) -> Option<(OpId, ValueId)> {
    let axis = AxisRef::whole(axis);
    let is_product = matches!(program.ops[op].kind, OpKind::Einsum { .. });
    let weight =
        step.operands.iter().find(|of| program.values[of.value].role == Some(Role::Param))?;
    let other = step.operands.iter().find(|of| of.value != weight.value)?;
    (is_product && other.sharding.uses(axis) && !weight.sharding.uses(axis))
        .then_some((op, weight.value))
}
