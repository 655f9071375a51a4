//! `repeated-work`: devices along an axis all compute the same product.
//!
//! The lint looks at the cheapest plan, in which the compiler slices replicated values where that
//! is free: only work that no plan avoids is repeated. To propose a fix it searches once more with
//! the operands' declarations left open, and states what the text saves with those brackets.

use shardwise_ir::Span;
use shardwise_ir::ids::{AxisId, OpId, ValueId};
use shardwise_ir::plan::{Materialization, Step};
use shardwise_ir::print;
use shardwise_ir::program::{Op, OpKind, Output, Program};
use shardwise_ir::sharding::{AxisRef, DimPin, Pin, Sharding};

use crate::display::{and_list, units};
use crate::lint::analysis::tree;
use crate::lint::definition::{Edit, Finding, Group, Level, Lint, LintContext, Parameter, Priced};

pub(crate) const LINT: Lint = Lint {
    code: "SW321",
    name: "repeated-work",
    group: Group::Compute,
    level: Level::Warn,
    of_plans: false,
    what: "A statement's FLOPs are repeated along a mesh axis that shards none of its \
        dimensions.",
    why: "Devices along the axis compute the same values: half of the machine on an axis of 2, \
        15 of 16 chips on one of 16, do redundant work. Sharding any dimension of the statement \
        over the axis divides its time.",
    bad_example: "hardware tpu-v5p
mesh X=8, Y=8
dim B=65536, D=1024, F=32768, G=8192
input In[B_X, D]
param Win[D, F], Wgate[D, G_Y]
Tmp = In *D Win
Gate = In *D Wgate
output Tmp[B_X, F], Gate[B_X, G_Y]
",
    good_example: "hardware tpu-v5p
mesh X=8, Y=8
dim B=65536, D=1024, F=32768, G=8192
input In[B_X, D]
param Win[D, F], Wgate[D, G_Y]
Tmp = In *D Win
Gate = In *D Wgate
output Tmp[B_X, F_Y], Gate[B_X, G_Y]
",
    parameters: &[Parameter {
        name: "share",
        default: 0.02,
        meaning: "least share of the plan's \
        time that is repeated",
    }],
    check,
};

/// The threshold of a finding, seconds.
const LEAST: f64 = 1e-6;

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    // Where the textbook plan repeats nothing, no search is needed.
    if repeated(context, &context.textbook).is_empty() {
        return Vec::new();
    }
    let best = context.best();
    let least = LEAST.max(LINT.number(context, "share") * best.report.serial_s);
    let repeated =
        repeated(context, best).into_iter().filter(|repeated| repeated.wasted_s >= least);
    repeated.map(|repeated| finding(context, &repeated)).collect()
}

/// A product that is computed several times.
struct Repeated {
    op: OpId,
    idle: Vec<AxisId>,
    times: u64,
    wasted_s: f64,
}

fn repeated(context: &LintContext<'_>, plan: &Priced) -> Vec<Repeated> {
    let program = context.program;
    let products =
        plan.work().filter(|(_, _, op)| matches!(program.ops[*op].kind, OpKind::Einsum { .. }));
    let all = products.map(|(step, cost, op)| {
        let idle: Vec<AxisId> =
            program.mesh.ids().filter(|&axis| is_idle(context, step, axis)).collect();
        let times: u64 = idle.iter().map(|&axis| program.mesh.axes[axis].size).product();
        Repeated { op, idle, times, wasted_s: cost.total_s() * (1.0 - 1.0 / times as f64) }
    });
    all.filter(|repeated| repeated.wasted_s >= LEAST).collect()
}

/// An axis that some brackets name, but that does not participate in this step. (`unused-axis`
/// reports one that no brackets name.)
fn is_idle(context: &LintContext<'_>, step: &Step, axis: AxisId) -> bool {
    let whole = AxisRef::whole(axis);
    let mut all = step.operands.iter().chain([&step.result]);
    if context.program.is_staged_along(step.repeat, axis) {
        return false;
    }
    context.program.mesh.axes[axis].size > 1
        && context.names(whole)
        && !all.any(|of| of.sharding.uses(whole))
}

fn finding(context: &LintContext<'_>, repeated: &Repeated) -> Finding {
    let program = context.program;
    let Repeated { op, idle, times, wasted_s } = repeated;
    let names: Vec<String> =
        idle.iter().map(|&axis| format!("`{}`", program.mesh.axes[axis].name)).collect();
    let result = program.ops[*op].result;
    let axes = and_list(&names);
    let message = format!(
        "`{}` is computed {times} times along {axes}: {} of redundant work",
        context.name(result),
        units::seconds(*wasted_s)
    );
    let finding = Finding::new(
        &LINT,
        message,
        program.ops[*op].span,
        format!("no dimension here is sharded over {axes}"),
    );
    let in_brackets = is_pinned(&program.ops[*op]).then(|| in_brackets(program, *op, &axes));
    let placed = placed(context, &declared(program, *op));
    let leaving = in_output(context, result);
    let help =
        [in_brackets, placed, leaving].into_iter().flatten().collect::<Vec<_>>().join("; or ");
    let where_declared =
        || format!("shard one of its dimensions over {axes}, where its operands are declared");
    finding.help(if help.is_empty() { where_declared() } else { help }).costs(*wasted_s, 0.0)
}

