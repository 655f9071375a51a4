//! How a result is wanted: as brackets or outputs say, or as the statement wants it that alone
//! reads it.

use shardwise_ir::functions::Arithmetic;
use shardwise_ir::ids::ValueId;
use shardwise_ir::program::{MapFn, MapForm, Op, OpKind, Operand};
use shardwise_ir::sharding::{Pin, Sharding};

use super::TextbookPlanner;
use crate::layouts::op_layouts;
use crate::propagate::matmul_cases;

impl<'a> TextbookPlanner<'a> {
    /// The operation that reads a value, if there is only one and the value leaves no other way.
    fn only_reader(&self, value: ValueId) -> Option<&'a Op> {
        let (reader, _) = self.only_use(value)?;
        self.outputs[value.index()].is_empty().then_some(reader)
    }

    /// The one use of a value: the operation, and which operand of it.
    fn only_use(&self, value: ValueId) -> Option<(&'a Op, usize)> {
        let mut uses = self.program().dataflow().uses_of(value);
        let (user, k) = uses.next()?;
        uses.next().is_none().then(|| (&self.program().ops[user], k))
    }

    /// How the sum is wanted that the result of a product is only a part of.
    pub(super) fn wanted_of_sum(&self, op: &Op) -> Option<&Pin> {
        let (user, _) = self
            .only_use(op.result)
            .filter(|_| matches!(op.kind, OpKind::Einsum { .. }) && op.result_pin.is_none())?;
        let OpKind::Map(MapFn { form: MapForm::Infix(Arithmetic::Add), .. }) = &user.kind else {
            return None;
        };
        let pin = self.wanted(user)?;
        (self.program().values[user.result].dims == self.program().values[op.result].dims)
            .then_some(pin)
    }

    /// A relabelling is done where its one use wants the result: moves come before it, as the
    /// sources write them.
    pub(super) fn before_use(&self, op: &Op, starts: &[Sharding]) -> Option<Vec<Sharding>> {
        let (user, k) = self.only_use(op.result)?;
        let given = op_layouts::result_sharding(self.program(), op, starts)?;
        let others_are_there = |(other, operand): (usize, &Operand)| {
            other == k || !self.available[operand.value.index()].is_empty()
        };
        if !matches!(user.kind, OpKind::Einsum { .. })
            || !user.operands.iter().enumerate().all(others_are_there)
        {
            return None;
        }
        let start = |operand: &Operand| {
            self.sharding(operand.value, self.declared[operand.value.index()]).clone()
        };
        let operands: Vec<Sharding> = user
            .operands
            .iter()
            .enumerate()
            .map(|(other, operand)| if other == k { given.clone() } else { start(operand) })
            .collect();
        let wanted =
            matmul_cases::targets(self.tables, user, &operands, self.wanted(user)).swap_remove(k);
        let accepted = op.result_pin.as_ref().is_none_or(|pin| pin.accepts(&wanted));
        accepted
            .then(|| op_layouts::operand_of_relabelling(self.program(), op, &wanted))
            .flatten()
            .map(|operand| vec![operand])
    }

    /// What the operation's result should look like, as far as the author said.
    pub(super) fn wanted(&self, op: &Op) -> Option<&Pin> {
        let declared = || self.outputs[op.result.index()].first();
        let own = self.program().values[op.result].declared_sharding.as_ref().or_else(declared);
        own.or_else(|| self.wanted(self.sum_around(op)?)).or_else(|| self.wanted_by_updates(op))
    }

    /// Where the parameters or state are that an optimizer updates by a gradient, if that is all
    /// that is done with it.
    fn wanted_by_updates(&self, op: &Op) -> Option<&Pin> {
        let program = self.program();
        let mut readers =
            program.dataflow().uses_of(op.result).map(|(reader, _)| &program.ops[reader]);
        let updated = |reader: &Op| {
            let of = &program.values[reader.operands[0].value];
            let alike = of.role.is_some() && of.dims == program.values[op.result].dims;
            alike.then_some(reader.operands[0].value).filter(|_| program.is_update(reader.result))
        };
        let of = updated(readers.next()?)?;
        let declared = |of: ValueId| {
            program.values[of]
                .declared_sharding
                .as_ref()
                .filter(|declared| declared.exact().is_some())
        };
        let same = readers
            .all(|reader| updated(reader).is_some_and(|other| declared(other) == declared(of)));
        declared(of).filter(|_| same)
    }

    /// The sum that the expression around an operation is, if its result is only added there.
    fn sum_around(&self, op: &Op) -> Option<&'a Op> {
        let program = self.program();
        let reader = self.only_reader(op.result)?;
        let inside = reader.span.start <= op.span.start && op.span.end <= reader.span.end;
        let alike = program.values[reader.result].dims == program.values[op.result].dims;
        (inside && alike && reader.is(&MapForm::Infix(Arithmetic::Add))).then_some(reader)
    }
}
