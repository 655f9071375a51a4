//! Visits the brackets of a file.

use crate::ast::{Definition, Expr, ExprKind, File, Layout, Statement, TensorDecl};

/// Calls `visit` for all brackets, in the order of the text of each statement.
pub(crate) fn each(file: &mut File, visit: &mut impl FnMut(&mut Layout)) {
    for statement in &mut file.statements {
        match &mut statement.node {
            Statement::Declare(_, tensors)
            | Statement::Carry(tensors)
            | Statement::Hold(tensors) => tensors.iter_mut().for_each(|of| declared(of, visit)),
            Statement::Define(of) | Statement::Enter(of) | Statement::Next(of) => {
                defined(of, visit);
            }
            _ => {}
        }
    }
}

fn defined(definition: &mut Definition, visit: &mut impl FnMut(&mut Layout)) {
    declared(&mut definition.target, visit);
    definition.others.iter_mut().for_each(|other| declared(other, visit));
    used(&mut definition.value, visit);
}

fn declared(tensor: &mut TensorDecl, visit: &mut impl FnMut(&mut Layout)) {
    tensor.layout.iter_mut().for_each(visit);
}

fn used(expr: &mut Expr, visit: &mut impl FnMut(&mut Layout)) {
    match &mut expr.node {
        ExprKind::Tensor { layout, .. } => layout.iter_mut().for_each(visit),
        ExprKind::Number(_) => {}
        ExprKind::Negate(inner) => used(inner, visit),
        ExprKind::Call(call) => call.arguments.iter_mut().for_each(|of| used(of, visit)),
        ExprKind::Product { left, right, .. } | ExprKind::Binary { left, right, .. } => {
            used(left, visit);
            used(right, visit);
        }
    }
}
