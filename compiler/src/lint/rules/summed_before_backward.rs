//! `summed-before-backward`: gradients of an array, where those of a number were likely meant.

use shardwise_grammar::ast::{Backward, Statement};
use shardwise_ir::Span;
use shardwise_ir::functions::Function;
use shardwise_ir::ids::ValueId;
use shardwise_ir::program::{MapForm, Op};

use crate::lint::definition::{Finding, Group, Level, Lint, LintContext};

pub(crate) const LINT: Lint = Lint {
    code: "SW356",
    name: "summed-before-backward",
    group: Group::Tidiness,
    level: Level::Warn,
    of_plans: false,
    what: "`backward from` names an array with dimensions, and no gradient of it is given.",
    why: "Gradients are those of a number. Of an array the sum of its elements is differentiated, \
        which is seldom the loss: usually the loss was left out, or the gradient that arrives from \
        the rest of the model.",
    bad_example: "hardware tpu-v5p
mesh X=4
dim B=65536, D=4096
input In[B_X, D]
param W[D, D']
Out = In *D W
backward from Out
output dW[D, D']
",
    good_example: "hardware tpu-v5p
mesh X=4
dim B=65536, D=4096
input In[B_X, D], dOut[B_X, D']
param W[D, D']
Out = In *D W
backward from Out given dOut
output dW[D, D']
",
    parameters: &[],
    check,
};

fn check(context: &LintContext<'_>) -> Vec<Finding> {
    let summed = context.program.ops.iter().find_map(seeded).filter(|&value| {
        let dims = &context.program.values[value].dims;
        !dims.is_empty()
    });
    let directive = context.file.statements.iter().find_map(|statement| match &statement.node {
        Statement::Backward(directive) if directive.given.is_none() => {
            Some((directive, statement.span))
        }
        _ => None,
    });
    let found = summed.zip(directive);
    found
        .map(|(value, (directive, span))| finding(context, value, directive, span))
        .into_iter()
        .collect()
}

/// The value whose gradient is one everywhere: where gradients start, if none is given.
fn seeded(op: &Op) -> Option<ValueId> {
    let is_ones = op.is(&MapForm::call(Function::Ones));
    is_ones.then(|| op.operands[0].value)
}

fn finding(context: &LintContext<'_>, value: ValueId, directive: &Backward, span: Span) -> Finding {
    let program = context.program;
    let name = &directive.from.node;
    let dims = &program.values[value].dims;
    let dims = dims.iter().map(|&dim| program.dims[dim].name.as_str()).collect::<Vec<_>>();
    let message = format!(
        "`{name}` has dimensions and no gradient is given: the sum of its elements is \
            differentiated"
    );
    let finding = Finding::new(&LINT, message, span, format!("`{name}` is no number"));
    finding.help(format!(
        "name the gradient that arrives, `backward from {name} given d{name}`, or differentiate a \
        loss: `Loss = sum_{{{}}}({name})` says that the sum is meant",
        dims.join(",")
    ))
}
