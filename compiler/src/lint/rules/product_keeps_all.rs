//! `product-keeps-all`: a product of activations and a weight that sums over nothing.
//!
//! It is legal, and sometimes meant: the discretised decay of a state-space model multiplies every
//! step with every state. So brackets on the left, which show the dimensions of the result, silence
//! it, and so does a sum over what both have.

use shardwise_ir::ids::DimId;
use shardwise_ir::program::{Op, OpKind, Phase};

use crate::lint::analysis::program::{is_bare, is_param, is_reduced_over};
use crate::lint::definition::{Finding, Group, Level, Lint, LintContext};

pub(crate) const LINT: Lint = Lint {
    code: "SW324",
    name: "product-keeps-all",
    group: Group::Compute,
    level: Level::Warn,
    of_plans: false,
    what: "A product with a weight has no suffix and no brackets on its left: it sums over \
        nothing, though both operands share a dimension and each has one of its own.",
    why: "`In * W` multiplies element by element and repeats each operand along what it lacks. \
        The matrix product is `In *D W`. Without the suffix the result has all dimensions of both, \
        and takes that much memory.",
    bad_example: "hardware tpu-v5p
mesh X=4
dim B=8192, D=512, F=64
input In[B_X, D]
param W[D, F]
Out = In * W
output Out[B_X, D, F]
",
    good_example: "hardware tpu-v5p
mesh X=4
dim B=8192, D=512, F=64
input In[B_X, D]
param W[D, F]
Out = In *D W
output Out[B_X, F]
",
    parameters: &[],
    check,
};

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    let products = context.program.ops.iter().filter(|op| op.phase == Phase::Forward);
    products.filter_map(|op| finding(context, op)).collect()
}

fn finding(context: &LintContext<'_>, op: &Op) -> Option<Finding> {
    let program = context.program;
    let shared = shared(context, op)?;
    if shared.iter().any(|&dim| is_reduced_over(program, op.result, dim))
        || !is_bare(context, op.span)
    {
        return None;
    }
    let names = |dims: &[DimId], separator: &str| {
        let names: Vec<&str> = dims.iter().map(|&dim| program.dims[dim].name.as_str()).collect();
        names.join(separator)
    };
    let text = context.source.get(op.span.start..op.span.end)?;
    let (sum, all) = (names(&shared, ","), names(&program.values[op.result].dims, ", "));
    let message = format!("`{text}` sums over nothing: the result is [{all}]");
    let finding = Finding::new(&LINT, message, op.span, format!("both have `{sum}`"));
    Some(finding.help(format!(
        "write `*{sum}` for `*` to sum over `{sum}`; if every product is meant, write the brackets \
        on the left: `[{all}]`"
    )))
}

/// The dimensions that both operands of a product without a sum have, if one of them is a weight
/// and each has others.
fn shared(context: &LintContext<'_>, op: &Op) -> Option<Vec<DimId>> {
    let program = context.program;
    let OpKind::Einsum { contracted } = &op.kind else { return None };
    let [left, right] = &op.operands[..] else { return None };
    let [left, right] = [left.value, right.value];
    let is_weight = is_param(program, left) != is_param(program, right);
    let (of_left, of_right) = (&program.values[left].dims, &program.values[right].dims);
    let own = |of: &[DimId], other: &[DimId]| of.iter().any(|dim| !other.contains(dim));
    let shared: Vec<DimId> = of_left.iter().copied().filter(|dim| of_right.contains(dim)).collect();
    let is_likely = contracted.is_empty()
        && is_weight
        && !shared.is_empty()
        && own(of_left, of_right)
        && own(of_right, of_left);
    is_likely.then_some(shared)
}
