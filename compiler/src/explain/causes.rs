//! What a collective rests on, read off the plan: the step or declaration that gives its operand,
//! what reads its result, the rule by which that reader cannot take the operand as it was, and the
//! brackets from which the other side of that rule comes.

use shardwise_grammar::print::role_name;
use shardwise_ir::ids::{DimId, OpId, ValueId};
use shardwise_ir::plan::{Materialization, Step, StepKind};
use shardwise_ir::print;
use shardwise_ir::program::{Linearity, OpKind, Program};
use shardwise_ir::sharding::{AxisRef, Sharding};

use super::{Collective, End};
use crate::Planned;
use crate::planned::link_breakdown;
use crate::source::place::{self, Lines};
use crate::use_def::{UseDef, User};

/// More needs of one collective than anyone reads.
const MOST_NEEDS: usize = 4;

/// A plan about to be told.
pub(super) struct Told<'a> {
    planned: &'a Planned,
    source: &'a str,
    lines: Lines<'a>,
    /// The program before the search chose for open declarations.
    written: Option<Program>,
    use_def: UseDef<'a>,
}

/// Where an axis stands in a sharding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    Nowhere,
    Pending,
    /// On the dimension at this position.
    Splits(usize),
}

fn stand(sharding: &Sharding, axis: AxisRef) -> Stand {
    if sharding.unreduced.axes().contains(&axis) {
        return Stand::Pending;
    }
    sharding.dims.iter().position(|axes| axes.contains(&axis)).map_or(Stand::Nowhere, Stand::Splits)
}

impl<'a> Told<'a> {
    pub(super) fn new(planned: &'a Planned, source: &'a str, written: Option<Program>) -> Self {
        Self { planned, source, lines: Lines::new(source), written, use_def: UseDef::of(planned) }
    }

