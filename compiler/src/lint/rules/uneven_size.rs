//! `uneven-size`: a size that no axis divides, or that padding rounds up by much.
//!
//! A size that a declaration splits and an axis does not divide is an error; this lint reports
//! sizes that cannot be split at all.

use shardwise_ir::ids::DimId;
use shardwise_ir::mesh::Mesh;
use shardwise_ir::plan::{Materialization, Step};
use shardwise_ir::program::Program;
use shardwise_ir::{Role, Span};
use shardwise_passes::local_shape;

use crate::display::units;
use crate::lint::analysis::program::is_worth_reporting;
use crate::lint::analysis::tree;
use crate::lint::definition::{Edit, Finding, Group, Level, Lint, LintContext, Parameter};
use crate::simulate::gcd;

pub(crate) const LINT: Lint = Lint {
    code: "SW323",
    name: "uneven-size",
    group: Group::Compute,
    level: Level::Warn,
    of_plans: false,
    what: "A dimension cannot be sharded since no mesh axis divides its size, or a large share \
        of a padded one is padding.",
    why: "Layouts whose sizes do not divide are not available to the compiler. A vocabulary of \
        50257 stays replicated on every device; rounded up to a multiple of the axis (and of the \
        matrix unit), or declared `pad`, it can be sharded.",
    bad_example: "hardware tpu-v5p
mesh X=4, Y=32
dim B=16, D=8192, V=50257
input In[B_X, D_Y]
param Wv[D, V]
Logits = In *D Wv
output Logits[B_X, V]
",
    good_example: "hardware tpu-v5p
mesh X=4, Y=32
dim B=16, D=8192, V=50304
input In[B_X, D_Y]
param Wv[D, V]
Logits = In *D Wv
output Logits[B_X, V]
",
    parameters: &[Parameter {
        name: "share",
        default: 0.05,
        meaning: "least share of a padded \
        dimension that is padding",
    }],
    check,
};

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    let program = context.program;
    let uneven = program.dims.indices().filter(|&dim| is_uneven(program, dim));
    let padded = program.dims.indices().filter(|&dim| program.dims[dim].pad);
    uneven
        .filter_map(|dim| finding(context, dim))
        .chain(padded.filter_map(|dim| rounded_up(context, dim)))
        .collect()
}

/// A padded dimension with much padding in the plan's split.
fn rounded_up(context: &LintContext<'_>, dim: DimId) -> Option<Finding> {
    let program = context.program;
    let declared = &program.dims[dim];
    let best = context.best();
    let split = |step: &Step| {
        step.operands
            .iter()
            .chain([&step.result])
            .filter_map(|of| parts(program, of, dim))
            .max()
            .unwrap_or(1)
    };
    let work: Vec<(u64, f64)> = best
        .work()
        .map(|(step, cost, _)| (split(step), cost.total_s()))
        .filter(|(parts, _)| *parts > 1)
        .collect();
    let waste =
        |parts: u64| 1.0 - declared.size as f64 / declared.size.next_multiple_of(parts) as f64;
    let worst =
        work.iter().map(|(parts, _)| *parts).max_by(|&a, &b| waste(a).total_cmp(&waste(b)))?;
    let lost: f64 = work.iter().map(|(parts, seconds)| waste(*parts) * seconds).sum();
    if waste(worst) < LINT.number(context, "share")
        || !is_worth_reporting(lost, best.report.serial_s)
    {
        return None;
    }
    let (name, size) = (&declared.name, declared.size);
    let message = format!(
        "{:.0}% of `{name}` is padding in {worst} parts: {} are lost",
        100.0 * waste(worst),
        units::seconds(lost)
    );
    let label = format!("rounded up to {}", size.next_multiple_of(worst));
    let finding = Finding::new(&LINT, message, declared.span, label).costs(lost, 0.0);
    Some(finding.help(format!(
        "split `{name}` into fewer parts, or use the padding: `{name}={}`",
        size.next_multiple_of(worst)
    )))
}

/// The number of parts into which a value's sharding splits a dimension, if the value has it.
fn parts(program: &Program, of: &Materialization, dim: DimId) -> Option<u64> {
    let place = program.values[of.value].dims.iter().position(|other| *other == dim)?;
    Some(local_shape::parts(&program.mesh, &of.sharding.dims[place]))
}

/// Whether no axis divides a dimension of a parameter that is large enough to be split.
fn is_uneven(program: &Program, dim: DimId) -> bool {
    let declared = &program.dims[dim];
    let axes = || program.mesh.axes.iter().filter(|axis| axis.size > 1);
    let of_param = program
        .values
        .iter()
        .any(|value| value.role == Some(Role::Param) && value.dims.contains(&dim));
    let divides = axes().any(|axis| declared.size.is_multiple_of(axis.size));
    of_param && !declared.pad && !divides && axes().any(|axis| declared.size >= 8 * axis.size)
}

fn finding(context: &LintContext<'_>, dim: DimId) -> Option<Finding> {
    let program = context.program;
    let declared = &program.dims[dim];
    let end = tree::dims(context.file).find(|dim| dim.name.node == declared.name)?.size.span.end;
    let pad = Edit { span: Span::new(end, end), text: " pad".to_owned() };
    let saving = context.saving_in_text(&[pad])?;
    if !is_worth_reporting(saving.seconds, context.best().report.serial_s) {
        return None;
    }
    let (name, size) = (&declared.name, declared.size);
    let axes: Vec<String> = program
        .mesh
        .axes
        .iter()
        .filter(|axis| axis.size > 1)
        .map(|axis| format!("{}={}", axis.name, axis.size))
        .collect();
    let message = format!(
        "no axis divides `{name}={size}`, so it is never sharded: {} are lost",
        units::seconds(saving.seconds)
    );
    let finding =
        Finding::new(&LINT, message, declared.span, format!("the axes are {}", axes.join(", ")));
    let multiple = size.next_multiple_of(of_all(&program.mesh));
    Some(
        finding
            .help(format!("write `{name}={multiple}`, or `{name}={size} pad`"))
            .costs(saving.seconds, saving.bytes),
    )
}

/// The rows and columns of a matrix unit, of which sizes are best multiples.
const MATRIX_UNIT: u64 = 128;

/// The largest multiple that sizes are rounded up to.
const LARGEST: u64 = 1 << 17;

/// A number that every axis divides, and the matrix unit where the mesh is not too large for that;
/// else what the smallest axis and the unit divide.
fn of_all(mesh: &Mesh) -> u64 {
    let sizes = || mesh.axes.iter().map(|axis| axis.size).filter(|&size| size > 1);
    let common = |a: u64, b: u64| a / gcd(a, b) * b;
    let all = sizes().try_fold(MATRIX_UNIT, |all, size| {
        (size <= LARGEST).then(|| common(all, size)).filter(|&all| all <= LARGEST)
    });
    all.unwrap_or_else(|| common(MATRIX_UNIT, sizes().min().unwrap_or(1)))
}
