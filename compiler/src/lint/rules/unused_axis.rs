//! `unused-axis`: no brackets name an axis, so that its devices repeat each other's work.

use shardwise_grammar::ast::Statement;
use shardwise_ir::Span;
use shardwise_ir::ids::AxisId;
use shardwise_ir::plan::Step;
use shardwise_ir::sharding::AxisRef;

use crate::display::units;
use crate::lint::definition::{Finding, Group, Level, Lint, LintContext};

pub(crate) const LINT: Lint = Lint {
    code: "SW351",
    name: "unused-axis",
    group: Group::Tidiness,
    level: Level::Warn,
    what: "No bracket of the program names a mesh axis.",
    why: "Every declared value is replicated along the axis, so unless the compiler finds \
        something to slice, the devices along it all do the same work. Usually a subscript is \
        missing. Where a bracket leaves axes to the search (`W[D_?, F]`), none is reported.",
    bad_example: "hardware tpu-v5p
mesh X=4, Y=2
dim B=8192, D=8192, F=32768
input In[B_X, D]
param Win[D, F]
Tmp = In *D Win
output Tmp[B_X, F]
",
    good_example: "hardware tpu-v5p
mesh X=4, Y=2
dim B=8192, D=8192, F=32768
input In[B_X, D]
param Win[D, F_Y]
Tmp = In *D Win
output Tmp[B_X, F_Y]
",
    parameters: &[],
    check,
};

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    let program = context.program;
    if context.leaves_axes_open() {
        return Vec::new();
    }
    let unused = program
        .mesh
        .ids()
        .filter(|&axis| program.mesh.axes[axis].size > 1 && !context.names(AxisRef::whole(axis)));
    unused.map(|axis| finding(context, axis)).collect()
}

fn finding(context: &LintContext<'_>, axis: AxisId) -> Finding {
    let declared = &context.program.mesh.axes[axis];
    let name = &declared.name;
    let best = context.best();
    let uses = |step: &Step| {
        step.operands.iter().chain([&step.result]).any(|of| of.sharding.uses(AxisRef::whole(axis)))
    };
    let repeated: f64 = best
        .work()
        .filter(|(step, ..)| !uses(step))
        .map(|(_, cost, _)| cost.seconds)
        .fold(0.0, |a, b| a + b);
    let wasted = repeated * (1.0 - 1.0 / declared.size as f64);
    let message = format!(
        "no bracket names axis `{name}`: every declared value is replicated on all {} devices \
            along it",
        declared.size
    );
    let label = if wasted > 0.0 {
        format!("{} are spent on redundant work", units::seconds(wasted))
    } else {
        "named nowhere".to_owned()
    };
    let finding = Finding::new(&LINT, message, span(context, name), label);
    finding
        .help(format!(
            "split a dimension over it, such as `B_{name}`, or remove the axis from the mesh"
        ))
        .costs(wasted, 0.0)
}

fn span(context: &LintContext<'_>, axis: &str) -> Span {
    let meshes = context.file.statements.iter().filter_map(|statement| {
        if let Statement::Mesh(axes) = &statement.node { Some(axes) } else { None }
    });
    meshes
        .flatten()
        .find(|declared| declared.name.node == axis)
        .map(|declared| declared.name.span)
        .unwrap_or_default()
}
