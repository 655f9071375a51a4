//! `allow CODE`: findings that the author has seen and accepts, and those allowed for nothing.
//!
//! Before a statement on its line, or alone on a line above it, an `allow` concerns that statement;
//! alone among the first lines of the file (only `plan`, comments and other `allow`s may stand
//! above) it concerns the whole file. An `allow` that silences nothing is itself a finding: without
//! that, a list of accepted faults outlives the faults.

use std::collections::BTreeSet;

use shardwise_grammar::ast::{File, Statement};
use shardwise_ir::Span;
use shardwise_ir::codes;
use shardwise_ir::suggest::nearest;

use super::fix::{Edit, Fix};
use super::settings::Settings;
use super::{Finding, Level, all, find};
use crate::lint::rules::{unknown_allow, unused_allow};

/// One code of one `allow`.
pub(super) struct Allowed {
    code: String,
    span: Span,
    /// The whole `allow`, and the codes in it.
    statement: Span,
    siblings: usize,
    /// Where findings are silenced; everywhere if `None`.
    scope: Option<Span>,
}

impl Allowed {
    pub(super) fn covers(&self, finding: &Finding) -> bool {
        let at = finding.span().start;
        self.code == finding.diag.code
            && self
                .scope
                .is_none_or(|scope| scope.start <= at && at < scope.end.max(scope.start + 1))
    }
}

/// Every code that is allowed somewhere, in source order.
pub(super) fn read(file: &File, source: &str) -> Vec<Allowed> {
    let mut allowed = Vec::new();
    let mut is_top = true;
    for (number, statement) in file.statements.iter().enumerate() {
        let Statement::Allow(codes) = &statement.node else {
            is_top &= statement.node == Statement::Plan;
            continue;
        };
        let next = file.statements[number + 1..]
            .iter()
            .find(|next| !matches!(next.node, Statement::Allow(_)));
        let on_its_line = next.is_some_and(|next| {
            source.get(statement.span.end..next.span.start).is_some_and(|gap| !gap.contains('\n'))
        });
        let scope = if is_top && !on_its_line {
            None
        } else {
            Some(next.map_or(Span::default(), |next| next.span))
        };
        allowed.extend(codes.iter().map(|code| Allowed {
            code: code.node.clone(),
            span: code.span,
            statement: statement.span,
            siblings: codes.len(),
            scope,
        }));
    }
    allowed
}

/// What is wrong with the `allow`s themselves; those at numbers `used` silenced something.
pub(super) fn judge(
    allowed: &[Allowed],
    used: &BTreeSet<usize>,
    settings: &Settings,
    source: &str,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (_, allow) in allowed.iter().enumerate().filter(|(number, _)| !used.contains(number)) {
        let (lint, finding) = match find(&allow.code) {
            // What does not run cannot tell whether it would have found something.
            Some(lint) if settings.level(lint) == Level::Allow => continue,
            Some(lint) => (&unused_allow::LINT, unused(allow, lint.name)),
            None => (&unknown_allow::LINT, unknown(allow)),
        };
        let silenced = allowed.iter().any(|other| other.covers(&finding));
        if settings.level(lint) != Level::Allow && !silenced {
            findings.push(finding.fix(removal(allow, source)));
        }
    }
    findings
}

fn unused(allow: &Allowed, name: &str) -> Finding {
    let message = format!("`allow {}` silences nothing: there is no {name} here", allow.code);
    Finding::new(&unused_allow::LINT, message, allow.span, "allowed for nothing")
        .help("take it out")
}

fn unknown(allow: &Allowed) -> Finding {
    let message = format!("`{}` is no lint, and cannot be allowed", allow.code);
    let is_error = codes::find(&allow.code).is_some();
    let label = if is_error { "an error, which no `allow` silences" } else { "no such lint" };
    let near = nearest(&allow.code, all().iter().map(|lint| lint.code)).filter(|_| !is_error);
    let help =
        near.map_or_else(|| "take it out".to_owned(), |near| format!("did you mean `{near}`?"));
    Finding::new(&unknown_allow::LINT, message, allow.span, label).help(help)
}

/// Takes one code out, and the `allow` with the last of them.
fn removal(allow: &Allowed, source: &str) -> Fix {
    let title = format!("take `{}` out", allow.code);
    if allow.siblings == 1 {
        let after = source[allow.statement.end..].chars().take_while(|c| *c == ' ').count();
        return Fix::without(
            title,
            source,
            &[Span::new(allow.statement.start, allow.statement.end + after)],
        );
    }
    let behind = &source[allow.span.end..allow.statement.end];
    let before = &source[allow.statement.start..allow.span.start];
    let span = match (behind.find(','), before.rfind(',')) {
        (Some(comma), _) => {
            let blanks = behind[comma + 1..]
                .chars()
                .take_while(|c| c.is_whitespace())
                .map(char::len_utf8)
                .sum::<usize>();
            Span::new(allow.span.start, allow.span.end + comma + 1 + blanks)
        }
        (None, Some(comma)) => Span::new(allow.statement.start + comma, allow.span.end),
        (None, None) => allow.span,
    };
    Fix::safe(title, vec![Edit { span, text: String::new() }])
}
