//! `pinned-whole`: brackets such as `[B, F]` keep a value replicated without need, at the cost of a
//! gather.

use crate::lint::analysis::pins::{self, finding};
use crate::lint::definition::{Finding, Group, Level, Lint, LintContext, PinnedBy};

pub(crate) const LINT: Lint = Lint {
    code: "SW301",
    name: "pinned-whole",
    group: Group::Communication,
    level: Level::Warn,
    of_plans: false,
    what: "Brackets keep a value replicated, on a left side or at a use, and this costs a \
        collective.",
    why: "Brackets are constraints: `Tmp[B, F]` is replicated on every device, whatever the \
        statement produces. A name without brackets, or with `_?` instead of a subscript, leaves \
        the sharding to the compiler, which may find that no statement needs the replicated \
        value.",
    bad_example: "hardware tpu-v5p
mesh X=4, Y=4
dim B=8192, D=8192, F=32768
input In[B_X, D]
param Win[D, F_Y], Wout[F_Y, D]
Tmp[B_X, F] = In *D Win
Out = Tmp *F Wout
output Out[B_X, D_Y]
",
    good_example: "hardware tpu-v5p
mesh X=4, Y=4
dim B=8192, D=8192, F=32768
input In[B_X, D]
param Win[D, F_Y], Wout[F_Y, D]
Tmp[B_X, F_?] = In *D Win
Out = Tmp *F Wout
output Out[B_X, D_Y]
",
    parameters: &[],
    check,
};

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    let costly = pins::costly(context).iter().filter(|pinned| pinned.by == PinnedBy::Gather);
    costly.map(|pinned| finding(&LINT, context, pinned, "is pinned replicated")).collect()
}
