//! `replicated`: every device has a copy of a large value.

use shardwise_ir::Role;
use shardwise_ir::ids::{AxisId, ValueId};
use shardwise_ir::mesh::Axis;
use shardwise_ir::sharding::{AxisRef, Pin};
use shardwise_passes::local_shape;

use crate::display::{and_list, units};
use crate::lint::definition::{Finding, Group, Level, Lint, LintContext, Parameter};

pub(crate) const LINT: Lint = Lint {
    code: "SW331",
    name: "replicated",
    group: Group::Memory,
    level: Level::Warn,
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
    let idle: Vec<&Axis> = program
        .mesh
        .axes
        .iter()
        .enumerate()
        .filter(|(number, axis)| axis.size > 1 && is_idle(*number))
        .map(|(_, axis)| axis)
        .collect();
    let copies: f64 = idle.iter().map(|axis| axis.size as f64).product();
    let held = local_shape::local_bytes(program, value, &sharding);
    let wasted = held * (1.0 - 1.0 / copies);
    if idle.is_empty() || wasted < LINT.number(context, "share") * capacity {
        return None;
    }
    let names: Vec<String> = idle.iter().map(|axis| format!("`{}`", axis.name)).collect();
    let axes = and_list(&names);
    let share = 100.0 * held / capacity;
    let keyword = role(declared.role);
    let message = format!(
        "{keyword} `{}` is replicated along {axes}: {} on every device, {share:.0}% of its memory",
        declared.name,
        units::bytes(held)
    );
    let finding = Finding::new(&LINT, message, declared.span, format!("{copies} copies"));
    let dim =
        declared.dims.iter().find(|&&dim| program.dims[dim].size.is_multiple_of(idle[0].size));
    let help = dim.map_or_else(
        || "split one of its dimensions".to_owned(),
        |&dim| {
            format!(
                "split it over {axes}, such as `{}_{}`: the plan gathers what is needed",
                program.dims[dim].name, idle[0].name
            )
        },
    );
    Some(finding.help(help).costs(0.0, wasted))
}

fn role(role: Option<Role>) -> &'static str {
    role.map_or("value", shardwise_grammar::print::role_name)
}
