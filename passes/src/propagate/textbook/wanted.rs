//! The wanted sharding of a result: that of its brackets or outputs, or that which its only reader
//! wants.

use shardwise_ir::functions::Arithmetic;
use shardwise_ir::ids::{DimId, ValueId};
use shardwise_ir::program::{MapFn, MapForm, Op, OpKind, Operand};
use shardwise_ir::sharding::{AxisList, Pin, Sharding};

use super::TextbookPlanner;
use crate::layouts::op_layouts;
use crate::propagate::matmul_cases;

impl<'a> TextbookPlanner<'a> {
    /// The operation that reads a value, if there is only one and the value is no output.
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

    /// The wanted sharding of the sum that a product is only a summand of.
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

    /// A rename or reshape runs in the sharding that its only use wants: reshards come before it,
    /// as in the sources.
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

    /// The sharding of a result, of which a device computes only the part that is wanted along the
    /// dimensions that no operand has: by the author, or by the first reader, whose other operands
    /// are split there.
    pub(super) fn of_wanted_part(&self, op: &Op, gives: Sharding) -> Sharding {
        let added = op.added_dims(self.program());
        let mut part = gives.clone();
        for (place, dim) in self.program().values[op.result].dims.iter().enumerate() {
            if added.contains(dim) && part.dims[place].is_empty() {
                let wanted = self.wanted(op).and_then(|pin| pin.dims.get(place));
                let wanted = wanted.map(|axes| axes.named().clone());
                let wanted = wanted.or_else(|| self.split_beside(op.result, *dim));
                let axes = wanted.unwrap_or_default();
                part.dims[place] = axes.into_iter().take_while(|&axis| !part.uses(axis)).collect();
            }
        }
        if self.tables.of(op.result).space.find(&part).is_some() { part } else { gives }
    }

    /// The axes that split a dimension in another operand of the first operation that reads a
    /// value.
    fn split_beside(&self, value: ValueId, dim: DimId) -> Option<AxisList> {
        let program = self.program();
        let (reader, _) = program.dataflow().uses_of(value).next()?;
        let is_there = |of: ValueId| of != value && !self.available[of.index()].is_empty();
        program.ops[reader].operands.iter().find_map(|operand| {
            let place = program.values[operand.value].dims.iter().position(|&other| other == dim);
            let place = place.filter(|_| is_there(operand.value))?;
            let start = self.start(operand.value, operand.pin.as_ref());
            Some(self.sharding(operand.value, start).dims[place].clone())
        })
    }

    /// The sharding of the operation's result, as far as the author wrote it.
    pub(super) fn wanted(&self, op: &Op) -> Option<&Pin> {
        let declared = || self.outputs[op.result.index()].first();
        let own = self.program().values[op.result].declared_sharding.as_ref().or_else(declared);
        own.or_else(|| self.wanted(self.sum_around(op)?)).or_else(|| self.wanted_by_updates(op))
    }

    /// The sharding of the parameter or state that an optimizer updates with a gradient, if that is
    /// the gradient's only use.
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

    /// The sum that contains an operation's result as a summand, if that is its only use.
    fn sum_around(&self, op: &Op) -> Option<&'a Op> {
        let program = self.program();
        let reader = self.only_reader(op.result)?;
        let inside = reader.span.start <= op.span.start && op.span.end <= reader.span.end;
        let alike = program.values[reader.result].dims == program.values[op.result].dims;
        (inside && alike && reader.is(&MapForm::Infix(Arithmetic::Add))).then_some(reader)
    }
}
