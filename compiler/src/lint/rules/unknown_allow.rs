//! `unknown-allow`: an `allow` of a code that no lint has.

use shardwise_ir::codes;
use shardwise_ir::suggest::nearest;

use crate::lint::definition::{Finding, Group, Level, Lint, LintContext};

pub(crate) const LINT: Lint = Lint {
    code: "SW901",
    name: "unknown-allow",
    group: Group::Tool,
    level: Level::Warn,
    of_plans: true,
    what: "An `allow` names something that is not a lint: a code that does not exist, or the \
        code of an error.",
    why: "It silences nothing. Errors cannot be allowed, since a program with an error has no \
        plan.",
    bad_example: "hardware tpu-v5p
mesh X=4
dim B=8192, D=8192
input In[B_X, D]
allow SW398
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
    let is_known = |code: &str| context.lints.iter().any(|lint| lint.is_called(code));
    let found =
        context.unused_allows().into_iter().filter(|allow| !is_known(&allow.code)).map(|allow| {
            let message = format!("`{}` is no lint, and cannot be allowed", allow.code);
            let is_error = codes::find(&allow.code).is_some();
            let label =
                if is_error { "an error, which no `allow` silences" } else { "no such lint" };
            let near = nearest(&allow.code, context.lints.iter().map(|lint| lint.code))
                .filter(|_| !is_error);
            let help = near
                .map_or_else(|| "remove it".to_owned(), |near| format!("did you mean `{near}`?"));
            let finding = Finding::new(&LINT, message, allow.span, label).help(help);
            finding.fix(allow.removal(context.source))
        });
    found.collect()
}
