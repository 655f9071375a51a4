//! Small questions about programs and trees that several lints ask.

use shardwise_grammar::ast::{DimDecl, Layout, SizeFactor, Statement, Subscript};
use shardwise_ir::Span;
use shardwise_ir::ids::{DimId, ValueId};
use shardwise_ir::program::{Op, OpKind, Program};
use shardwise_ir::sharding::AxisRef;

use crate::lint::{Edit, Subject};

/// The operations that read a value.
pub(super) fn readers(program: &Program, value: ValueId) -> impl Iterator<Item = &Op> {
    program.ops.iter().filter(move |op| op.operands.iter().any(|operand| operand.value == value))
}

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
            OpKind::Reduce { .. } | OpKind::Einsum { .. } => {}
        }
    }
    false
}

/// Whether any bracket of the program names `axis`.
pub(super) fn is_named(program: &Program, axis: AxisRef) -> bool {
    let pins = program.values.iter().filter_map(|value| value.home.as_ref());
    let statements = program.ops.iter().flat_map(|op| op.operands.iter().filter_map(|o| o.pin.as_ref()).chain(op.result_pin.as_ref()));
    let outputs = program.outputs.iter().map(|output| &output.pin);
    let mut all = pins.chain(statements).chain(outputs);
    all.any(|pin| pin.unreduced.axes().contains(&axis) || pin.dims.iter().flatten().any(|axes| axes.contains(&axis)))
}

/// Opens the whole dimensions of brackets: `[B, F_Y]` becomes `[B_?, F_Y]`.
pub(super) fn opened(layout: &Layout) -> Vec<Edit> {
    let whole = layout.dims.iter().filter(|dim| dim.subscript == Subscript::Whole);
    whole.map(|dim| Edit { span: Span::new(dim.span.end, dim.span.end), text: "_?".to_owned() }).collect()
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
pub(super) fn factors<'a>(subject: &Subject<'a>) -> impl Iterator<Item = &'a str> {
    let dims =
        subject.file.statements.iter().filter_map(|statement| if let Statement::Dim(dims) = &statement.node { Some(dims) } else { None });
    let sizes = dims.flatten().flat_map(|dim| &dim.size.factors);
    sizes.filter_map(|factor| if let SizeFactor::Dim(name) = &factor.node { Some(name.as_str()) } else { None })
}

/// `one`, `one and two`, `one, two and three`.
pub(super) fn and_list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [before @ .., last] => format!("{} and {last}", before.join(", ")),
    }
}
