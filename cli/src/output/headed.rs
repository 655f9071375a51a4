//! A finding under a header that says how severe it is and where to read more. Only what people
//! read has it: the library's finding, and every format for tools, has the code alone.

use std::fmt;

use miette::{Diagnostic, LabeledSpan, SourceCode};
use shardwise::{Report, Severity};

/// The finding.
#[derive(Debug)]
pub(super) struct Headed<'r>(pub(super) &'r Report);

impl fmt::Display for Headed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Headed<'_> {}

impl Diagnostic for Headed<'_> {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        let code = self.0.diag.code;
        let severity = match self.0.diag.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        Some(Box::new(format!("{severity}[{code}] (more: shardwise docs {code})")))
    }

    fn severity(&self) -> Option<miette::Severity> {
        self.0.severity()
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.0.help()
    }

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        self.0.related()
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.0.source_code()
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        self.0.labels()
    }
}