    pub(super) fn collective(&self, number: usize) -> Collective {
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

    /// Whether an output is declared by the left side of the value's own statement, whose brackets
    /// say the same.
    fn is_the_statement(&self, reader: &User, value: ValueId) -> bool {
        let User::Output(output) = *reader else { return false };
        let (declared, producer) =
            (self.program().outputs[output].span, self.program().values[value].producer);
        producer
            .map(|op| self.program().ops[op].span)
            .is_some_and(|span| span.start <= declared.start && declared.end <= span.end)
    }

    /// Whose choice it is where no brackets ask for it.
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

    /// `` line 7: `param Win: bf16[D_X, F_Y]` ``.
    fn declaration(&self, value: ValueId) -> String {
        let of = &self.program().values[value];
        let keyword = of.role.map_or("", role_name);
        format!(
            "line {}: `{keyword} {}`",
            self.lines.of(of.span),
            place::quote(self.source, of.span)
        )
    }

    /// `` line 10: `Tmp = In *D Win` ``; a statement that `backward` stands for is printed, since
    /// nobody wrote it.
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

    /// Where a collective's operand comes from, and why it is partial if it is.
    fn from(&self, number: usize) -> End {
        let operand = &self.step(number).operands[0];
        let Some(giver) = self.use_def.producer(number, 0) else {
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
        let step = self.step(giver);
        match &step.kind {
            StepKind::Collective(..) => {
                End { who: format!("`{}`", print::step(self.program(), step)), because: Vec::new() }
            }
            StepKind::Local(op) => {
                End { who: self.statement(*op), because: self.pending(giver, *op) }
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

    /// What brackets ask of a value that comes otherwise.
    fn asked(&self, from: &Materialization, to: &Materialization) -> Vec<String> {
        let pending = from
            .sharding
            .unreduced
            .axes()
            .iter()
            .filter(|&&axis| stand(&to.sharding, axis) != Stand::Pending);
        let sentence = |&axis: &AxisRef| {
            let axis = self.axis_name(axis);
            format!("no `{{U_{axis}}}` is asked for: the sum over `{axis}` has to be finished")
        };
        let mut sentences: Vec<String> = pending.map(sentence).collect();
        if sentences.is_empty() {
            sentences
                .push(format!("`{}` is asked for", print::materialization(self.program(), to)));
        }
        sentences
    }

    /// Why step `number` does not read its operand `read` as `from`, axis by axis.
    fn because(&self, from: &Materialization, number: usize, op: OpId, read: usize) -> Vec<String> {
        let to = &self.step(number).operands[read].sharding;
        let mut axes: Vec<AxisRef> = from.sharding.axes().chain(to.axes()).collect();
        axes.sort_unstable();
        axes.dedup();
        if self.program().ops[op].operands[read].pin.is_some() {
            return vec![format!(
                "its brackets say `{}`",
                print::materialization(self.program(), &self.step(number).operands[read])
            )];
        }
        let moved = axes.into_iter().filter(|&axis| stand(&from.sharding, axis) != stand(to, axis));
        let sentences: Vec<String> = moved
            .flat_map(|axis| self.axis_because(&from.sharding, number, op, read, axis))
            .collect();
        if sentences.is_empty() { self.order(&from.sharding, number, read) } else { sentences }
    }

    /// Why an operand is split over the same axes in another order.
    fn order(&self, from: &Sharding, number: usize, read: usize) -> Vec<String> {
        let step = self.step(number);
        let operand = &step.operands[read];
        let other_order = (0..from.dims.len())
            .find(|&position| from.dims[position] != operand.sharding.dims[position]);
        let Some(position) = other_order else { return Vec::new() };
        let (dim, wanted) = (self.dim(operand.value, position), &operand.sharding.dims[position]);
        let ordered =
            format!("`{}_{}`", self.dim_name(dim), print::axis_word(&self.program().mesh, wanted));
        let alike = step.operands.iter().enumerate().find(|(other, operand)| {
            let dims = &self.program().values[operand.value].dims;
            *other != read
                && dims
                    .iter()
                    .zip(&operand.sharding.dims)
                    .any(|(other, axes)| *other == dim && axes == wanted)
        });
        match alike {
            Some((other, operand)) => {
                let order = format!(
                    "{ordered}, in this order, is how `{}` is split too",
                    self.name(operand.value)
                );
                vec![order, self.origin(number, other, wanted[0], dim)]
            }
            None => {
                vec![format!("its work is split as {ordered}, in this order: {}", self.choice())]
            }
        }
    }

    fn axis_because(
        &self,
        from: &Sharding,
        number: usize,
        op: OpId,
        read: usize,
        axis: AxisRef,
    ) -> Vec<String> {
        let operand = &self.step(number).operands[read];
        let name = self.axis_name(axis);
        match (stand(from, axis), stand(&operand.sharding, axis)) {
            (Stand::Splits(position), Stand::Nowhere) => {
                self.dropped(number, read, axis, self.dim(operand.value, position))
            }
            (Stand::Pending, to) => {
                let mut sentences = vec![self.settled(op, name)];
                if let Stand::Splits(position) = to {
                    sentences.extend(self.wanted(
                        number,
                        read,
                        axis,
                        self.dim(operand.value, position),
                    ));
                }
                sentences
            }
            (_, Stand::Splits(position)) => {
                self.wanted(number, read, axis, self.dim(operand.value, position))
            }
            _ => Vec::new(),
        }
    }

    /// Why an operand may not be split over `axis` along `dim` there.
    fn dropped(&self, number: usize, read: usize, axis: AxisRef, dim: DimId) -> Vec<String> {
        let step = self.step(number);
        let (name, dim_name) = (self.axis_name(axis), self.dim_name(dim));
        let others = || step.operands.iter().enumerate().filter(|(other, _)| *other != read);
        // Case 4: the axis is taken by another index.
        for (other, operand) in others() {
            match stand(&operand.sharding, axis) {
                Stand::Splits(position) if self.dim(operand.value, position) != dim => {
                    let taken = self.dim(operand.value, position);
                    let (taken_name, of) = (self.dim_name(taken), self.name(operand.value));
                    let rule = format!(
                        "`{name}` splits `{taken_name}` of `{of}` there, and an axis splits one \
                            index only (case 4)"
                    );
                    return vec![rule, self.origin(number, other, axis, taken)];
                }
                Stand::Pending => {
                    return vec![format!(
                        "`{}` is still to be summed over `{name}` there",
                        self.name(operand.value)
                    )];
                }
                _ => {}
            }
        }
        let kept = self.program().values[step.result.value].dims.contains(&dim);
        let whole = others().find(|(_, operand)| {
            let position =
                self.program().values[operand.value].dims.iter().position(|other| *other == dim);
            position.is_some_and(|position| !operand.sharding.dims[position].contains(&axis))
        });
        match whole {
            Some((other, operand)) => {
                let of = self.name(operand.value);
                let rule =
                    if kept { "" } else { ", and a summed index must be split alike (case 2)" };
                vec![format!(
                    "`{dim_name}` of `{of}` is whole over `{name}` there{rule}; {}",
                    self.whole_origin(number, other)
                )]
            }
            None if kept => vec![self.kept_whole(number, dim_name, name)],
            None => vec![format!(
                "the devices along `{name}` all do this work: splitting `{dim_name}` would leave \
                    `{}` partial",
                self.name(step.result.value)
            )],
        }
    }

    /// Why the result of a step is whole along a dimension.
    fn kept_whole(&self, number: usize, dim: &str, axis: &str) -> String {
        let result = &self.step(number).result;
        let value = &self.program().values[result.value];
        let of = self.name(result.value);
        if value.declared_sharding.is_some() {
            return format!(
                "the brackets of `{of}` at line {} keep `{dim}` whole over `{axis}`",
                self.lines.of(value.span)
            );
        }
        let asking = self.use_def.users(number).into_iter().find_map(|reader| match reader {
            User::Output(output) => Some(format!(
                "the output at line {}",
                self.lines.of(self.program().outputs[output].span)
            )),
            User::Statement(_, op) => Some(self.statement(op)),
            User::DeclaredSharding(_) => None,
        });
        let asking = asking.map_or_else(String::new, |asking| format!(", for {asking}"));
        format!("`{of}` is kept whole over `{axis}` along `{dim}`{asking}")
    }

    /// Why a partial sum may not go into an operation as it is.
    fn settled(&self, op: OpId, axis: &str) -> String {
        match &self.program().ops[op].kind {
            OpKind::Map(function) if function.linearity == Linearity::None => {
                let name = function.form.function_name();
                let function = name.map_or("it".to_owned(), |name| format!("`{name}`"));
                format!(
                    "{function} is not linear: the sum over `{axis}` must be finished before it"
                )
            }
            _ => format!("the sum over `{axis}` is finished before it: {}", self.choice()),
        }
    }

    /// Why an operand is split over `axis` along `dim` there.
    fn wanted(&self, number: usize, read: usize, axis: AxisRef, dim: DimId) -> Vec<String> {
        let step = self.step(number);
        let (name, dim_name) = (self.axis_name(axis), self.dim_name(dim));
        let alike = step.operands.iter().enumerate().find(|(other, operand)| {
            let splits = match stand(&operand.sharding, axis) {
                Stand::Splits(position) => self.dim(operand.value, position) == dim,
                _ => false,
            };
            *other != read && splits
        });
        match alike {
            Some((other, operand)) => {
                vec![
                    format!(
                        "`{dim_name}` is split over `{name}` in `{}` too",
                        self.name(operand.value)
                    ),
                    self.origin(number, other, axis, dim),
                ]
            }
            None => vec![format!(
                "its work is split over `{name}` along `{dim_name}`: {}",
                self.choice()
            )],
        }
    }

    /// From where a split of an operand comes: back through the statements that keep it, to
    /// brackets.
    fn origin(&self, number: usize, operand: usize, axis: AxisRef, dim: DimId) -> String {
        let split = format!("`{}_{}`", self.dim_name(dim), self.axis_name(axis));
        let (mut number, mut operand) = (number, operand);
        let mut by_way: Vec<&str> = Vec::new();
        loop {
            let of = &self.step(number).operands[operand];
            let way = if by_way.is_empty() {
                String::new()
            } else {
                format!(", by way of `{}`", by_way.join("`, `"))
            };
            let Some(giver) = self.use_def.producer(number, operand) else {
                let verb = if self.declared_open(of.value) {
                    "was chosen by the search for"
                } else {
                    "is declared at"
                };
                return format!("{split} {verb} {}{way}", self.declaration(of.value));
            };
            let value = &self.program().values[of.value];
            let step = self.step(giver);
            if let Some(pin) = value
                .declared_sharding
                .as_ref()
                .filter(|pin| pin.accepts(&step.result.sharding) && value.producer.is_some())
            {
                let brackets = print::Printer::new(self.program()).pin(&value.dims, pin);
                return format!(
                    "{split} is in the brackets of `{}{brackets}` at line {}{way}",
                    value.name,
                    self.lines.of(value.span)
                );
            }
            let keeps = |operand: &Materialization| match stand(&operand.sharding, axis) {
                Stand::Splits(at) => self.dim(operand.value, at) == dim,
                _ => false,
            };
            let Some(next) = step.operands.iter().position(keeps) else {
                return format!("{split} comes from `{}`{way}", print::step(self.program(), step));
            };
            if matches!(step.kind, StepKind::Local(_)) {
                by_way.push(self.name(of.value));
            }
            (number, operand) = (giver, next);
        }
    }

    /// Who says that an operand is whole.
    fn whole_origin(&self, number: usize, operand: usize) -> String {
        let of = &self.step(number).operands[operand];
        match self.use_def.producer(number, operand) {
            None => format!("it is declared so at {}", self.declaration(of.value)),
            Some(giver) => {
                format!("given so by `{}`", print::step(self.program(), self.step(giver)))
            }
        }
    }
}
