//! Values of the library as values of the protocol, and back.

use std::path::PathBuf;

use gen_lsp_types::{
    CodeAction, CodeActionKind, Diagnostic, DiagnosticRelatedInformation, DiagnosticSeverity,
    DiagnosticTag, Location, Position, Range, TextEdit, Uri, WorkspaceEdit,
};
use shardwise::editor::{self, Document};
use shardwise::lint::{Edit, Finding, Fix, Safety, find};
use shardwise::{Diag, Severity, Span};

/// The source of diagnostics, as editors show it.
const SOURCE: &str = "shardwise";

/// The name of a program in diagnostics: its path, or the whole address of one without a file.
pub(super) fn name(uri: &Uri) -> String {
    let path: Option<PathBuf> = uri.to_file_path().ok();
    path.map_or_else(|| uri.to_string(), |path| path.to_string_lossy().into_owned())
}

pub(super) fn position(position: editor::Position) -> Position {
    Position { line: position.line, character: position.character }
}

pub(super) fn offset(document: &Document, at: Position) -> usize {
    document.offset(place(at))
}

pub(super) fn place(at: Position) -> editor::Position {
    editor::Position { line: at.line, character: at.character }
}

pub(super) fn range(document: &Document, span: Span) -> Range {
    let place = |offset| position(document.position(offset));
    Range { start: place(span.start), end: place(span.end) }
}

pub(super) fn span(document: &Document, range: Range) -> Span {
    Span::new(offset(document, range.start), offset(document, range.end))
}

/// A finding as a diagnostic: the sentence, what the place itself says, and what to type instead.
pub(super) fn diagnostic(uri: &Uri, document: &Document, diag: &Diag) -> Diagnostic {
    let place = |span| Location { uri: uri.clone(), range: range(document, span) };
    let first = diag.labels.first();
    let mut message = diag.message.clone();
    if let Some(line) = first.map(|label| &label.text).filter(|text| !text.is_empty()) {
        message += &format!("\n{line}");
    }
    if let Some(inside) = &diag.inside {
        message += &format!("\nin `{}`: {}", inside.name, inside.label.text);
    }
    if let Some(help) = &diag.help {
        message += &format!("\nhelp: {help}");
    }
    let related = diag.labels.iter().skip(1).map(|label| DiagnosticRelatedInformation {
        location: place(label.span),
        message: label.text.clone(),
    });
    let is_unused = find(diag.code).is_some_and(|lint| lint.name.starts_with("unused"));
    Diagnostic {
        range: range(document, first.map(|label| label.span).unwrap_or_default()),
        severity: Some(match diag.severity {
            Severity::Error => DiagnosticSeverity::Error,
            Severity::Warning => DiagnosticSeverity::Warning,
        }),
        code: Some(diag.code.to_owned().into()),
        source: Some(SOURCE.to_owned()),
        message: message.into(),
        tags: is_unused.then(|| vec![DiagnosticTag::Unnecessary]),
        related_information: Some(related.collect()),
        ..Diagnostic::default()
    }
}

/// Edits of one document.
pub(super) fn workspace_edit<'e>(
    uri: &Uri,
    document: &Document,
    edits: impl IntoIterator<Item = &'e Edit>,
) -> WorkspaceEdit {
    let edits = edits
        .into_iter()
        .map(|edit| TextEdit { range: range(document, edit.span), new_text: edit.text.clone() });
    WorkspaceEdit {
        changes: Some(std::iter::once((uri.clone(), edits.collect())).collect()),
        ..WorkspaceEdit::default()
    }
}

/// A fix of a finding as an action.
pub(super) fn action(uri: &Uri, document: &Document, finding: &Finding, fix: &Fix) -> CodeAction {
    CodeAction {
        title: fix.title.clone(),
        kind: Some(CodeActionKind::QuickFix),
        diagnostics: Some(vec![diagnostic(uri, document, &finding.diag)]),
        is_preferred: Some(fix.safety == Safety::Safe),
        edit: Some(workspace_edit(uri, document, &fix.edits)),
        ..CodeAction::default()
    }
}
