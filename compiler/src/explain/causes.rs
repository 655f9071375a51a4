//! Finds the causes of a collective in the plan: the step or declaration that produces its operand,
//! the reader of its result, the rule by which that reader cannot use the operand as it was, and
//! the brackets that the rule depends on.

mod shardings;

use shardwise_grammar::print::role_name;
use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::ids::{DimId, OpId, ValueId};
use shardwise_ir::plan::{Step, StepKind};
use shardwise_ir::print;
use shardwise_ir::program::{OpKind, Program};
use shardwise_ir::sharding::AxisRef;

use super::{Collective, End};
use crate::Planned;
use crate::planned::link_breakdown;
use crate::source::place::{self, Lines};
use crate::use_def::{UseDef, User};
use shardings::{Stand, stand};

/// The limit of listed readers of one collective.
const MOST_NEEDS: usize = 4;

/// Explains the collectives of one plan.
pub(crate) struct Explainer<'a> {
    planned: &'a Planned,
    source: &'a str,
    lines: Lines<'a>,
    /// The program before the search chose for open declarations.
    written: Option<Analyzed>,
    use_def: UseDef<'a>,
}

impl<'a> Explainer<'a> {
    pub(crate) fn new(planned: &'a Planned, source: &'a str, written: Option<Analyzed>) -> Self {
        Self { planned, source, lines: Lines::new(source), written, use_def: UseDef::of(planned) }
    }

    pub(crate) fn collective(&self, number: usize) -> Collective {
        let (step, cost) = (self.step(number), &self.planned.report.steps[number]);
        let mut readers = self.use_def.users(number);
        if readers.iter().any(|reader| matches!(reader, User::DeclaredSharding(_))) {
            readers.retain(|reader| !self.is_the_statement(reader, step.result.value));
        }
        let more = readers.len().saturating_sub(MOST_NEEDS);
        let mut needs: Vec<End> =
            readers.iter().take(MOST_NEEDS).map(|reader| self.need(step, reader)).collect();
        if needs.is_empty() {
            needs.push(End { who: "nothing".to_owned(), because: Vec::new() });
        }
        if more > 0 {
            needs.push(End { who: format!("{more} more"), because: Vec::new() });
        }
        Collective {
            text: print::step(self.program(), step),
            bytes: cost.bytes,
            time_s: cost.seconds,
            networks: link_breakdown::networks(self.planned, number),
            critical: self.planned.report.schedule.critical[number],
            from: self.from(number),
            needs,
            alternatives: Vec::new(),
            cure: None,
        }
    }

    /// Whether an output is declared by the left side of the value's own statement, which has the
    /// same brackets.
    fn is_the_statement(&self, reader: &User, value: ValueId) -> bool {
        let User::Output(output) = *reader else { return false };
        let (declared, producer) =
            (self.program().outputs[output].span, self.use_def.operation(value));
        producer
            .map(|op| self.program().ops[op].span)
            .is_some_and(|span| span.start <= declared.start && declared.end <= span.end)
    }

