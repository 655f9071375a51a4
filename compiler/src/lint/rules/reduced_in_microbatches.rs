//! `reduced-in-microbatches`: a sum is reduced in each microbatch, where one reduction of the
//! accumulated sum is enough.
//!
//! The planner leaves sums partial by itself, so there are two causes: brackets that ask for a
//! reduced value, and a reduction that the author wrote. The cost of brackets is measured by an
//! edit that asks for the unreduced value, not by opening them: open brackets could also change the
//! layout of the product, and the saving would not be that of this lint. Where the unreduced sums
//! do not fit into memory, reducing in the microbatches is necessary, and the lint reports nothing.

use shardwise_ir::print;

use crate::display::units;
use crate::lint::analysis::late_reductions::{Cause, Late, late_reductions};
use crate::lint::definition::{Finding, Fix, Group, Level, Lint, LintContext};

pub(crate) const LINT: Lint = Lint {
    code: "SW317",
    name: "reduced-in-microbatches",
    group: Group::Communication,
    level: Level::Warn,
    of_plans: true,
    what: "A sum over the batch is reduced in each microbatch, though only the total of all of \
        them is used.",
    why: "Partial sums can be accumulated unreduced: the total, reduced once after the \
        microbatches, is the same, and it is communicated once instead of once per microbatch. \
        Unreduced sums can be larger; where they do not fit into memory, the lint is silent.",
    bad_example: "hardware tpu-v5p
mesh X=4
dim B=65536, D=2048, F=8192, B'=8192
input In[B_X, D], dOut[B_X, F]
microbatches B=B'*8 {
  Rows = part(In)
  dRows = part(dOut)
  dPart[D_X, F] = Rows *B' dRows
}
dW = total(dPart)
output dW[D_X, F]
",
    good_example: "hardware tpu-v5p
mesh X=4
dim B=65536, D=2048, F=8192, B'=8192
input In[B_X, D], dOut[B_X, F]
microbatches B=B'*8 {
  Rows = part(In)
  dRows = part(dOut)
  dPart = Rows *B' dRows
}
dW = total(dPart)
output dW[D_X, F]
",
    parameters: &[],
    check,
};

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    late_reductions(context).iter().map(|late| finding(context, late)).collect()
}

fn finding(context: &LintContext<'_>, late: &Late<'_>) -> Finding {
    let partial = &late.from.operands[0];
    let name = context.name(late.from.result.value);
    let times = late.cost.times;
    let (each, once) = (units::seconds(late.cost.seconds), times / late.microbatches as f64);
    let message = format!(
        "`{name}` is reduced in every microbatch: {times} times {each}, where {once} is enough"
    );
    let text = print::materialization(context.program, partial);
    let finding = match &late.cause {
        Cause::Written(span) => {
            let help = format!(
                "remove it, write `total({text})`, and reduce its result after the microbatches"
            );
            Finding::new(&LINT, message, *span, "only the total is used").help(help)
        }
        Cause::Brackets(span, edits) => {
            let label = format!(
                "for this the plan has `{}`",
                print::step(&context.best().plan.program, late.from)
            );
            let help = format!(
                "write `{text}`, or omit the brackets: the total is reduced after the microbatches \
                    then"
            );
            let fix = Fix::safe(format!("leave `{name}` unreduced"), edits.clone());
            Finding::new(&LINT, message, *span, label).help(help).fix(fix)
        }
    };
    finding.costs(late.seconds(), late.spared(late.cost.bytes * times))
}
