//! `allow CODE`: silences findings that the author accepts; an `allow` without such a finding is
//! reported.
//!
//! Before a statement on its line, or alone on a line above it, an `allow` applies to that
//! statement; alone among the first lines of the file (with only `plan`, comments and other
//! `allow`s above) it applies to the file. An `allow` that silences nothing is itself a finding, so
//! that a list of accepted faults does not outlive the faults.

use shardwise_grammar::ast::{File, Statement};
use shardwise_ir::Span;

use super::edit::{Edit, Fix};

/// One code of one `allow`.
pub(crate) struct Allow {
    pub(crate) code: String,
    pub(crate) span: Span,
    /// The `allow`, and its codes.
    statement: Span,
    siblings: usize,
    /// Where findings are silenced; everywhere if `None`.
    scope: Option<Span>,
}

impl Allow {
    /// Whether findings of `code` at `span` are silenced.
    pub(super) fn covers(&self, code: &str, span: Span) -> bool {
        let at = span.start;
        self.code == code
            && self
                .scope
                .is_none_or(|scope| scope.start <= at && at < scope.end.max(scope.start + 1))
    }

    /// Removes one code, and the `allow` with the last one.
    pub(crate) fn removal(&self, source: &str) -> Fix {
        let title = format!("remove `{}`", self.code);
        if self.siblings == 1 {
            let after = source[self.statement.end..].chars().take_while(|c| *c == ' ').count();
            return Fix::without(
                title,
                source,
                &[Span::new(self.statement.start, self.statement.end + after)],
            );
        }
        let after = &source[self.span.end..self.statement.end];
        let before = &source[self.statement.start..self.span.start];
        let span = match (after.find(','), before.rfind(',')) {
            (Some(comma), _) => {
                let blanks = after[comma + 1..]
                    .chars()
                    .take_while(|c| c.is_whitespace())
                    .map(char::len_utf8)
                    .sum::<usize>();
                Span::new(self.span.start, self.span.end + comma + 1 + blanks)
            }
            (None, Some(comma)) => Span::new(self.statement.start + comma, self.span.end),
            (None, None) => self.span,
        };
        Fix::safe(title, vec![Edit { span, text: String::new() }])
    }
}

/// Every code that is allowed somewhere, in source order.
pub(super) fn read(file: &File, source: &str) -> Vec<Allow> {
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
        allowed.extend(codes.iter().map(|code| Allow {
            code: code.node.clone(),
            span: code.span,
            statement: statement.span,
            siblings: codes.len(),
            scope,
        }));
    }
    allowed
}
