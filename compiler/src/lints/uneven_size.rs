//! `uneven-size`: a size that no axis divides, or that padding rounds up by much.
//!
//! A size that a declaration splits and an axis does not divide is an error; here it is the splits that nobody could write.

use shardwise_ir::Role;
use shardwise_ir::ids::DimId;
use shardwise_ir::program::Program;

use super::walk;
use crate::lint::{Finding, Group, Level, Lint, Subject};
use crate::units;

pub(crate) const LINT: Lint = Lint {
    code: "SW323",
    name: "uneven-size",
    group: Group::Compute,
    level: Level::Warn,
    what: "A dimension cannot be split since no mesh axis divides its size, and splitting it would be cheaper.",
    why: "Layouts whose sizes do not divide are not available to the compiler. A vocabulary of 50257 stays whole on every device; rounded up to a multiple of
the axis (and of the matrix unit), or declared `pad`, it can be split.",
    trigger: "hardware tpu-v5p
mesh X=4, Y=32
dim B=16, D=8192, V=50257
input In[B_X, D_Y]
param Wv[D, V]
Logits = In *D Wv
output Logits[B_X, V]
",
    cure: "hardware tpu-v5p
mesh X=4, Y=32
dim B=16, D=8192, V=50304
input In[B_X, D_Y]
param Wv[D, V]
Logits = In *D Wv
output Logits[B_X, V]
",
    parameters: &[],
    check,
};

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let dims = subject.program.dims.indices().filter(|&dim| is_uneven(subject.program, dim) && !subject.is_explicit());
    dims.filter_map(|dim| finding(subject, dim)).collect()
}

/// Whether no axis divides a dimension of a parameter that is large enough to be split.
fn is_uneven(program: &Program, dim: DimId) -> bool {
    let declared = &program.dims[dim];
    let axes = || program.mesh.axes.iter().filter(|axis| axis.size > 1);
    let of_param = program.values.iter().any(|value| value.role == Some(Role::Param) && value.dims.contains(&dim));
    let divides = axes().any(|axis| declared.size.is_multiple_of(axis.size));
    of_param && !declared.pad && !divides && axes().any(|axis| declared.size >= 8 * axis.size)
}

fn finding(subject: &Subject<'_>, dim: DimId) -> Option<Finding> {
    let saving = subject.saving(|program| program.dims[dim].pad = true)?;
    if !walk::is_worth(saving.seconds, subject.best().report.serial_s) {
        return None;
    }
    let program = subject.program;
    let declared = &program.dims[dim];
    let (name, size) = (&declared.name, declared.size);
    let axes: Vec<String> =
        program.mesh.axes.iter().filter(|axis| axis.size > 1).map(|axis| format!("{}={}", axis.name, axis.size)).collect();
    let devices: u64 = program.mesh.devices();
    let message = format!("no axis divides `{name}={size}`, so it is never split: {} are lost", units::seconds(saving.seconds));
    let finding = Finding::new(&LINT, message, declared.span, format!("the axes are {}", axes.join(", ")));
    let multiple = if devices <= 1024 { size.next_multiple_of(devices.max(128)) } else { size.next_multiple_of(128) };
    Some(finding.help(format!("write `{name}={multiple}`, or `{name}={size} pad`")).costs(saving.seconds, saving.bytes))
}
