//! What an editor offers to change about a finding: its own fix, and an `allow` that silences it.

use shardwise_grammar::ast::{File, Statement};
use shardwise_ir::Span;

use crate::lint::{Edit, Finding, Fix, Safety, find};

/// The fixes of a finding, the one to prefer first.
pub(super) fn fixes(file: &File, finding: &Finding) -> Vec<Fix> {
    finding.fix.iter().cloned().chain(allowing(file, finding)).collect()
}

/// `allow SW301` before the statement of a lint's finding.
fn allowing(file: &File, finding: &Finding) -> Option<Fix> {
    let code = find(finding.diag.code)?.code;
    let at = finding.span().start;
    let holds = |span: Span| span.start <= at && at < span.end;
    let statement = file.statements.iter().find(|statement| holds(statement.span))?;
    // An `allow` is not allowed itself.
    if matches!(statement.node, Statement::Allow(_) | Statement::Close) {
        return None;
    }
    let start = statement.span.start;
    let edit = Edit { span: Span::new(start, start), text: format!("allow {code} ") };
    Some(Fix {
        title: format!("allow {code} for this statement"),
        safety: Safety::Suggestion,
        edits: vec![edit],
    })
}

#[cfg(test)]
mod tests {
    use super::super::Document;
    use crate::Options;
    use crate::lint::{Finding, Fix, Settings, all, apply, lint};

    /// The findings of a code in a program after a fix of its first finding.
    fn after(source: &str, code: &str, number: usize) -> Option<usize> {
        let (options, settings) = (Options::default(), Settings::default());
        let linted = lint("a.shard", source, &options, &settings);
        let finding = linted.findings.iter().find(|finding| finding.diag.code == code)?;
        let fixes = Document::new("a.shard", source).fixes(finding);
        let (fixed, _) = apply(source, fixes.get(number));
        let found = lint("a.shard", &fixed, &options, &settings).findings;
        Some(found.iter().filter(|finding| finding.diag.code == code).count())
    }

    #[test]
    fn an_allow_silences_the_finding_of_every_lint_that_can_be_allowed() {
        let mut tried = 0;
        for rule in all() {
            let source = rule.bad_example;
            let linted = lint("a", source, &Options::default(), &Settings::default());
            let is_same = |finding: &&Finding| finding.diag.code == rule.code;
            let Some(found) = linted.findings.iter().find(is_same) else { continue };
            let fixes = Document::new("a", source).fixes(found);
            let is_allow = |fix: &Fix| fix.title.starts_with("allow ");
            let Some(last) = fixes.iter().rposition(is_allow) else { continue };
            let before = linted.findings.iter().filter(is_same).count();
            let left = after(source, rule.code, last).expect("it was found before");
            assert!(left < before, "{}: {left} of {before} are left", rule.code);
            tried += 1;
        }
        assert!(tried > 20, "{tried} lints were tried");
    }
}
