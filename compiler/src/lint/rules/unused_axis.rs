//! `unused-axis`: no brackets name an axis, so that its devices repeat each other's work.

use shardwise_grammar::ast::Statement;
use shardwise_ir::Span;
use shardwise_ir::ids::AxisId;
use shardwise_ir::plan::Step;
use shardwise_ir::program::Program;
use shardwise_ir::sharding::AxisRef;

use crate::display::units;
use crate::lint::definition::{Finding, Group, Level, Lint, LintContext};

pub(crate) const LINT: Lint = Lint {
    code: "SW351",
    name: "unused-axis",
    group: Group::Tidiness,
    level: Level::Warn,
    of_plans: false,
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
    let mesh = &context.program.mesh;
    if context.leaves_axes_open() {
        return Vec::new();
    }
    let is_named = |axis: AxisId| context.names(AxisRef::whole(axis));
    let unused = mesh.ids().filter(|&axis| match mesh.whole_of(axis) {
        Some(whole) => whole.parts().next() == Some(axis) && !whole.parts().any(is_named),
        None => mesh.axes[axis].size > 1 && !is_named(axis),
    });
    unused.map(|axis| finding(context, axis)).collect()
}

/// Of an axis, or of all parts of the one whose first part it is.
fn finding(context: &LintContext<'_>, axis: AxisId) -> Finding {
    let mesh = &context.program.mesh;
    let whole = mesh.whole_of(axis);
    let declared = whole.map_or(&mesh.axes[axis], |parts| &parts.whole);
    let own: Vec<AxisId> = whole.map_or(vec![axis], |whole| whole.parts().collect());
    let name = &declared.name;
    let best = context.best();
    let uses = |step: &Step| {
        let mut values = step.operands.iter().chain([&step.result]);
        values.any(|of| own.iter().any(|&axis| of.sharding.uses(AxisRef::whole(axis))))
    };
    let repeated: f64 = best
        .work()
        .filter(|(step, ..)| !uses(step))
        .map(|(_, cost, _)| cost.total_s())
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
    let example = divided(context.program, declared.size)
        .map_or(String::new(), |dim| format!(", such as `{dim}_{name}`"));
    finding
        .help(format!("split a dimension over it{example}, or remove the axis from the mesh"))
        .costs(wasted, 0.0)
}

/// A dimension of a declared value that an axis of this size divides, and no other axis splits if
/// there is such a one.
fn divided(program: &Program, size: u64) -> Option<&str> {
    let declared =
        program.values.iter().filter_map(|value| Some((value, value.declared_sharding.as_ref()?)));
    let dims = declared.flat_map(|(value, pin)| {
        let is_split = pin.dims.iter().map(|dim| !dim.named().is_empty());
        value.dims.iter().copied().zip(is_split)
    });
    let divided = dims.filter(|(dim, _)| program.dims[*dim].size.is_multiple_of(size));
    divided.min_by_key(|(_, is_split)| *is_split).map(|(dim, _)| program.dims[dim].name.as_str())
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
