//! Small questions about programs and trees that several lints ask.

use std::collections::BTreeSet;

use shardwise_grammar::ast::{DimDecl, ExprKind, File, Layout, SizeFactor, Statement, Subscript};
use shardwise_ir::ids::{AxisId, DimId, ValueId};
use shardwise_ir::mesh::AxisKind;
use shardwise_ir::program::{Op, OpKind, Phase, Program};
use shardwise_ir::sharding::AxisRef;
use shardwise_ir::{Role, Span};

use crate::lint::{Edit, LintContext};

/// Whether element-wise steps lead from `value` to a reduction over `dim`.
pub(super) fn is_reduced_over(program: &Program, value: ValueId, dim: DimId) -> bool {
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

/// The axes that brackets of the program name.
pub(crate) fn named(program: &Program) -> BTreeSet<AxisRef> {
    let pins = program.values.iter().filter_map(|value| value.declared_sharding.as_ref());
    let statements = program.ops.iter().flat_map(|op| {
        op.operands.iter().filter_map(|o| o.pin.as_ref()).chain(op.result_pin.as_ref())
    });
    let outputs = program.outputs.iter().map(|output| &output.pin);
    let all = pins.chain(statements).chain(outputs);
    all.flat_map(|pin| pin.unreduced.axes().iter().chain(pin.dims.iter().flatten().flatten()))
        .copied()
        .collect()
}

/// Opens the whole dimensions of brackets: `[B, F_Y]` becomes `[B_?, F_Y]`.
pub(super) fn opened(layout: &Layout) -> Vec<Edit> {
    let whole = layout.dims.iter().filter(|dim| dim.subscript == Subscript::Whole);
    whole
        .map(|dim| Edit { span: Span::new(dim.span.end, dim.span.end), text: "_?".to_owned() })
        .collect()
}

/// The brackets behind the name that stands at `span` in an expression.
pub(super) fn brackets_at(file: &File, span: Span) -> Option<&Layout> {
    let statement = file
        .statements
        .iter()
        .find(|statement| statement.span.start <= span.start && span.end <= statement.span.end)?;
    let Statement::Define(definition) = &statement.node else { return None };
    let mut open = vec![&definition.value];
    while let Some(expr) = open.pop() {
        match &expr.node {
            ExprKind::Tensor { layout, .. } if expr.span == span => return layout.as_ref(),
            ExprKind::Product { left, right, .. } | ExprKind::Binary { left, right, .. } => {
                open.extend([&**left, &**right])
            }
            ExprKind::Negate(inner) => open.push(inner),
            ExprKind::Call(call) => open.extend(&call.arguments),
            _ => {}
        }
    }
    None
}

/// Takes one of several things that stand in a list out of it, with the comma beside it.
pub(super) fn out_of_list(items: &[Span], number: usize) -> Span {
    match (items.get(number + 1), number.checked_sub(1).and_then(|before| items.get(before))) {
        (Some(next), _) => Span::new(items[number].start, next.start),
        (None, Some(previous)) => Span::new(previous.end, items[number].end),
        (None, None) => items[number],
    }
}

/// A declaration of a dimension, with the `pad` behind it.
pub(super) fn dim_span(dim: &DimDecl) -> Span {
    let declared = dim.name.span.to(dim.size.span);
    dim.pad.map_or(declared, |pad| declared.to(pad))
}

/// The dimensions that other sizes are products of.
pub(super) fn factors<'a>(context: &LintContext<'a>) -> impl Iterator<Item = &'a str> {
    let dims = context.file.statements.iter().filter_map(|statement| {
        if let Statement::Dim(dims) = &statement.node { Some(dims) } else { None }
    });
    let sizes = dims.flatten().flat_map(|dim| &dim.size.factors);
    sizes.filter_map(|factor| {
        if let SizeFactor::Dim(name) = &factor.node { Some(name.as_str()) } else { None }
    })
}

/// `one`, `one and two`, `one, two and three`.
pub(super) fn and_list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [before @ .., last] => format!("{} and {last}", before.join(", ")),
    }
}

/// Less is not worth a sentence: a microsecond, and a thousandth of the plan or ten microseconds.
pub(super) fn is_worth(seconds: f64, total: f64) -> bool {
    seconds >= (1e-3 * total).clamp(1e-6, 1e-5)
}

/// Whether a value is a parameter.
pub(super) fn is_param(program: &Program, value: ValueId) -> bool {
    program.values[value].role == Some(Role::Param)
}

/// Axes between slices, and those with less than half of the bandwidth that another axis has.
pub(super) fn slow_axes(program: &Program) -> Vec<AxisId> {
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
/// than computing with it: a step of decoding, and no part of training.
pub(super) fn is_decode(program: &Program) -> bool {
    let mut products = program.ops.iter().filter_map(|op| rows(program, op)).peekable();
    let forward = program.ops.iter().all(|op| op.phase == Phase::Forward);
    forward
        && products.peek().is_some()
        && products.all(|(rows, weight)| is_bound_by_reading(program, rows, weight))
}

/// The rows that a product multiplies a parameter with, and the parameter.
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
