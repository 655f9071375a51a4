//! `unused-allow`: an `allow` that silenced nothing. It is last in the table, with `unknown-allow`,
//! so that all other lints run before it.

use crate::lint::definition::{Finding, Group, Level, Lint, LintContext};

pub(crate) const LINT: Lint = Lint {
    code: "SW900",
    name: "unused-allow",
    group: Group::Tool,
    level: Level::Warn,
    of_plans: true,
    what: "An `allow` silences a lint that finds nothing there.",
    why: "The accepted fault is gone, or the statement moved; left in place, the `allow` would \
        hide the next one.",
    bad_example: "allow SW353
hardware tpu-v5p
mesh X=4
dim B=8192, D=8192
input In[B_X, D]
Out = gelu(In)
output Out[B_X, D]
",
    good_example: "hardware tpu-v5p
mesh X=4
dim B=8192, D=8192
input In[B_X, D]
Out = gelu(In)
output Out[B_X, D]
",
    parameters: &[],
    check,
};

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    let found = context.unused_allows().into_iter().filter_map(|allow| {
        let lint = context.lints.iter().find(|lint| lint.is_called(&allow.code) && lint.runs)?;
        let message =
            format!("`allow {}` silences nothing: there is no {} here", allow.code, lint.name);
        let finding = Finding::new(&LINT, message, allow.span, "nothing to allow here");
        Some(finding.help("remove it").fix(allow.removal(context.source)))
    });
    found.collect()
}
