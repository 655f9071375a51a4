//! Whether a program is a plan, whose shardings are all written.

use crate::codes::syntax;
use shardwise_grammar::ast::{self, Statement};

use super::Resolver;
use super::overrides::Overrides;
use crate::Diag;
use crate::program::Mode;

/// Whether a program is a plan, by its first statement or the caller's word.
pub(super) fn mode(file: &ast::File, overrides: &Overrides) -> Mode {
    let is_plan = file.statements.first().is_some_and(|first| first.node == Statement::Plan);
    if is_plan || overrides.explicit { Mode::Explicit } else { Mode::Ordinary }
}

impl Resolver<'_> {
    /// `plan` anywhere but first.
    pub(super) fn misplaced_plan(&mut self, file: &ast::File) {
        for statement in
            file.statements.iter().skip(1).filter(|statement| statement.node == Statement::Plan)
        {
            let diag = Diag::error(
                syntax::PLAN_NOT_FIRST,
                "`plan` is not the first statement",
                statement.span,
                "too late",
            );
            self.diags.push(diag.help("move it to the top: it makes the whole program explicit"));
        }
    }
}
