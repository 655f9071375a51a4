//! `gathered-for-statistics`: logits are gathered on every device for a reduction to one number per
//! token.

use crate::lint::analysis::pins::{self, finding};
use crate::lint::definition::{Finding, Group, Level, Lint, LintContext, PinnedBy};

pub(crate) const LINT: Lint = Lint {
    code: "SW306",
    name: "gathered-for-statistics",
    group: Group::Communication,
    level: Level::Warn,
    of_plans: true,
    what: "A value is gathered along a dimension over which it is then only reduced.",
    why: "A sum or maximum over a sharded dimension needs each device's local part, and then one \
        number per row from each device. Gathering first communicates the full value instead: for \
        logits, as many numbers per token as the vocabulary has.",
    bad_example: "hardware tpu-v5p
mesh X=4, Y=4
dim B=8192, D=8192, V=131072
input In[B_X, D]
param Wv[D, V_Y]
Logits[B_X, V] = In *D Wv
E = exp(Logits)
Z = sum_V(E)
output Z[B_X]
",
    good_example: "hardware tpu-v5p
mesh X=4, Y=4
dim B=8192, D=8192, V=131072
input In[B_X, D]
param Wv[D, V_Y]
Logits = In *D Wv
E = exp(Logits)
Z = sum_V(E)
output Z[B_X]
",
    parameters: &[],
    check,
};

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for pinned in pins::costly(context) {
        if let PinnedBy::GatherForReduction(dim) = pinned.by {
            let what = format!(
                "is unsharded along `{}`, over which it is then reduced",
                context.program.dims[dim].name
            );
            findings.push(finding(&LINT, context, pinned, &what));
        }
    }
    findings
}
