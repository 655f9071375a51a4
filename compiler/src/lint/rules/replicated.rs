//! `replicated`: every device has a copy of a large value.

use shardwise_ir::ids::{AxisId, ValueId};
use shardwise_ir::plan::Materialization;
use shardwise_ir::sharding::{AxisRef, Pin, Sharding};
use shardwise_ir::{Role, print};
use shardwise_passes::local_shape;

use crate::display::{and_list, units};
use crate::lint::definition::{Finding, Group, Level, Lint, LintContext, Parameter, Saving};

pub(crate) const LINT: Lint = Lint {
    code: "SW331",
    name: "replicated",
    group: Group::Memory,
    level: Level::Warn,
    of_plans: false,
    what: "A large declared value is replicated on devices that could each hold a part of it.",
    why: "Memory often decides how many chips a model needs. A copy on every device costs memory \
        on all of them; where a copy is needed temporarily, it can be gathered for that moment.",
    bad_example: "hardware tpu-v5e
mesh X=16
dim B=65536, D=16384, F=65536
input In[B_X, D]
param Win[D, F]
Tmp = In *D Win
Out = sum_F(Tmp)
output Out[B_X]
",
    good_example: "hardware tpu-v5e
mesh X=16
dim B=65536, D=16384, F=65536
input In[B_X, D]
param Win[D_X, F]
Tmp = In *D Win
Out = sum_F(Tmp)
output Out[B_X]
",
    parameters: &[Parameter {
        name: "share",
        default: 0.05,
        meaning: "least share of a device's \
        memory that the copies take",
    }],
    check,
};

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    let program = context.program;
    program
        .values
        .indices()
        .filter(|&value| program.is_declared(value))
        .filter_map(|value| finding(context, value))
        .collect()
}

fn finding(context: &LintContext<'_>, value: ValueId) -> Option<Finding> {
    let program = context.program;
    let capacity = context.capacity()?;
    let declared = &program.values[value];
    let sharding = declared.declared_sharding.as_ref().and_then(Pin::exact)?;
    let is_idle = |number: usize| {
        let axis = AxisRef::whole(AxisId::new(number));
        !sharding.uses(axis)
            && context.names(axis)
            && !program.is_staged_along(declared.repeat, axis.axis())
    };
    let sizes = program.mesh.axes.iter().map(|axis| axis.size).enumerate();
    let idle = sizes.filter(|(number, size)| *size > 1 && is_idle(*number));
    let idle: Vec<AxisId> = idle.map(|(number, _)| AxisId::new(number)).collect();
    let copies: f64 = idle.iter().map(|&axis| program.mesh.axes[axis].size as f64).product();
    let held = local_shape::local_bytes(program, value, &sharding);
    let wasted = held * (1.0 - 1.0 / copies);
    if idle.is_empty() || wasted < LINT.number(context, "share") * capacity {
        return None;
    }
    let name = |&axis: &AxisId| format!("`{}`", program.mesh.axes[axis].name);
    let names: Vec<String> = idle.iter().map(name).collect();
    let axes = and_list(&names);
    let share = 100.0 * held / capacity;
    let keyword = role(declared.role);
    let message = format!(
        "{keyword} `{}` is replicated along {axes}: {} on every device, {share:.0}% of its memory",
        declared.name,
        units::bytes(held)
    );
    let finding = Finding::new(&LINT, message, declared.span, format!("{copies} copies"));
    let help = split(context, value, &sharding, &idle).map_or_else(
        || format!("split one of its dimensions over {axes}"),
        |(text, split)| {
            let then = split.after.report.serial_s;
            format!(
                "split it over {axes}, such as `{text}`: the step takes {} then, and {} now",
                units::seconds(then),
                units::seconds(then + split.seconds)
            )
        },
    );
    Some(finding.help(help).costs(0.0, wasted))
}

/// The brackets in which the idle axes split a dimension, too, where the step is fastest then, and
/// what that saves.
fn split(
    context: &LintContext<'_>,
    value: ValueId,
    sharding: &Sharding,
    idle: &[AxisId],
) -> Option<(String, Saving)> {
    let program = context.program;
    let dims = program.values[value].dims.iter().enumerate();
    let splits = dims.filter_map(|(place, &dim)| {
        let mut split = sharding.clone();
        split.dims[place].extend(idle.iter().map(|&axis| AxisRef::whole(axis)));
        let parts: u64 = split.dims[place].iter().map(|axis| axis.size(&program.mesh)).product();
        program.dims[dim].size.is_multiple_of(parts).then_some(split)
    });
    let saved = splits.filter_map(|sharding| {
        let of = Materialization { value, sharding };
        let saving = context.saving_in_text(&[context.redeclared(&of)?])?;
        Some((print::materialization(program, &of), saving))
    });
    saved.reduce(|best, other| if other.1.seconds > best.1.seconds { other } else { best })
}

fn role(role: Option<Role>) -> &'static str {
    role.map_or("value", shardwise_grammar::print::role_name)
}
