//! Writes findings in the formats of other tools, one file per format.
//!
//! All formats are written from [`Linted`] and not from drawn diagnostics: `miette` draws for
//! terminals, and knows neither lines nor fixes. The output does not depend on the time, the
//! machine or the folder, so that equal findings are equal bytes.

mod concise;
mod github;
mod json;
mod junit;
mod sarif;

use std::fmt;

use shardwise_ir::Severity;
use shardwise_ir::codes;

use super::definition::{Finding, Safety};
use super::engine::Linted;
use super::rules::find;
use crate::display::Format;

pub use concise::concise;
pub use github::github;
pub use json::json;
pub use junit::junit;
pub use sarif::sarif;

/// The formats of findings.
pub const FORMATS: &[Format<[Linted]>] = &[
    Format { name: "concise", about: "A line a finding", write: |of| Ok(concise(of)) },
    Format { name: "json", about: "JSON, `shardwise.check/1`", write: |of| Ok(json(of)) },
    Format { name: "sarif", about: "SARIF 2.1.0, for code scanning", write: |of| Ok(sarif(of)) },
    Format { name: "github", about: "Annotations of GitHub Actions", write: |of| Ok(github(of)) },
    Format { name: "junit", about: "JUnit XML, for test reports", write: |of| Ok(junit(of)) },
];

/// The number of findings of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Sources that were read.
    pub files: usize,
    /// Sources with findings.
    pub with_findings: usize,
    /// Errors.
    pub errors: usize,
    /// Warnings.
    pub warnings: usize,
    /// Findings that `--fix` fixes.
    pub fixable: usize,
    /// Edits of large programs that were not tried.
    pub untried: usize,
}

impl Summary {
    /// Counts.
    pub fn of(linted: &[Linted]) -> Self {
        let findings = || linted.iter().flat_map(|linted| &linted.findings);
        let errors = findings().filter(|finding| finding.diag.severity == Severity::Error).count();
        let safe =
            |finding: &&Finding| finding.fix.as_ref().is_some_and(|fix| fix.safety == Safety::Safe);
        Self {
            files: linted.len(),
            with_findings: linted.iter().filter(|linted| !linted.findings.is_empty()).count(),
            errors,
            warnings: findings().count() - errors,
            fixable: findings().filter(safe).count(),
            untried: linted.iter().map(|linted| linted.untried).sum(),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |n: usize, what: &str| {
            if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
        };
        write!(f, "{} checked: ", count(self.files, "file"))?;
        match (self.errors, self.warnings) {
            (0, 0) => write!(f, "nothing found")?,
            (errors, 0) => write!(f, "{}", count(errors, "error"))?,
            (0, warnings) => write!(f, "{}", count(warnings, "warning"))?,
            (errors, warnings) => {
                write!(f, "{}, {}", count(errors, "error"), count(warnings, "warning"))?;
            }
        }
        if self.files > 1 && self.errors + self.warnings > 0 {
            write!(f, " in {}", count(self.with_findings, "file"))?;
        }
        if self.fixable > 0 {
            write!(f, "; --fix fixes {}", self.fixable)?;
        }
        if self.untried > 0 {
            write!(f, "; {} of large programs not tried", count(self.untried, "edit"))?;
        }
        Ok(())
    }
}

/// The name of a code: a lint's or an error's.
fn name_of(code: &str) -> &'static str {
    find(code)
        .map(|lint| lint.name)
        .or_else(|| codes::find(code).map(|code| code.name))
        .unwrap_or_default()
}

fn severity_name(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}
