//! `axis-without-wraparound`: an axis has half the bandwidth that another size would have.

use shardwise_grammar::ast::{AxisDecl, Statement};
use shardwise_ir::hardware::{Hardware, Wraparound};
use shardwise_ir::ids::AxisId;
use shardwise_ir::mesh::{Axis, AxisKind, KindName, Mesh};

use crate::display::units;
use crate::lint::analysis::program::is_worth_reporting;
use crate::lint::definition::{Edit, Finding, Fix, Group, Level, Lint, LintContext};

pub(crate) const LINT: Lint = Lint {
    code: "SW341",
    name: "axis-without-wraparound",
    group: Group::Mesh,
    level: Level::Warn,
    of_plans: false,
    what: "An axis is a line although its size would give it wraparound links.",
    why: "Gathers over a ring use both directions and take half as long as over a line. On v4p \
        and v5p an axis wraps around if every axis of the slice is a multiple of 4, on v5e and \
        v6e if it is 16 long. One axis of 2 removes the wraparound from all of them.",
    bad_example: "hardware tpu-v5p
mesh X=16, Y=2
dim B=32768, D=8192, F=32768
input In[B_X, D]
param Win[D_X, F_Y]
Tmp = In *D Win
output Tmp[B_X, F_Y]
",
    good_example: "hardware tpu-v5p
mesh X=8, Y=4
dim B=32768, D=8192, F=32768
input In[B_X, D]
param Win[D_X, F_Y]
Tmp = In *D Win
output Tmp[B_X, F_Y]
",
    parameters: &[],
    check,
};

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    let mesh = &context.program.mesh;
    let lines = mesh
        .ids()
        .filter(|&axis| mesh.axes[axis].size > 1 && mesh.axes[axis].kind() == AxisKind::Line);
    lines.filter_map(|axis| finding(context, axis)).collect()
}

fn finding(context: &LintContext<'_>, id: AxisId) -> Option<Finding> {
    let (hardware, mesh) = (&context.program.hardware, &context.program.mesh);
    let axis = &mesh.axes[id];
    let why = why(hardware, mesh, axis)?;
    let saving = context.saving(|program| {
        program.mesh.axes[id].physical.iter_mut().for_each(|part| part.kind = AxisKind::Ring);
    })?;
    if !is_worth_reporting(saving.seconds, context.best().report.serial_s) {
        return None;
    }
    let declared = declared(context, &axis.name)?;
    let message = format!(
        "axis `{}={}` has no wraparound: {} of the plan's collectives are for that",
        axis.name,
        axis.size,
        units::seconds(saving.seconds)
    );
    let finding =
        Finding::new(&LINT, message, declared.name.span, "a line").costs(saving.seconds, 0.0);
    Some(match why {
        Why::Written => {
            let gone = declared
                .options
                .iter()
                .map(|option| Edit { span: option.span, text: String::new() })
                .collect();
            finding
                .help(format!(
                    "on {} an axis of this size is a ring; leave `line` out",
                    hardware.name
                ))
                .fix(Fix::suggestion("leave `line` out", gone))
        }
        Why::Beside(other) => finding.help(format!(
            "on {} axes wrap if all of them are multiples of 4, and `{}={}` is not",
            hardware.name, other.name, other.size
        )),
    })
}

/// Why an axis that could wrap does not.
enum Why<'m> {
    /// The program declares it a line.
    Written,
    /// Another axis prevents it.
    Beside(&'m Axis),
}

fn why<'m>(hardware: &Hardware, mesh: &'m Mesh, axis: &Axis) -> Option<Why<'m>> {
    let on_torus = |axis: &&Axis| axis.size > 1 && axis.kind() != AxisKind::Dcn;
    let slice: Vec<u64> = mesh
        .axes
        .iter()
        .filter(on_torus)
        .flat_map(|axis| axis.physical.iter().map(|part| part.size))
        .collect();
    if axis.written_kind == Some(KindName::Line) {
        return (hardware.axis_kind(axis.size, &slice) == AxisKind::Ring).then_some(Why::Written);
    }
    if hardware.wraparound != Wraparound::Cube4
        || !axis.physical.iter().all(|part| part.size.is_multiple_of(4))
    {
        return None;
    }
    mesh.axes
        .iter()
        .filter(on_torus)
        .find(|other| other.physical.iter().any(|part| !part.size.is_multiple_of(4)))
        .map(Why::Beside)
}

fn declared<'a>(context: &LintContext<'a>, name: &str) -> Option<&'a AxisDecl> {
    let meshes = context
        .file
        .statements
        .iter()
        .filter_map(|s| if let Statement::Mesh(axes) = &s.node { Some(axes) } else { None });
    meshes.flatten().find(|axis| axis.name.node == name)
}
