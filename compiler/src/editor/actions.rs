//! What an editor offers to change about a finding: its own fix, the name that it takes for the one
//! that is meant, and an `allow` that silences it.

use shardwise_grammar::ast::{File, Statement};
use shardwise_ir::Span;

use crate::lint::{Edit, Finding, Fix, Safety, find};

/// The fixes of a finding, the one to prefer first.
pub(super) fn fixes(file: &File, text: &str, finding: &Finding) -> Vec<Fix> {
    let own = finding.fix.iter().cloned();
    own.chain(respelt(text, finding)).chain(allowing(file, finding)).collect()
}

/// The name that the help asks about in place of the one that is not known.
fn respelt(text: &str, finding: &Finding) -> Option<Fix> {
    let help = finding.diag.help.as_deref()?;
    let (meant, _) = help.split_once("did you mean `")?.1.split_once('`')?;
    let span = finding.span();
    let written = text.get(span.start..span.end)?;
    let is_name = |word: &str| {
        let fits = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '\'');
        !word.is_empty() && word.chars().all(fits)
    };
    // A help may have an example, and a label more than the name.
    let names_it = finding.diag.message.contains(&format!("`{written}`"));
    if !(is_name(meant) && is_name(written) && names_it) {
        return None;
    }
    let edits = vec![Edit { span, text: meant.to_owned() }];
    Some(Fix::suggestion(format!("write `{meant}` instead of `{written}`"), edits))
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

    /// The program after the first fix of its first error, and the title of that fix.
    fn respelt(source: &str) -> Option<(String, String)> {
        let found = Document::new("a.shard", source).check(&Options::default()).findings;
        let finding = Finding::from(found.reports.into_iter().next()?.diag);
        let fixes = Document::new("a.shard", source).fixes(&finding);
        let fix = fixes.into_iter().next()?;
        Some((apply(source, [&fix]).0, fix.title))
    }

    #[test]
    fn a_misspelt_name_is_written_as_the_error_asks() {
        let program = "hardware tpu-v5e\nmesh X=4\ndim Batch=8, D=16\ninput In[Batch_X, D]\n\
            output Out[Batch_X, D] = gelu(In)\n";
        for (right, wrong) in
            [("tpu-v5e", "tpu-v5q"), ("gelu", "gellu"), ("mesh", "mehs"), ("output", "outptu")]
        {
            let (fixed, title) = respelt(&program.replace(right, wrong)).expect("a fix");
            assert_eq!(fixed, program, "{wrong}");
            assert_eq!(title, format!("write `{right}` instead of `{wrong}`"));
        }
        // Nothing is near.
        assert_eq!(respelt(&program.replace("tpu-v5e", "abacus")), None);
        assert_eq!(respelt(program), None);
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
