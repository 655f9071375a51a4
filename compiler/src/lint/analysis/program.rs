//! Questions about programs that several lints ask.

use shardwise_grammar::ast::Statement;
use shardwise_ir::ids::{AxisId, DimId, ValueId};
use shardwise_ir::mesh::AxisKind;
use shardwise_ir::program::{Op, OpKind, Phase, Program};
use shardwise_ir::{Role, Span};

use crate::lint::definition::LintContext;

/// Whether element-wise steps lead from `value` to a reduction over `dim`.
pub(crate) fn is_reduced_over(program: &Program, value: ValueId, dim: DimId) -> bool {
    let mut reached = vec![value];
    for op in &program.ops {
        if !op.operands.iter().any(|operand| reached.contains(&operand.value)) {
            continue;
        }
        match &op.kind {
            OpKind::Reduce { dims, .. } if dims.contains(&dim) => return true,
            OpKind::Map(_) | OpKind::Collective(_) => reached.push(op.result),
            _ => {}
        }
    }
    false
}

/// The threshold of a finding: a microsecond, and a thousandth of the plan or ten microseconds.
pub(crate) fn is_worth_reporting(seconds: f64, total: f64) -> bool {
    seconds >= (1e-3 * total).clamp(1e-6, 1e-5)
}

/// Whether a value is a parameter.
pub(crate) fn is_param(program: &Program, value: ValueId) -> bool {
    program.values[value].role == Some(Role::Param)
}

/// Axes between slices, and those with less than half of the bandwidth that another axis has.
pub(crate) fn slow_axes(program: &Program) -> Vec<AxisId> {
    let mesh = &program.mesh;
    let used = || mesh.ids().filter(|&axis| mesh.axes[axis].size > 1);
    let fastest = used().map(|axis| mesh.axes[axis].bandwidth()).fold(0.0, f64::max);
    used()
        .filter(|&axis| {
            mesh.axes[axis].kind() == AxisKind::Dcn || 2.0 * mesh.axes[axis].bandwidth() < fastest
        })
        .collect()
}

/// Whether every product with a parameter has so few rows that reading the parameter takes longer
/// than computing with it: a decode step, and no training.
pub(crate) fn is_decode(program: &Program) -> bool {
    let mut products = program.ops.iter().filter_map(|op| rows(program, op)).peekable();
    let forward = program.ops.iter().all(|op| op.phase == Phase::Forward);
    forward
        && products.peek().is_some()
        && products.all(|(rows, weight)| is_bound_by_reading(program, rows, weight))
}

/// The number of rows that a product multiplies with a parameter, and the parameter.
fn rows(program: &Program, op: &Op) -> Option<(f64, ValueId)> {
    let weight =
        op.operands.iter().map(|operand| operand.value).find(|&value| is_param(program, value))?;
    let other = op.operands.iter().map(|operand| operand.value).find(|&value| value != weight)?;
    let kept =
        program.values[other].dims.iter().filter(|dim| !program.values[weight].dims.contains(dim));
    matches!(op.kind, OpKind::Einsum { .. })
        .then(|| (kept.map(|&dim| program.dims[dim].size as f64).product(), weight))
}

fn is_bound_by_reading(program: &Program, rows: f64, weight: ValueId) -> bool {
    let dtype = program.values[weight].dtype;
    let bytes = f64::from(dtype.bits()) / 8.0;
    program.hardware.hbm_bandwidth.is_some_and(|bandwidth| {
        2.0 * rows / program.hardware.peak_flops(dtype) < bytes / bandwidth
    })
}

/// Whether the statement at a place has no brackets on its left.
pub(crate) fn is_bare(context: &LintContext<'_>, span: Span) -> bool {
    let statements = context.file.statements.iter();
    let mut around = statements.filter(|it| it.span.start <= span.start && span.end <= it.span.end);
    around.any(|statement| match &statement.node {
        Statement::Define(definition) => definition.target.layout.is_none(),
        _ => false,
    })
}
