//! Edits: text put in the place of a span, and when it may be done unasked.
//!
//! Edits are made at spans of the source and not by printing a changed tree: whatever the author
//! wrote elsewhere, spaces and comments included, stays as it is.

use shardwise_ir::Span;

use super::settings::Settings;
use super::{Linted, lint};
use crate::options::Options;

/// Whether an edit may be made without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Safety {
    /// The program computes the same and has the same declarations.
    Safe,
    /// It changes what the program asks of its caller or of the machine: shown, never applied.
    Suggestion,
}

/// New text for a part of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// What is replaced; empty where text is put in.
    pub span: Span,
    /// By what.
    pub text: String,
}

/// Edits that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// What they do, as an order: `leave `Tmp` open`.
    pub title: String,
    /// Whether they may be made without asking.
    pub safety: Safety,
    /// In source order, apart from each other.
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

    /// Takes whole statements out, with the line where nothing else stands on it.
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

/// `source` after the fixes that do not touch what an earlier one changed, and how many they are.
pub fn apply<'f>(source: &str, fixes: impl IntoIterator<Item = &'f Fix>) -> (String, usize) {
    let mut edits: Vec<&Edit> = Vec::new();
    let mut applied = 0;
    for fix in fixes {
        let is_free = |edit: &Edit| {
            edits
                .iter()
                .all(|other| edit.span.end < other.span.start || other.span.end < edit.span.start)
        };
        if fix.edits.iter().all(is_free) {
            edits.extend(&fix.edits);
            applied += 1;
        }
    }
    edits.sort_by_key(|edit| edit.span);
    let mut text = String::with_capacity(source.len());
    let mut at = 0;
    for edit in edits {
        text.push_str(&source[at..edit.span.start]);
        text.push_str(&edit.text);
        at = edit.span.end;
    }
    text.push_str(&source[at..]);
    (text, applied)
}

/// A fix can uncover another; more rounds than this do not happen unless two fixes undo each other.
const ROUNDS: usize = 16;

/// What is left of `linted` after its safe fixes, made again until there are none, and how many
/// were made.
///
/// A round that would bring an error into a program is not made.
pub fn fixed(linted: Linted, options: &Options, settings: &Settings) -> (Linted, usize) {
    let mut current = linted;
    let mut count = 0;
    for _ in 0..ROUNDS {
        let fixes = current.findings.iter().filter_map(|finding| finding.fix.as_ref());
        let (source, applied) =
            apply(&current.source, fixes.filter(|fix| fix.safety == Safety::Safe));
        if applied == 0 || source == current.source {
            break;
        }
        let next = lint(&current.name, &source, options, settings);
        if next.refused() && !current.refused() {
            break;
        }
        (current, count) = (next, count + applied);
    }
    (current, count)
}

impl Linted {
    /// Whether the program itself is wrong, lints apart.
    fn refused(&self) -> bool {
        self.findings.iter().any(|finding| super::find(finding.diag.code).is_none())
    }
}
