//! One line per finding, for editors and `grep`: `path:line:column: warning[SW301]: …`.

use super::severity_name;
use crate::diagnostics::escaped;
use crate::lint::engine::Linted;
use crate::source::place::Lines;

/// One line a finding.
pub fn concise(linted: &[Linted]) -> String {
    let mut text = String::new();
    for file in linted {
        let lines = Lines::new(&file.source);
        for finding in &file.findings {
            let place = lines.place(finding.span().start);
            let severity = severity_name(finding.diag.severity);
            let (path, code) = (escaped(&file.name), finding.diag.code);
            let message = escaped(&finding.diag.message);
            text.push_str(&format!(
                "{path}:{}:{}: {severity}[{code}]: {message}\n",
                place.line, place.column
            ));
        }
    }
    text
}
