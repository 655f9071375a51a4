//! Workflow commands of GitHub Actions: an annotation at the line of each finding.

use super::{name_of, severity_name};
use crate::diagnostics::escaped;
use crate::lint::engine::Linted;
use crate::source::place::Lines;

/// One workflow command a finding.
pub fn github(linted: &[Linted]) -> String {
    let mut text = String::new();
    for file in linted {
        let lines = Lines::new(&file.source);
        for finding in &file.findings {
            let (start, end) = lines.range(finding.span());
            let (code, path) = (finding.diag.code, property(&file.name));
            let title = property(&format!("{code} {}", name_of(code)));
            let help =
                finding.diag.help.as_ref().map_or(String::new(), |help| format!("\nhelp: {help}"));
            let message = data(&format!("{}{help}", finding.diag.message));
            let severity = severity_name(finding.diag.severity);
            // GitHub refuses columns of a range over several lines.
            let columns = if start.line == end.line {
                format!(",col={},endColumn={}", start.column, end.column)
            } else {
                String::new()
            };
            text.push_str(&format!(
                "::{severity} file={path},line={},endLine={}{columns},title={title}::{message}\n",
                start.line, end.line
            ));
        }
    }
    text
}

/// Escapes a message.
fn data(text: &str) -> String {
    escaped(text).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes a property, which a comma or a colon would end.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
