//! Diagnostics: what is wrong with a program, and how its author can fix it.
//!
//! One plain struct serves every crate: the code that finds a fault decides the text of the
//! diagnostic, and the code that shows it (terminal, JSON, editor) decides how it is drawn. Nothing
//! here prints.

use crate::span::Span;

/// The severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The program is refused.
    Error,
    /// The program is accepted; the author should look.
    Warning,
}

/// A place in the source with a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Where.
    pub span: Span,
    /// The label, in a few words.
    pub text: String,
}

/// One finding: a code, a sentence, the places it concerns (the fault first,
/// its cause after), and what to type instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diag {
    /// A stable code, `SW001` …; those of syntax errors are in [`crate::codes`].
    pub code: &'static str,
    /// Error or warning.
    pub severity: Severity,
    /// A sentence about the reader's program: lower case, names in backticks.
    pub message: String,
    /// The fault, then what caused it.
    pub labels: Vec<Label>,
    /// What to type instead, if that is known.
    pub help: Option<String>,
    /// The fault itself, where it is in another file that the source names.
    pub inside: Option<Box<Inside>>,
}

/// A place in a file that the source names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inside {
    /// The file, as messages call it.
    pub name: String,
    /// Its text.
    pub text: String,
    /// The fault, with its label.
    pub label: Label,
}

impl Diag {
    /// An error at `span`.
    pub fn error(
        code: &'static str,
        message: impl Into<String>,
        span: Span,
        label: impl Into<String>,
    ) -> Self {
        Self {
            code,
            severity: Severity::Error,
            message: message.into(),
            labels: vec![Label { span, text: label.into() }],
            help: None,
            inside: None,
        }
    }

    /// A warning at `span`.
    pub fn warning(
        code: &'static str,
        message: impl Into<String>,
        span: Span,
        label: impl Into<String>,
    ) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, message, span, label) }
    }

    /// Adds a further place: usually the cause.
    #[must_use]
    pub fn and(mut self, span: Span, text: impl Into<String>) -> Self {
        self.labels.push(Label { span, text: text.into() });
        self
    }

    /// Adds what to type instead.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help = Some(text.into());
        self
    }
}
