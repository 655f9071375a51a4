//! Edits: new text for spans of the source, and whether they may be applied without asking.
//!
//! Edits change spans of the source instead of printing a changed tree, so that all other text,
//! spaces and comments included, stays as it is.

use shardwise_ir::Span;

/// Whether an edit may be made without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Safety {
    /// The program computes the same and has the same declarations.
    Safe,
    /// It changes the interface of the program or its demands on the machine: shown, never applied.
    Suggestion,
}

/// New text for a part of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The replaced span; empty for an insertion.
    pub span: Span,
    /// The new text.
    pub text: String,
}

/// `source` after edits that do not overlap.
pub(in crate::lint) fn edited(source: &str, mut edits: Vec<&Edit>) -> String {
    edits.sort_by_key(|edit| edit.span);
    let mut text = String::with_capacity(source.len());
    let mut at = 0;
    for edit in edits {
        text.push_str(&source[at..edit.span.start]);
        text.push_str(&edit.text);
        at = edit.span.end;
    }
    text.push_str(&source[at..]);
    text
}

/// Edits that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// Their effect, as an imperative: `leave `Tmp` open`.
    pub title: String,
    /// Whether they may be made without asking.
    pub safety: Safety,
    /// The edits in source order, disjoint.
    pub edits: Vec<Edit>,
}

impl Fix {
    /// An edit that may be made without asking.
    pub(crate) fn safe(title: impl Into<String>, edits: Vec<Edit>) -> Self {
        Self { title: title.into(), safety: Safety::Safe, edits }
    }

    /// An edit that the author has to agree to.
    pub(crate) fn suggestion(title: impl Into<String>, edits: Vec<Edit>) -> Self {
        Self { title: title.into(), safety: Safety::Suggestion, edits }
    }

    /// Removes statements, with the line where it contains nothing else.
    pub(crate) fn without(title: impl Into<String>, source: &str, spans: &[Span]) -> Self {
        let edits =
            spans.iter().map(|&span| Edit { span: with_line(source, span), text: String::new() });
        Self::safe(title, edits.collect())
    }
}

/// `span`, with its line's blanks and ending if nothing else is on the line.
fn with_line(source: &str, span: Span) -> Span {
    let start = source[..span.start].rfind('\n').map_or(0, |at| at + 1);
    let end = source[span.end..].find('\n').map_or(source.len(), |at| span.end + at + 1);
    let blank = |text: &str| text.trim().is_empty();
    let is_alone = blank(&source[start..span.start]) && blank(&source[span.end..end]);
    if is_alone { Span::new(start, end) } else { Span::new(span.start, span.end) }
}
