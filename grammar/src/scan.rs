//! Cuts a source into statements before the grammar sees it.
//!
//! A statement is a line; a line that ends in a comma goes on, and so does the block of a `repeat` or `pipeline` until its brace is closed. Cutting
//! first keeps every error inside its statement, keeps parsing linear, and is where hostile input (50,000 open parentheses) is turned away
//! before anything recursive sees it.

use crate::codes::syntax;
use crate::diag::Diag;
use crate::span::Span;

/// Parentheses within parentheses.
const DEEPEST: usize = 64;
/// Operators in one statement.
const MOST_OPERATORS: usize = 400;

/// The statements of `source` as ranges of it, comments and blank lines left out.
pub(crate) fn statements(source: &str) -> Vec<Span> {
    let mut found = Vec::new();
    let mut start = None;
    let mut offset = 0;
    let mut depth = 0_usize;
    for line in source.split_inclusive(['\n']) {
        let code = code_of(line);
        let text = code.trim().trim_start_matches('\u{FEFF}');
        let begin = offset + (code.len() - code.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{FEFF}').len());
        if !text.is_empty() {
            let first = *start.get_or_insert(begin);
            let block = is_block(&source[first..]);
            if block {
                depth = (depth + text.matches('{').count()).saturating_sub(text.matches('}').count());
            }
            let goes_on = text.ends_with(',') || (block && depth > 0);
            if !goes_on {
                found.push(Span::new(first, offset + code.trim_end().len()));
                start = None;
            }
        }
        offset += line.len();
    }
    if let Some(first) = start {
        found.push(Span::new(first, source.trim_end().len().max(first)));
    }
    found
}

/// A line without its comment.
pub(crate) fn code_of(line: &str) -> &str {
    line.split('#').next().unwrap_or("")
}

fn is_block(statement: &str) -> bool {
    ["repeat", "pipeline"].iter().any(|keyword| statement.strip_prefix(keyword).is_some_and(|rest| rest.starts_with([' ', '\t', '{'])))
}

/// Refuses a statement that would nest too deep for anything recursive.
pub(crate) fn too_deep(text: &str, span: Span) -> Option<Diag> {
    let mut depth = 0_usize;
    let mut deepest = 0;
    let mut operators = 0;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '+' | '-' | '/' | '*' | '·' => operators += 1,
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    let short = Span::new(span.start, text.char_indices().nth(40).map_or(span.end, |(i, _)| span.start + i));
    if deepest > DEEPEST {
        let message = format!("{deepest} parentheses within each other, and the limit is {DEEPEST}");
        return Some(Diag::error(syntax::TOO_DEEP, message, short, "this statement").help("name the parts: write one statement for each"));
    }
    if operators > MOST_OPERATORS {
        let message = format!("{operators} operators in one statement, and the limit is {MOST_OPERATORS}");
        return Some(Diag::error(syntax::TOO_DEEP, message, short, "this statement").help("name the parts: write one statement for each"));
    }
    None
}