/// The operands with declared shardings.
fn declared(program: &Program, op: OpId) -> Vec<ValueId> {
    let operands = program.ops[op].operands.iter().map(|operand| operand.value);
    operands.filter(|&value| program.is_declared(value)).collect()
}

fn leave_open(program: &mut Program, value: ValueId) {
    if let Some(declared) = &mut program.values[value].declared_sharding {
        declared.dims.iter_mut().for_each(|pin| *pin = DimPin::open());
    }
}

/// Whether brackets on the left side say the sharding of the result.
fn is_pinned(op: &Op) -> bool {
    op.result_pin.as_ref().is_some_and(|pin| pin.exact().is_some())
}

fn in_brackets(program: &Program, op: OpId, axes: &str) -> String {
    let result = &program.values[program.ops[op].result];
    let open: Vec<String> =
        result.dims.iter().map(|&dim| format!("{}_?", program.dims[dim].name)).collect();
    format!(
        "its brackets ask every device for all of it: shard a dimension there over {axes}, or \
        leave them open, `{}[{}]`",
        result.name,
        open.join(", ")
    )
}

/// What is cheaper where an output leaves in parts, and its brackets ask for all of it.
fn in_output(context: &LintContext<'_>, value: ValueId) -> Option<String> {
    let is_asked_for = |output: &Output| {
        output.value == value && output.yields_to.is_none() && output.pin.exact().is_some()
    };
    let mut asked_for = context.program.outputs.iter().filter(|output| is_asked_for(output));
    let place = asked_for.next()?.span;
    let saving = context.saving(|program| {
        let rank = program.values[value].dims.len();
        let asked_for = program.outputs.iter_mut().filter(|output| is_asked_for(output));
        asked_for.for_each(|output| output.pin = Pin::open(rank));
    });
    let found = saving.filter(|saving| saving.seconds > LEAST)?;
    let mut steps = found.after.plan.steps.iter().rev();
    let of = &steps.find(|step| step.result.value == value)?.result;
    let saving = context.saving_in_text(&[left_as(context, place, of)])?;
    (saving.seconds > LEAST).then(|| {
        format!(
            "as `output {}`, the whole takes {} less",
            print::materialization(context.program, of),
            units::seconds(saving.seconds)
        )
    })
}

/// The edit by which an output leaves in this sharding: of its brackets, or, for a gradient that
/// leaves without a statement, a statement at the end.
fn left_as(context: &LintContext<'_>, place: Span, of: &Materialization) -> Edit {
    let layout = tree::declared_at(context.file, place).and_then(|tensor| tensor.layout.as_ref());
    if let Some(layout) = layout {
        return Edit { span: layout.span, text: context.brackets(of) };
    }
    let end = context.source.len();
    let text = format!("\noutput {}\n", print::materialization(context.program, of));
    Edit { span: Span::new(end, end), text }
}

/// What is cheaper with other declarations of these values.
fn placed(context: &LintContext<'_>, open: &[ValueId]) -> Option<String> {
    let saving =
        context.saving(|program| open.iter().for_each(|&value| leave_open(program, value)));
    let found = saving.filter(|saving| saving.seconds > LEAST)?;
    let placed: Vec<Materialization> = open
        .iter()
        .filter_map(|&value| {
            let sharding = declared_as(&found.after.plan.program, value)?;
            let is_other = declared_as(context.program, value).as_ref() != Some(&sharding);
            is_other.then_some(Materialization { value, sharding })
        })
        .collect();
    let edits: Option<Vec<Edit>> = placed.iter().map(|of| context.redeclared(of)).collect();
    let saving = context.saving_in_text(&edits?)?;
    let texts: Vec<String> = placed
        .iter()
        .map(|of| format!("`{}`", print::materialization(context.program, of)))
        .collect();
    (saving.seconds > LEAST).then(|| {
        format!(
            "declared as {}, the whole takes {} less",
            and_list(&texts),
            units::seconds(saving.seconds)
        )
    })
}

fn declared_as(program: &Program, value: ValueId) -> Option<Sharding> {
    program.values[value].declared_sharding.as_ref().and_then(Pin::exact)
}
