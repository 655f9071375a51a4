//! Words the errors of plans: what is wrong, where, and the statement that fixes it.

mod collective;
mod local;

use local::difference;

use crate::codes::{repeat, sharding as codes};
use shardwise_grammar::span::Span;

use super::local::may_pass;
use super::{CollectiveFault, ShardingFault, classify};
use crate::Diag;
use crate::ids::ValueId;
use crate::plan::{Collective, Materialization, Step, StepKind};
use crate::print;
use crate::program::{CollectiveKind, Op, Operand, Output, Program};
use crate::sharding::{Sharding, Unreduced};

/// Words diagnostics about one program.
#[derive(Clone, Copy)]
pub(super) struct Words<'p> {
    pub(super) program: &'p Program,
}

impl<'p> Words<'p> {
    fn text(self, material: &Materialization) -> String {
        print::materialization(self.program, material)
    }

    fn name(self, value: ValueId) -> &'p str {
        &self.program.values[value].name
    }

    fn op(self, step: &Step) -> Option<&'p Op> {
        match step.kind {
            StepKind::Local(op) | StepKind::Collective(_, Some(op)) => self.program.ops.get(op),
            StepKind::Collective(_, None) => None,
        }
    }

    fn span(self, step: &Step) -> Span {
        let value = || {
            self.program
                .values
                .get(step.result.value)
                .map_or_else(Span::default, |value| value.span)
        };
        self.op(step).map_or_else(value, |op| op.span)
    }

    /// The statement of the collective from one sharding of a value to another, if one step leads
    /// there.
    fn statement(self, value: ValueId, from: &Sharding, to: &Sharding) -> Option<String> {
        let moved = classify(&self.program.mesh, from, to)?;
        let material = |sharding: &Sharding| Materialization { value, sharding: sharding.clone() };
        Some(print::collective(self.program, &moved, &material(from), &material(to)))
    }

    /// An operand of an operation, or the operation itself where it has none.
    fn operand_span(op: &Op, operand: usize) -> Span {
        op.operands.get(operand).map_or(op.span, |operand| operand.span)
    }

    pub(super) fn not_its_statement(self, step: &Step) -> Diag {
        let diag = Diag::error(
            codes::WRONG_RESULT,
            "a step of the plan does not have the form of its statement",
            self.span(step),
            "this statement",
        );
        diag.help("operands and result of a step are those of the statement that it carries out")
    }

    pub(super) fn of_a_layer(self, step: &Step, value: ValueId) -> Diag {
        let message = format!("each layer has its own `{}`", self.name(value));
        let diag = Diag::error(repeat::OF_A_LAYER, message, self.span(step), "of which layer?");
        diag.and(self.program.values[value].span, "given inside a block")
            .help("`last(…)` takes that of the last layer out of its block")
    }

    pub(super) fn bad_sharding(
        self,
        step: &Step,
        material: &Materialization,
        fault: &ShardingFault,
    ) -> Diag {
        let text = self.text(material);
        let (code, message) = match fault {
            ShardingFault::Rank => (
                codes::WRONG_RESULT,
                format!("`{text}` has another number of dimensions than the value"),
            ),
            ShardingFault::AxisTwice(axis) => {
                let axis = &self.program.mesh.axes[axis.axis()].name;
                (codes::AXIS_TWICE, format!("axis `{axis}` is used twice in `{text}`"))
            }
            ShardingFault::NotDivisible(position) => {
                let value = &self.program.values[material.value];
                let dim = value
                    .dims
                    .get(*position)
                    .map_or("?", |&dim| self.program.dims[dim].name.as_str());
                let cut = value.dims.get(*position).is_some_and(|&dim| {
                    self.program.size_in(value.repeat, dim) != self.program.dims[dim].size
                });
                let size = if cut { "its size in a microbatch" } else { "its size" };
                (
                    codes::NOT_DIVISIBLE,
                    format!("the axes of `{dim}` in `{text}` do not divide {size}"),
                )
            }
        };
        Diag::error(code, message, self.span(step), "in this step")
    }

    /// An operand in a sharding that no step produces.
    pub(super) fn missing(self, step: &Step, operand: usize, forms: &[Sharding]) -> Diag {
        let material = &step.operands[operand];
        let span =
            self.op(step).map_or_else(|| self.span(step), |op| Self::operand_span(op, operand));
        let message = format!("no earlier statement produces `{}`", self.text(material));
        let diag = Diag::error(codes::NO_MATERIALIZATION, message, span, "used here");
        let diag = diag.and(
            self.program.values[material.value].span,
            format!("`{}` is defined here", self.name(material.value)),
        );
        diag.help(self.way_to(material.value, &material.sharding, forms))
    }

    /// The reshard from an existing materialization to the wanted one.
    fn way_to(self, value: ValueId, wanted: &Sharding, forms: &[Sharding]) -> String {
        let mut near: Vec<&Sharding> = forms.iter().collect();
        near.sort_by_key(|form| difference(form, wanted));
        if let Some(statement) = near.iter().find_map(|form| self.statement(value, form, wanted)) {
            return format!("write `{statement}` before it");
        }
        let there: Vec<String> = near
            .iter()
            .take(5)
            .map(|form| {
                format!("`{}`", self.text(&Materialization { value, sharding: (*form).clone() }))
            })
            .collect();
        if there.is_empty() {
            format!("define `{}` first", self.name(value))
        } else {
            format!("what exists is {}", there.join(", "))
        }
    }

    pub(super) fn no_output(self, output: &Output, forms: &[Sharding]) -> Diag {
        let name = self.name(output.value);
        let dims = &self.program.values[output.value].dims;
        let wanted = format!("{name}{}", print::Printer::new(self.program).pin(dims, &output.pin));
        let (message, how) = if let Some(of) = self.program.updates(output) {
            let of = self.name(of);
            (
                format!("`{name}` is not yielded as `{wanted}`, which is how `{of}` is declared"),
                "to take its place like this",
            )
        } else if output.yields_to.is_some() {
            (
                format!("`{name}` is not yielded as `{wanted}`, which is how it enters a layer"),
                "to enter the next layer like this",
            )
        } else {
            (format!("no statement produces the output `{wanted}`"), "to leave like this")
        };
        let diag = Diag::error(codes::NO_MATERIALIZATION, message, output.span, how);
        let diag =
            diag.and(self.program.values[output.value].span, format!("`{name}` is defined here"));
        match output.pin.exact() {
            Some(exact) => diag.help(self.way_to(output.value, &exact, forms)),
            None => diag.help("write a collective that leads there"),
        }
    }

    pub(super) fn not_declared_sharding(self, value: ValueId, forms: &[Sharding]) -> Diag {
        let of = &self.program.values[value];
        let declared = of.declared_sharding.as_ref().map_or(String::new(), |declared| {
            print::Printer::new(self.program).pin(&of.dims, declared)
        });
        let there: Vec<String> = forms
            .iter()
            .take(5)
            .map(|form| {
                format!("`{}`", self.text(&Materialization { value, sharding: form.clone() }))
            })
            .collect();
        let message = format!("no step reshards `{}` to `{}{declared}`", of.name, of.name);
        Diag::error(codes::NO_MATERIALIZATION, message, of.span, "its declared sharding")
            .help(format!("what exists is {}", there.join(", ")))
    }

    pub(super) fn unpinned(self, operand: &Operand, material: &Materialization) -> Diag {
        let dims = &self.program.values[operand.value].dims;
        let pin = operand
            .pin
            .as_ref()
            .map_or(String::new(), |pin| print::Printer::new(self.program).pin(dims, pin));
        let message = format!(
            "the plan reads `{}` where the program has `{}{pin}`",
            self.text(material),
            self.name(operand.value)
        );
        Diag::error(codes::WRONG_RESULT, message, operand.span, "pinned here")
    }

    pub(super) fn bad_collective(
        self,
        step: &Step,
        kind: &CollectiveKind,
        fault: &CollectiveFault,
    ) -> Diag {
        let dims: Vec<&str> = self.program.values[step.result.value]
            .dims
            .iter()
            .map(|&dim| self.program.dims[dim].name.as_str())
            .collect();
        let reason = fault.reason(&self.program.mesh, &dims);
        let message =
            format!("`{}` does not lead to `{}`: {reason}", kind.name(), self.text(&step.result));
        let diag = Diag::error(codes::BAD_COLLECTIVE, message, self.span(step), "this step");
        let from = step.operands.first().map(|operand| &operand.sharding);
        match from.and_then(|from| self.statement(step.result.value, from, &step.result.sharding)) {
            Some(statement) => diag.help(format!("write `{statement}`")),
            None => diag.help("more than one step is needed: write one statement for each"),
        }
    }

    pub(super) fn misnamed(self, step: &Step, right: &Collective) -> Diag {
        let dims = &self.program.values[step.result.value].dims;
        let text = print::Printer::new(self.program).collective(dims, right);
        let message = format!(
            "the step to `{}` is `{text}`, and is written \
                differently",
            self.text(&step.result)
        );
        Diag::error(codes::BAD_COLLECTIVE, message, self.span(step), "this step")
    }

    pub(super) fn wrong_result(self, op: &Op, given: &Sharding, wanted: &Sharding) -> Diag {
        let produced = self.text(&Materialization { value: op.result, sharding: given.clone() });
        let written = self.text(&Materialization { value: op.result, sharding: wanted.clone() });
        let help = match self.statement(op.result, given, wanted) {
            Some(statement) => format!("write `{produced}` on the left, then `{statement}`"),
            None => format!("write `{produced}` on the left"),
        };
        let diag = Diag::error(
            codes::WRONG_RESULT,
            format!("the operands produce `{produced}`, not `{written}`"),
            op.span,
            "the left side is exactly the result",
        );
        diag.help(help)
    }

    /// An operand pinned as partial, of an operation that passes no partial results.
    pub(super) fn nonlinear_pin(self, op: &Op) -> Option<Diag> {
        let kind = |operand: &Operand| {
            operand
                .pin
                .as_ref()
                .map(|pin| &pin.unreduced)
                .filter(|pending| !pending.is_empty())
                .map(Unreduced::kind)
        };
        let (operand, kind) =
            op.operands.iter().enumerate().find_map(|(k, operand)| Some((k, kind(operand)?)))?;
        let reason = may_pass(op, kind, operand).err()?;
        Some(self.partial(op, operand, None, reason))
    }
}
