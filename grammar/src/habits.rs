//! Notation of other languages and frameworks, in statements that could not be parsed: each habit
//! is recognised, and the message has the line to write instead.
//!
//! This looks at text and not at the tree, since nothing of `einsum('bd,df->bf', In, W)` is in the
//! grammar. To put every foreign form into the grammar would make it the grammar of many languages.

mod code;
mod directives;
mod indexing;
mod meshes;
mod options;
mod products;
mod shapes;
mod shardings;
mod signs;
mod subscripts;

use crate::codes as syntax;
use crate::diag::Diag;
use crate::errors::Faulty;
use crate::span::Span;

/// What was recognised.
struct Habit {
    /// The place, in the text of the statement.
    at: (usize, usize),
    message: String,
    label: &'static str,
    help: String,
}

impl Habit {
    fn new(
        text: &str,
        found: &str,
        message: impl Into<String>,
        label: &'static str,
        help: impl Into<String>,
    ) -> Self {
        let start = text.find(found).unwrap_or(0);
        let end = start + found.trim_end().len();
        Self { at: (start, end), message: message.into(), label, help: help.into() }
    }
}

/// The diagnostic of a statement in another notation.
pub(crate) fn recognise(faulty: Faulty<'_>, shapes: &Shapes) -> Option<Diag> {
    let text = faulty.text;
    let habit = signs::unicode(text)
        .or_else(|| meshes::made_mesh(text))
        .or_else(|| products::einsum(text, shapes))
        .or_else(|| signs::shape(text, shapes))
        .or_else(|| shardings::partition_spec(text, shapes))
        .or_else(|| shardings::placement(text, shapes))
        .or_else(|| shardings::brackets(text))
        .or_else(|| code::comment(text))
        .or_else(|| code::keyword(text))
        .or_else(|| code::assignment(text))
        .or_else(|| options::option(text, shapes))
        .or_else(|| subscripts::dims(text, shapes))
        .or_else(|| code::truth(text))
        .or_else(|| code::number(text))
        .or_else(|| indexing::index(text, shapes))
        .or_else(|| indexing::module(text))
        .or_else(|| code::block(text, shapes))
        .or_else(|| directives::sign(text))
        .or_else(|| directives::mesh(text))
        .or_else(|| directives::commas(text))
        .or_else(|| directives::hardware(text))
        .or_else(|| directives::backward(text))
        .or_else(|| directives::optimizer(text, shapes))
        .or_else(|| directives::recomputation(text))
        .or_else(|| code::logic(text))
        .or_else(|| products::power(text, shapes))
        .or_else(|| products::product(text, shapes))
        .or_else(|| code::method(text))?;
    let start = faulty.span.start;
    let at = Span::new(start + habit.at.0, start + habit.at.1);
    Some(Diag::error(syntax::OTHER_NOTATION, habit.message, at, habit.label).help(habit.help))
}

pub(crate) use code::{FOREIGN, role_meant};
pub(crate) use meshes::makes_mesh;
pub(crate) use options::names_dims;
pub(crate) use shapes::Shapes;

/// The first word of a text.
fn first_word(text: &str) -> &str {
    &text[..text.find(|c: char| !is_word(c)).unwrap_or(text.len())]
}

/// The last word of a text.
fn last_word(text: &str) -> &str {
    let text = text.trim_end();
    &text[text
        .rfind(|c: char| !is_word(c))
        .map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8))..]
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '\'')
}

/// `name(…)` as a word of its own: the text before it, its arguments, the text after it.
fn call<'t>(text: &'t str, name: &str) -> Option<(&'t str, &'t str, &'t str)> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find(name)?;
        let rest = text[at + name.len()..].trim_start();
        let is_apart = !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        if let (true, Some(arguments)) = (is_apart, rest.strip_prefix('(')) {
            let end = closing(arguments);
            return Some((&text[..at], &arguments[..end], arguments.get(end + 1..).unwrap_or("")));
        }
        from = at + name.len();
    }
}

/// Where the parenthesis that is open before a text is closed.
fn closing(text: &str) -> usize {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            ')' if depth == 0 => return at,
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

/// The parts of a text between commas outside brackets.
fn arguments(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let is_between = |c: char| {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    };
    text.split(is_between).map(str::trim).filter(|part| !part.is_empty()).collect()
}
