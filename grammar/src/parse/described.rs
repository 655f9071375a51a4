//! The errors of a file: those of each statement, and those of blocks.

use std::borrow::Cow;

use super::expression::expression;
use crate::ast::{File, Statement};
use crate::codes;
use crate::diag::Diag;
use crate::errors::{self, Faulty, Sizes};
use crate::habits::{self, Shapes};
use crate::span::{Span, Spanned};

/// The errors of statements: those of the grammar, unless the notation is recognised as another's.
pub(super) fn described(
    faulty: Vec<(Cow<'_, str>, Span, Vec<Diag>)>,
    file: &File,
    sizes: &Sizes<'_>,
) -> Vec<Diag> {
    if faulty.is_empty() {
        return Vec::new();
    }
    let shapes = Shapes::of(file, expression);
    let mut diags: Vec<Diag> = Vec::new();
    for (text, span, found) in faulty {
        let is_nested = found[0].code == codes::TOO_DEEP;
        let habit = || habits::recognise(Faulty { text: &text, span, sizes }, &shapes);
        match (!is_nested).then(habit).flatten() {
            // A function of another language has several lines, and is one mistake.
            Some(habit) if diags.last().is_some_and(|last| is_same_code(last, &habit)) => {}
            Some(habit) => diags.push(habit),
            None => diags.extend(found),
        }
    }
    diags
}

/// Whether two statements next to each other are of one piece of foreign code.
fn is_same_code(one: &Diag, other: &Diag) -> bool {
    let is_code = |diag: &Diag| diag.labels[0].text == habits::FOREIGN;
    is_code(one) && is_code(other)
}

/// Reports blocks that are never closed, and braces without a block.
pub(super) fn unbalanced(file: &File, source: &str) -> Vec<Diag> {
    let mut open: Vec<Span> = Vec::new();
    let mut diags = Vec::new();
    for Spanned { node, span } in &file.statements {
        match node {
            of if of.opens_block() => open.push(*span),
            Statement::Close if open.pop().is_none() => diags.push(errors::nothing_to_close(*span)),
            _ => {}
        }
    }
    diags.extend(
        open.into_iter().map(|span| errors::open_block(&source[span.start..span.end], span)),
    );
    diags
}
