//! Finds places in the syntax tree: brackets, items of lists, declarations.

use shardwise_grammar::ast::{DimDecl, ExprKind, File, Layout, Statement, Subscript, TensorDecl};
use shardwise_ir::Span;

use crate::lint::definition::Edit;

/// Opens the replicated dimensions of brackets: `[B, F_Y]` becomes `[B_?, F_Y]`.
pub(crate) fn opened(layout: &Layout) -> Vec<Edit> {
    let whole = layout.dims.iter().filter(|dim| dim.subscript == Subscript::Whole);
    whole
        .map(|dim| Edit { span: Span::new(dim.span.end, dim.span.end), text: "_?".to_owned() })
        .collect()
}

/// The brackets after the name at `span` in an expression.
pub(crate) fn brackets_at(file: &File, span: Span) -> Option<&Layout> {
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
                open.extend([&**left, &**right]);
            }
            ExprKind::Negate(inner) => open.push(inner),
            ExprKind::Call(call) => open.extend(&call.arguments),
            _ => {}
        }
    }
    None
}

/// The value that is declared or defined at `span`.
pub(crate) fn declared_at(file: &File, span: Span) -> Option<&TensorDecl> {
    file.statements.iter().find_map(|statement| match &statement.node {
        Statement::Declare(_, tensors) => tensors.iter().find(|tensor| tensor.span == span),
        Statement::Define(definition) => definition.targets().find(|tensor| tensor.span == span),
        _ => None,
    })
}

/// Removes one of several items of a list, with the comma beside it.
pub(crate) fn out_of_list(items: &[Span], number: usize) -> Span {
    match (items.get(number + 1), number.checked_sub(1).and_then(|before| items.get(before))) {
        (Some(next), _) => Span::new(items[number].start, next.start),
        (None, Some(previous)) => Span::new(previous.end, items[number].end),
        (None, None) => items[number],
    }
}

/// A declaration of a dimension, with the words after it.
pub(crate) fn dim_span(dim: &DimDecl) -> Span {
    let declared = dim.name.span.to(dim.size.span);
    let order = dim.zigzag.as_ref().map(|order| order.span);
    dim.pad.into_iter().chain(order).fold(declared, Span::to)
}

/// All declarations of dimensions.
pub(crate) fn dims(file: &File) -> impl Iterator<Item = &DimDecl> {
    let dims = file.statements.iter().filter_map(|statement| {
        if let Statement::Dim(dims) = &statement.node { Some(dims) } else { None }
    });
    dims.flatten()
}

/// The dimensions that other sizes are computed from.
pub(crate) fn factors(file: &File) -> impl Iterator<Item = &str> {
    dims(file).flat_map(|dim| dim.size.dims())
}
