//! `pinned-whole`: brackets say `[B, F]` where the author meant nothing by it, and a gather is paid
//! for them.

use super::pins::{self, Kind, Pinned};
use super::walk;
use crate::display::units;
use crate::lint::{Finding, Fix, Group, Level, Lint, LintContext};

pub(crate) const LINT: Lint = Lint {
    code: "SW301",
    name: "pinned-whole",
    group: Group::Communication,
    level: Level::Warn,
    what: "Brackets keep a value whole, on a left side or at a use, and a collective is paid for \
        that.",
    why: "Brackets mean what they say: `Tmp[B, F]` is whole on every device, wherever the \
        statement leaves it. A name without brackets, or with
`_?` in the place of a subscript, leaves the sharding to the compiler, which may find that nobody \
needs the whole value.",
    trigger: "hardware tpu-v5p
mesh X=4, Y=4
dim B=8192, D=8192, F=32768
input In[B_X, D]
param Win[D, F_Y], Wout[F_Y, D]
Tmp[B_X, F] = In *D Win
Out = Tmp *F Wout
output Out[B_X, D_Y]
",
    cure: "hardware tpu-v5p
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
    let costly = pins::costly(context).iter().filter(|pinned| pinned.kind == Kind::Gather);
    costly.map(|pinned| finding(&LINT, context, pinned, "is pinned whole")).collect()
}

/// The finding of a pin that costs something; `what` is wrong with it.
pub(super) fn finding(
    lint: &Lint,
    context: &LintContext<'_>,
    pinned: &Pinned,
    what: &str,
) -> Finding {
    let Pinned { value, moves, saving, .. } = pinned;
    let name = context.name(*value);
    let before = context.best().report.serial_s;
    let message = format!(
        "`{name}` {what}, which costs {} of {}",
        units::seconds(saving.seconds),
        units::seconds(before)
    );
    let moves: Vec<String> = moves.iter().map(|step| format!("`{step}`")).collect();
    let finding = Finding::new(
        lint,
        message,
        pinned.span,
        format!("for this the plan has {}", walk::and_list(&moves)),
    );
    let after = saving.after.report.serial_s;
    let finding = finding.help(format!(
        "write `_?` for what may be split, or leave the brackets out: {} then",
        units::seconds(after)
    ));
    finding
        .costs(saving.seconds, saving.bytes)
        .fix(Fix::safe(format!("leave `{name}` open"), pinned.edits.clone()))
}
