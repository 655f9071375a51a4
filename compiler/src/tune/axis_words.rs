//! The axes that the statements of a program name, found in its syntax: a program without a mesh
//! cannot be resolved yet.

use shardwise_grammar::ast::{Definition, Expr, ExprKind, Layout, StateOver, Statement};
use shardwise_grammar::span::Name;

/// The words that may be axes.
pub(super) fn words_in(statement: &Statement, words: &mut Vec<String>) {
    let mut add = |names: &[Name]| words.extend(names.iter().map(|name| name.node.clone()));
    match statement {
        Statement::Declare(_, tensors) | Statement::Carry(tensors) | Statement::Hold(tensors) => {
            tensors
                .iter()
                .filter_map(|of| of.layout.as_ref())
                .for_each(|of| in_layout(of, &mut add));
        }
        Statement::Define(of) | Statement::Enter(of) | Statement::Next(of) => {
            in_definition(of, &mut add);
        }
        Statement::Pipeline(of) => add(std::slice::from_ref(&of.axis)),
        Statement::Optimizer(of) => {
            if let Some(StateOver::Axes(axes)) = &of.over {
                add(axes);
            }
        }
        _ => {}
    }
}

fn in_definition(of: &Definition, add: &mut impl FnMut(&[Name])) {
    of.targets().filter_map(|target| target.layout.as_ref()).for_each(|of| in_layout(of, add));
    in_expression(&of.value, add);
}

fn in_layout(layout: &Layout, add: &mut impl FnMut(&[Name])) {
    for dim in &layout.dims {
        add(dim.subscript.axes());
    }
    layout.unreduced.iter().for_each(|of| add(&of.axes));
}

fn in_expression(expr: &Expr, add: &mut impl FnMut(&[Name])) {
    match &expr.node {
        ExprKind::Tensor { layout: Some(layout), .. } => in_layout(layout, add),
        ExprKind::Tensor { .. } | ExprKind::Number(_) => {}
        ExprKind::Product { left, right, .. } | ExprKind::Binary { left, right, .. } => {
            in_expression(left, add);
            in_expression(right, add);
        }
        ExprKind::Negate(inner) => in_expression(inner, add),
        ExprKind::Call(call) => {
            call.subscript.iter().for_each(|subscript| add(&subscript.node));
            call.arguments.iter().for_each(|argument| in_expression(argument, add));
        }
    }
}

/// The axes that a word is made of: `XY` of `X` and `Y`; none where it is not made of axes.
pub(super) fn segments<'a>(word: &str, axes: &'a [String]) -> Vec<&'a str> {
    if let Some(axis) = axes.iter().find(|axis| *axis == word) {
        return vec![axis];
    }
    let begun = axes.iter().filter_map(|axis| Some((axis, word.strip_prefix(axis.as_str())?)));
    let mut whole = begun.filter(|(_, rest)| !rest.is_empty()).filter_map(|(axis, rest)| {
        let rest = segments(rest, axes);
        (!rest.is_empty()).then(|| [vec![axis.as_str()], rest].concat())
    });
    whole.next().unwrap_or_default()
}
