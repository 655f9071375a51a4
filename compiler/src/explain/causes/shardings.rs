//! Explains why an operand is needed in its sharding, axis by axis: the rule of the operation that
//! reads it, and the brackets that the rule depends on.

use shardwise_ir::ids::{DimId, OpId};
use shardwise_ir::plan::{Materialization, StepKind};
use shardwise_ir::print;
use shardwise_ir::program::{Linearity, OpKind};
use shardwise_ir::sharding::{AxisRef, Sharding};

use super::Explainer;
use crate::use_def::User;

/// The place of an axis in a sharding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stand {
    Nowhere,
    Pending,
    /// On the dimension at this position.
    Splits(usize),
}

pub(super) fn stand(sharding: &Sharding, axis: AxisRef) -> Stand {
    if sharding.unreduced.axes().contains(&axis) {
        return Stand::Pending;
    }
    sharding.dims.iter().position(|axes| axes.contains(&axis)).map_or(Stand::Nowhere, Stand::Splits)
}

impl Explainer<'_> {
    /// The reason that brackets ask for another sharding.
    pub(super) fn asked(&self, from: &Materialization, to: &Materialization) -> Vec<String> {
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
    pub(super) fn because(
        &self,
        from: &Materialization,
        number: usize,
        op: OpId,
        read: usize,
    ) -> Vec<String> {
        let to = &self.step(number).operands[read].sharding;
        let mut axes: Vec<AxisRef> = from.sharding.axes().chain(to.axes()).collect();
        axes.sort_unstable();
        axes.dedup();
        if self.program().ops[op].operands[read].pin.is_some() {
            return vec![format!(
                "its brackets are `{}`",
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
        let other_order = (0..from.dims.len()).find(|&position| {
            let wanted = &operand.sharding.dims[position];
            !wanted.is_empty() && from.dims[position] != *wanted
        });
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
                let mut sentences = vec![self.reduced(op, name)];
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
            (Stand::Nowhere, Stand::Pending) => vec![self.joined(number, read, axis)],
            _ => Vec::new(),
        }
    }

    /// Why an operand that is no sum takes part in a pending one.
    fn joined(&self, number: usize, read: usize, axis: AxisRef) -> String {
        let name = self.axis_name(axis);
        let others =
            self.step(number).operands.iter().enumerate().filter(|(other, _)| *other != read);
        let pending =
            others.clone().find(|(_, other)| stand(&other.sharding, axis) == Stand::Pending);
        let joins = pending.map_or_else(String::new, |(_, other)| {
            let of = self.name(other.value);
            format!("`{of}` is still to be summed over `{name}` there: ")
        });
        format!("{joins}one device along `{name}` has it and the others zeros, so it counts once")
    }

    /// Why an operand may not be split over `axis` along `dim` in a step.
    fn dropped(&self, number: usize, read: usize, axis: AxisRef, dim: DimId) -> Vec<String> {
        let step = self.step(number);
        let (name, dim_name) = (self.axis_name(axis), self.dim_name(dim));
        let others = || step.operands.iter().enumerate().filter(|(other, _)| *other != read);
        // Case 4: the axis is used by another index.
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
        let unsharded = others().find(|(_, operand)| {
            let position =
                self.program().values[operand.value].dims.iter().position(|other| *other == dim);
            position.is_some_and(|position| !operand.sharding.dims[position].contains(&axis))
        });
        match unsharded {
            Some((other, operand)) => {
                let of = self.name(operand.value);
                let rule =
                    if kept { "" } else { ", and a summed index must be split alike (case 2)" };
                vec![format!(
                    "`{dim_name}` of `{of}` is unsharded over `{name}` there{rule}; {}",
                    self.unsharded_origin(number, other)
                )]
            }
            None if kept => vec![self.kept_unsharded(number, dim_name, name)],
            None => vec![format!(
                "the devices along `{name}` all do this work: splitting `{dim_name}` would leave \
                    `{}` partial",
                self.name(step.result.value)
            )],
        }
    }

    /// Why the result of a step is unsharded along a dimension.
    fn kept_unsharded(&self, number: usize, dim: &str, axis: &str) -> String {
        let result = &self.step(number).result;
        let value = &self.program().values[result.value];
        let of = self.name(result.value);
        if value.declared_sharding.is_some() {
            return format!(
                "the brackets of `{of}` at line {} keep `{dim}` unsharded over `{axis}`",
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
        format!("`{of}` is kept unsharded over `{axis}` along `{dim}`{asking}")
    }

    /// Why an operation may not read a partial sum.
    fn reduced(&self, op: OpId, axis: &str) -> String {
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

    /// Why an operand is split over `axis` along `dim` in a step.
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

    /// The origin of a split of an operand: back through the statements that keep it, to brackets.
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
            let Some(producer) = self.use_def.producer(number, operand) else {
                let verb = if self.declared_open(of.value) {
                    "was chosen by the search for"
                } else {
                    "is declared at"
                };
                return format!("{split} {verb} {}{way}", self.declaration(of.value));
            };
            let value = &self.program().values[of.value];
            let step = self.step(producer);
            if let Some(pin) = value
                .declared_sharding
                .as_ref()
                .filter(|pin| pin.accepts(&step.result.sharding) && !value.is_declared())
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
            (number, operand) = (producer, next);
        }
    }

    /// Why an operand is unsharded.
    fn unsharded_origin(&self, number: usize, operand: usize) -> String {
        let of = &self.step(number).operands[operand];
        match self.use_def.producer(number, operand) {
            None => format!("it is declared so at {}", self.declaration(of.value)),
            Some(producer) => {
                format!("given so by `{}`", print::step(self.program(), self.step(producer)))
            }
        }
    }
}
