//! Pieces of a program that is written again: what the source does not have, and edits of its text.

use shardwise_grammar::ast::{Expr, ExprKind, SizeExpr, SizeFactor, SizePart, SizeTerm};
use shardwise_grammar::span::{Span, Spanned};

/// The place of what the source does not have.
pub(super) const NOWHERE: Span = Span { start: usize::MAX, end: usize::MAX };

/// A number that the source does not have.
pub(super) fn number(of: u64) -> SizeExpr {
    let factor = Spanned::new(SizeFactor::Number(Some(of)), NOWHERE);
    let parts = vec![SizePart { divides: false, factor }];
    SizeExpr { terms: vec![SizeTerm { is_subtracted: false, parts }], span: NOWHERE }
}

/// Removes the brackets of uses.
pub(super) fn unpin(expr: &mut Expr) {
    match &mut expr.node {
        ExprKind::Tensor { layout, .. } => *layout = None,
        ExprKind::Number(_) => {}
        ExprKind::Product { left, right, .. } | ExprKind::Binary { left, right, .. } => {
            unpin(left);
            unpin(right);
        }
        ExprKind::Negate(inner) => unpin(inner),
        ExprKind::Call(call) => call.arguments.iter_mut().for_each(unpin),
    }
}

/// The text with its edits, which do not overlap; of insertions at one place the first comes first.
pub(super) fn applied(source: &str, mut edits: Vec<(Span, String)>) -> String {
    edits.sort_by_key(|(span, _)| (span.start, span.end));
    let mut text = String::new();
    let mut at = 0;
    for (span, with) in edits {
        text.push_str(&source[at..span.start]);
        text.push_str(&with);
        at = span.end;
    }
    text + &source[at..]
}
