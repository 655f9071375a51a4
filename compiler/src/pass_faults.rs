//! Words the errors of passes: passes return what is wrong with a program, this module turns it
//! into diagnostics about the text.

mod gradient_faults;
mod optimizer_faults;

use shardwise_ir::codes;
use shardwise_ir::ids::ValueId;
use shardwise_ir::print::Printer;
use shardwise_ir::program::{Op, Program, Value};
use shardwise_ir::sharding::{Pin, Unreduced};
use shardwise_ir::{Diag, verify};
use shardwise_passes::pipeline::{KernelFault, PlanFault, RewriteFault};
use shardwise_passes::textbook::Infeasible;

use crate::options::Options;
use crate::planned::budget;

/// Why a program cannot be rewritten.
pub(crate) fn of_rewrite(fault: &RewriteFault) -> Vec<Diag> {
    match fault {
        RewriteFault::Gradient(program, faults) => {
            faults.iter().map(|fault| gradient_faults::describe(program, fault)).collect()
        }
        RewriteFault::Optimizer(program, faults) => {
            faults.iter().map(|fault| optimizer_faults::describe(program, fault)).collect()
        }
        RewriteFault::Kernel(fault) => vec![not_one_kernel(fault)],
    }
}

/// Statements of a plan that name a kernel, and cannot run as one.
pub(crate) fn not_one_kernel(&KernelFault { number, first, other }: &KernelFault) -> Diag {
    let message = format!("this statement cannot run in `k{number}`");
    let diag = Diag::error(codes::names::NOT_ONE_KERNEL, message, other, "another kernel");
    diag.and(first, format!("`k{number}` begins here")).help(format!(
        "leave `in k{number}` out: a kernel has one product, norm or lookup and what is \
            element-wise around it, or is attention"
    ))
}

/// Why `program` has no plan as `options` ask for it.
pub(crate) fn of_plan(program: &Program, fault: &PlanFault, options: &Options) -> Option<Diag> {
    match fault {
        PlanFault::Infeasible(infeasible) => infeasible_plan(program, *infeasible),
        // The caller, who cancelled it or has a cheaper plan, reads nothing.
        PlanFault::Cancelled | PlanFault::NotBelow(_) => None,
        PlanFault::OverCapacity(plan) => budget::no_room(&plan.as_ref().into(), options),
    }
}

fn infeasible_plan(program: &Program, infeasible: Infeasible) -> Option<Diag> {
    match infeasible {
        Infeasible::Operation(op) => Some(no_layout(program, &program.ops[op])),
        Infeasible::Output(value) => unreachable_output(program, value),
    }
}

/// An output in a sharding that no collective leads to: it is pending, and the value is complete.
fn unreachable_output(program: &Program, value: ValueId) -> Option<Diag> {
    let Value { name, span, dims, .. } = &program.values[value];
    let output = program.outputs.iter().find(|output| output.value == value)?;
    let complete = Pin { unreduced: Unreduced::default(), ..output.pin.clone() };
    let text = |pin: &Pin| format!("{name}{}", Printer::new(program).pin(dims, pin));
    let message = format!("no collective makes `{}` of `{name}`", text(&output.pin));
    let diag = Diag::error(codes::sharding::NO_LAYOUT, message, output.span, "this sharding");
    Some(diag.and(*span, format!("`{name}` is here")).help(format!(
        "a complete value does not become a pending sum: write `output {}`",
        text(&complete)
    )))
}

fn no_layout(program: &Program, op: &Op) -> Diag {
    if let Some(fault) = verify::pinned_fault(program, op) {
        return fault;
    }
    let result = &program.values[op.result].name;
    let mut diag = Diag::error(
        codes::sharding::NO_LAYOUT,
        format!("no layout of `{result}` fits what its brackets ask for"),
        op.span,
        "every way to split this statement breaks one of its brackets",
    );
    for operand in op.operands.iter().filter(|operand| operand.pin.is_some()) {
        diag = diag.and(operand.span, "this use is pinned");
    }
    diag.help("omit the brackets of one operand, so that it can be gathered or sliced for this use")
}
