//! `sum-keeps-all`: a sum of two arrays that are not along the same dimensions, though these have
//! the same size.
//!
//! It is legal, and sometimes meant: distances are the differences of all places and all others. So
//! brackets on the left silence it, as those of a product, and so does an operand that is renamed
//! for it.

use shardwise_ir::functions::Arithmetic;
use shardwise_ir::ids::{DimId, ValueId};
use shardwise_ir::program::{MapForm, Op, OpKind, Phase};
use shardwise_ir::rearrange::Rearrange;

use crate::lint::analysis::program::is_bare;
use crate::lint::definition::{Finding, Group, Level, Lint, LintContext};

pub(crate) const LINT: Lint = Lint {
    code: "SW326",
    name: "sum-keeps-all",
    group: Group::Compute,
    level: Level::Warn,
    of_plans: false,
    what: "Two arrays are added, each along a dimension that the other lacks and of the same size, \
        and no brackets on the left show that.",
    why: "Dimensions go by name: `[B, D]` and `[B, E]` add up to `[B, D, E]`, every element of \
        one with every element of the other, whatever their sizes. Where one dimension has two \
        names, as after the weight of a residual branch, one is to be renamed.",
    bad_example: "hardware tpu-v5p
mesh X=4
dim B=8192, D=512, E=D
input In[B_X, D]
param W[D, E]
Out = In + In *D W
output Out[B_X, D, E]
",
    good_example: "hardware tpu-v5p
mesh X=4
dim B=8192, D=512, E=D
input In[B_X, D]
param W[D, E]
Out = In + rename_{E->D}(In *D W)
output Out[B_X, D]
",
    parameters: &[],
    check,
};

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    let sums = context.program.ops.iter().filter(|op| op.phase == Phase::Forward);
    sums.filter_map(|op| finding(context, op)).collect()
}

fn finding(context: &LintContext<'_>, op: &Op) -> Option<Finding> {
    let program = context.program;
    let is_sum =
        [Arithmetic::Add, Arithmetic::Sub].into_iter().any(|of| op.is(&MapForm::Infix(of)));
    let [left, right] = &op.operands[..] else { return None };
    let [left, right] = [left.value, right.value];
    let is_meant = [left, right].into_iter().any(|value| is_renamed(context, value));
    if !is_sum || is_meant || !is_bare(context, op.span) {
        return None;
    }
    let (one, other) = alike(context, left, right)?;
    let name = |dim: DimId| program.dims[dim].name.as_str();
    let (one, other) = (name(one), name(other));
    let text = context.source.get(op.span.start..op.span.end)?;
    let all = program.values[op.result].dims.iter().map(|&dim| name(dim)).collect::<Vec<_>>();
    let all = all.join(", ");
    let message = format!("`{text}` adds every `{one}` to every `{other}`: the result is [{all}]");
    let label = format!("`{one}` and `{other}` have the same size");
    // Of a sum with what is declared, what is computed is renamed.
    let is_computed = program.values[left].role.is_none() && program.values[right].role.is_some();
    let (from, to) = if is_computed { (one, other) } else { (other, one) };
    Some(Finding::new(&LINT, message, op.span, label).help(format!(
        "if they are one dimension, rename it where it is `{from}`: `rename_{{{from}->{to}}}(…)`; \
            if every sum is meant, write the brackets on the left: `[{all}]`"
    )))
}

/// Dimensions of the same size, each of one of two values that share others.
fn alike(context: &LintContext<'_>, left: ValueId, right: ValueId) -> Option<(DimId, DimId)> {
    let program = context.program;
    let (of_left, of_right) = (&program.values[left].dims, &program.values[right].dims);
    if !of_left.iter().any(|dim| of_right.contains(dim)) {
        return None;
    }
    let size = |dim: DimId| program.dims[dim].size;
    let own = |of: &[DimId], other: &[DimId]| -> Vec<DimId> {
        of.iter().copied().filter(|&dim| !other.contains(&dim) && size(dim) > 1).collect()
    };
    let (of_left, of_right) = (own(of_left, of_right), own(of_right, of_left));
    let pair = |&one: &DimId| {
        let other = of_right.iter().copied().find(|&other| size(other) == size(one))?;
        Some((one, other))
    };
    of_left.iter().find_map(pair)
}

/// Whether a value is another one with other names for its dimensions.
fn is_renamed(context: &LintContext<'_>, value: ValueId) -> bool {
    let program = context.program;
    let op = program.dataflow().definition(value).map(|op| &program.ops[op]);
    op.is_some_and(|op| matches!(op.kind, OpKind::Rearrange(Rearrange::Rename(_))))
}
