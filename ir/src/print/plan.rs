//! Plans as text: the explicit form of the language, in which every operand has its sharding.

use std::fmt;

use super::blocks::Place;
use super::{Printer, exact, step};
use crate::collectives::Collectives;
use crate::plan::{Materialization, Plan, Step, StepKind};
use crate::products::Products;
use crate::program::{Fusion, Mode, Output, Phase, Program};
use crate::sharding::{Pin, Sharding};

/// The lines above a plan's statements.
pub fn plan_header(plan: &Plan) -> String {
    Printer::new(&plan.program).header(Mode::Explicit)
}

/// The lines below a plan's statements: outputs in the sharding that the plan gives them, and
/// asserts.
pub fn plan_footer(plan: &Plan) -> String {
    let given =
        |output: &Output| given_output(plan, output).map_or_else(|| output.pin.clone(), Pin::from);
    Printer::new(&plan.program).footer_with(given)
}

/// The lines of a plan's statements, blocks indented; each with the number of the step that it is,
/// if it is one.
pub fn plan_body(plan: &Plan) -> Vec<(String, Option<usize>)> {
    let entered = |output: &Output| {
        let then = &plan.program.values[output.yields_to?];
        let entry = || plan.steps.iter().find(|step| Some(step.result.value) == output.yields_to);
        let declared = then.declared_sharding.clone().filter(|_| then.role.is_some());
        declared.or_else(|| Some(Pin::from(entry()?.result.sharding.clone())))
    };
    Printer::new(&plan.program).blocks(
        &places(plan),
        |number| statement(plan, &plan.steps[number]),
        entered,
    )
}

/// A step, with its kernel.
fn statement(plan: &Plan, of: &Step) -> String {
    let kernel = match of.kind {
        StepKind::Local(op) => plan.program.ops[op].kernel.number,
        StepKind::Collective(..) => None,
    };
    let kernel = kernel.map_or_else(String::new, |number| format!(" in k{number}"));
    step(&plan.program, of) + &kernel
}

/// The place of each step; a collective is in the part of the step that it is found in.
fn places(plan: &Plan) -> Vec<Place> {
    let mut phase = Phase::default();
    let mut place = |step: &Step| {
        if let StepKind::Local(op) = step.kind {
            phase = plan.program.ops[op].phase;
        }
        Place { block: step.repeat, phase }
    };
    plan.steps.iter().map(&mut place).collect()
}

/// The outputs of a plan, in order; an output that the plan does not produce is omitted.
pub fn outputs(plan: &Plan) -> Vec<Materialization> {
    plan.program.outputs.iter().filter_map(|output| self::output(plan, output)).collect()
}

/// An output of a plan in its sharding; `None` for a value that a block yields to its next
/// iteration, and where the plan does not produce it.
pub fn output(plan: &Plan, output: &Output) -> Option<Materialization> {
    if plan.program.carried_into(output).is_some() {
        return None;
    }
    let sharding = given_output(plan, output)?;
    Some(Materialization { value: output.value, sharding })
}

/// The sharding of an output: what it asks for, or that of the parameter or state that it is in the
/// next step; else the latest materialisation that it accepts.
fn given_output(plan: &Plan, output: &Output) -> Option<Sharding> {
    let Output { value, ref pin, .. } = *output;
    let updated = plan.program.updates(output);
    let updated = updated.and_then(|of| exact(plan.program.values[of].declared_sharding.as_ref()));
    if let Some(written) = pin.exact().or(updated) {
        return Some(written);
    }
    let given = plan
        .steps
        .iter()
        .rev()
        .find(|step| step.result.value == value && pin.accepts(&step.result.sharding));
    let declared = || {
        exact(plan.program.values[value].declared_sharding.as_ref())
            .filter(|declared| pin.accepts(declared))
    };
    given.map(|step| step.result.sharding.clone()).or_else(declared)
}

/// `, fusion=none, collectives=chunked, products=fp8`, where these are not the defaults.
pub(super) fn settings(program: &Program) -> String {
    let settings = [
        ("fusion", program.fusion.name(), Fusion::default().name()),
        ("collectives", program.collectives.name(), Collectives::default().name()),
        ("products", program.products.name(), Products::default().name()),
    ];
    let written = settings.into_iter().filter(|(_, value, default)| value != default);
    written.fold(String::new(), |text, (name, value, _)| text + ", " + name + "=" + value)
}

/// Whether a collective gives its result another name.
pub(super) fn moves_on(step: &Step) -> bool {
    step.operands.iter().any(|operand| operand.value != step.result.value)
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&plan_header(self))?;
        for (line, _) in plan_body(self) {
            writeln!(f, "{line}")?;
        }
        f.write_str(&plan_footer(self))
    }
}