    /// The strategy that chose it where no brackets ask for it.
    fn choice(&self) -> &'static str {
        match self.planned.strategy_name() {
            "search" => "the search's choice",
            "textbook" => "the choice of the book's rules",
            _ => "as the plan says",
        }
    }

    fn program(&self) -> &'a Program {
        &self.planned.plan.program
    }

    fn step(&self, number: usize) -> &'a Step {
        &self.planned.plan.steps[number]
    }

    fn name(&self, value: ValueId) -> &'a str {
        &self.program().values[value].name
    }

    fn dim(&self, value: ValueId, position: usize) -> DimId {
        self.program().values[value].dims[position]
    }

    fn dim_name(&self, dim: DimId) -> &'a str {
        &self.program().dims[dim].name
    }

    fn axis_name(&self, axis: AxisRef) -> &'a str {
        &self.program().mesh.axes[axis.axis()].name
    }

    /// `` line 7: `param Win: bf16[D_X, F_Y]` ``; the state of an optimizer has no text of its own.
    fn declaration(&self, value: ValueId) -> String {
        let of = &self.program().values[value];
        let keyword = of.role.map_or("", role_name);
        let (line, written) = (self.lines.of(of.span), place::quote(self.source, of.span));
        if written.starts_with("optimizer ") {
            return format!("line {line}: `{written}`, for its {keyword} `{}`", of.name);
        }
        format!("line {line}: `{keyword} {written}`")
    }

    /// `` line 10: `Tmp = In *D Win` ``; a derived statement is printed, since it is not in the
    /// source.
    fn statement(&self, op: OpId) -> String {
        let span = self.program().ops[op].span;
        let (line, written) = (self.lines.of(span), place::quote(self.source, span));
        if written.starts_with("backward ") {
            return format!(
                "line {line}, derived: `{}`",
                print::Printer::new(self.program()).statement(op)
            );
        }
        format!("line {line}: `{written}`")
    }

    fn declared_open(&self, value: ValueId) -> bool {
        let before = self.written.as_ref().and_then(|program| program.values.get(value));
        before.is_some_and(|value| {
            value.declared_sharding.as_ref().is_some_and(|pin| pin.exact().is_none())
        })
    }

    /// The producer of a collective's operand, and why the operand is partial if it is.
    fn from(&self, number: usize) -> End {
        let operand = &self.step(number).operands[0];
        let Some(producer) = self.use_def.producer(number, 0) else {
            let chosen = if self.declared_open(operand.value) {
                "put there by the search, left open at"
            } else {
                "declared at"
            };
            return End {
                who: format!("{chosen} {}", self.declaration(operand.value)),
                because: Vec::new(),
            };
        };
        let step = self.step(producer);
        match &step.kind {
            StepKind::Collective(..) => {
                End { who: format!("`{}`", print::step(self.program(), step)), because: Vec::new() }
            }
            StepKind::Local(op) => {
                End { who: self.statement(*op), because: self.pending(producer, *op) }
            }
        }
    }

    /// Why a local step's result is partial, if it is.
    fn pending(&self, number: usize, op: OpId) -> Vec<String> {
        let step = self.step(number);
        let kept = &self.program().values[step.result.value].dims;
        let verb = if matches!(self.program().ops[op].kind, OpKind::Reduce { .. }) {
            "reduced"
        } else {
            "summed"
        };
        let reason = |&axis: &AxisRef| {
            let summed =
                step.operands.iter().find_map(|operand| match stand(&operand.sharding, axis) {
                    Stand::Splits(position) => {
                        Some(self.dim(operand.value, position)).filter(|dim| !kept.contains(dim))
                    }
                    _ => None,
                });
            let (axis, summed) = (self.axis_name(axis), summed.map(|dim| self.dim_name(dim)));
            match summed {
                Some(dim) => format!(
                    "`{dim}` is {verb} there and split over `{axis}`, so each device has a part of \
                        the result (case 3)"
                ),
                None => format!("what is pending over `{axis}` passes through it"),
            }
        };
        step.result.sharding.unreduced.axes().iter().map(reason).collect()
    }

    fn need(&self, moved: &Step, reader: &User) -> End {
        let operand = &moved.operands[0];
        match *reader {
            User::DeclaredSharding(value) => {
                let of = &self.program().values[value];
                let pin = of.declared_sharding.as_ref().map_or_else(String::new, |pin| {
                    print::Printer::new(self.program()).pin(&of.dims, pin)
                });
                let who = format!(
                    "the brackets of `{}{pin}` at line {}",
                    of.name,
                    self.lines.of(of.span)
                );
                End { who, because: self.asked(operand, &moved.result) }
            }
            User::Output(output) => {
                let span = self.program().outputs[output].span;
                let who = format!(
                    "the output at line {}: `{}`",
                    self.lines.of(span),
                    place::quote(self.source, span)
                );
                End { who, because: self.asked(operand, &moved.result) }
            }
            User::Statement(number, op) => {
                let read = self
                    .step(number)
                    .operands
                    .iter()
                    .position(|read| read.value == moved.result.value);
                let because =
                    read.map_or_else(Vec::new, |read| self.because(operand, number, op, read));
                End { who: self.statement(op), because }
            }
        }
    }
}
