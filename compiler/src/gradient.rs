//! How the gradient pass's faults are worded.

use shardwise_grammar::codes::gradient as codes;
use shardwise_ir::Diag;
use shardwise_ir::ids::{OpId, ValueId};
use shardwise_ir::program::{MapForm, OpKind, Program};
use shardwise_passes::gradient::{Fault, expand};

/// The program with its gradients, or why there are none.
pub(crate) fn derive(program: Program) -> Result<Program, Vec<Diag>> {
    if program.backward.is_none() {
        return Ok(program);
    }
    expand(program.clone()).map_err(|faults| faults.iter().map(|fault| describe(&program, fault)).collect())
}

fn describe(program: &Program, fault: &Fault) -> Diag {
    match *fault {
        Fault::Nothing => nothing(program),
        Fault::Unreached(of) => unreached(program, of),
        Fault::NoDerivative(op, operand) => no_derivative(program, op, operand),
        Fault::NameTaken(of, by) => name_taken(program, of, by),
    }
}

/// The `backward` statement, and the name of what it starts from.
fn start(program: &Program) -> (shardwise_ir::Span, &str) {
    program.backward.as_ref().map_or_else(Default::default, |backward| (backward.span, program.values[backward.from].name.as_str()))
}

fn nothing(program: &Program) -> Diag {
    let (span, from) = start(program);
    let message = format!("`{from}` depends on no `param`, and no gradient is named");
    let diag = Diag::error(codes::NOTHING, message, span, "nothing to differentiate");
    diag.help("declare weights as `param`, or name the gradient that is meant: `output dIn[…]`")
}

fn unreached(program: &Program, of: ValueId) -> Diag {
    let ((span, from), of) = (start(program), &program.values[of]);
    let message = format!("`{from}` does not depend on `{}`, so there is no `d{}`", of.name, of.name);
    let diag = Diag::error(codes::NOTHING, message, span, "starts here").and(of.span, format!("`{}` is not on the way", of.name));
    diag.help(format!("leave `d{}` out, or differentiate what `{}` leads to", of.name, of.name))
}

fn no_derivative(program: &Program, op: OpId, operand: usize) -> Diag {
    let op = &program.ops[op];
    let function = match &op.kind {
        OpKind::Map(function) => match &function.form {
            MapForm::Call { name, .. } => name.as_str(),
            _ => "this",
        },
        _ => "this",
    };
    let value = &program.values[op.operands[operand].value].name;
    let message = format!("`{function}` has no derivative with respect to `{value}`");
    let diag = Diag::error(codes::NO_DERIVATIVE, message, op.span, "a gradient would pass here").and(start(program).0, "asked for here");
    diag.help(format!("`stop_gradient({value})` says that it is a constant to the gradient"))
}

fn name_taken(program: &Program, of: ValueId, by: ValueId) -> Diag {
    let (of, by) = (&program.values[of], &program.values[by]);
    let message = format!("the gradient of `{}` is called `{}`, which is taken", of.name, by.name);
    let diag = Diag::error(codes::NAME_TAKEN, message, by.span, "has this name").and(start(program).0, "gradients asked for here");
    diag.help(format!("give it another name, or begin with it: `backward from {} given {}`", of.name, by.name))
}
