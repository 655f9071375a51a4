//! `assert comm <= 2ms`, `assert no AllGather over X`, `assert W stays sharded`.

use shardwise_grammar::ast::{self, Assertion, Statement};
use shardwise_grammar::number;
use shardwise_grammar::span::Name;

use super::{MOST_ERRORS, Resolver};
use crate::Diag;
use crate::codes::budget;
use crate::mesh::AxisKind;
use crate::program::{Assert, Budget, CollectiveKind, Over};

/// What `assert` limits, beside `memory`.
pub(super) const TIMES: [&str; 5] = ["comm", "serial", "compute", "overlap", "scheduled"];

impl Resolver<'_> {
    pub(super) fn asserts(&mut self, file: &ast::File) {
        for statement in &file.statements {
            if let Statement::Assert(assertion) = &statement.node
                && self.diags.len() <= MOST_ERRORS
                && let Some(budget) = self.budget(assertion)
            {
                let text = shardwise_grammar::print::assertion(assertion);
                self.asserts.push(Assert { budget, text, span: statement.span });
            }
        }
    }

    fn budget(&mut self, assertion: &Assertion) -> Option<Budget> {
        match assertion {
            Assertion::StaysSharded(name) => self.anywhere(name).map(Budget::StaysSharded),
            Assertion::No { collective, over } => {
                let kind = CollectiveKind::find(&collective.node);
                let over = match over {
                    None => None,
                    Some(name) => Some(self.over(name)?),
                };
                if kind.is_none() {
                    let known = CollectiveKind::ALL
                        .iter()
                        .map(CollectiveKind::name)
                        .collect::<Vec<_>>()
                        .join(", ");
                    let message = format!("`{}` is not a collective", collective.node);
                    self.error(
                        Diag::error(budget::BAD_ASSERT, message, collective.span, "unknown")
                            .help(format!("one of {known}")),
                    );
                }
                kind.map(|kind| Budget::No(kind, over))
            }
            Assertion::AtMost { quantity, number, unit } => self.limit(quantity, number, unit),
        }
    }

    fn over(&mut self, name: &Name) -> Option<Over> {
        if let Some(kind) = AxisKind::from_name(&name.node) {
            return Some(Over::Kind(kind));
        }
        let axes = self.axis_words(std::slice::from_ref(name))?;
        Some(Over::Axes(axes.iter().map(|axis| axis.axis()).collect()))
    }

    fn limit(&mut self, quantity: &Name, number: &Name, unit: &Name) -> Option<Budget> {
        let amount = format!("{}{}", number.node, unit.node);
        let limit = match quantity.node.as_str() {
            "memory" => number::bytes(&amount).map(Budget::MemoryAtMost),
            time if TIMES.contains(&time) => number::seconds(&amount)
                .map(|seconds| Budget::TimeAtMost(quantity.node.clone(), seconds)),
            other => {
                let message = format!("`{other}` cannot be limited");
                let diag =
                    Diag::error(budget::BAD_ASSERT, message, quantity.span, "unknown quantity");
                self.error(diag.help(format!("limit {} or memory", TIMES.join(", "))));
                return None;
            }
        };
        if limit.is_none() {
            let message = format!("`{amount}` is no limit for `{}`", quantity.node);
            let help = if quantity.node == "memory" {
                "give bytes: B, kB, MB, GB, KiB, MiB, GiB"
            } else {
                "give a time: s, ms, us, ns"
            };
            self.error(
                Diag::error(
                    budget::BAD_ASSERT,
                    message,
                    number.span.to(unit.span),
                    "not understood",
                )
                .help(help),
            );
        }
        limit
    }
}
