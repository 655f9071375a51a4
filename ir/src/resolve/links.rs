//! The intermediate values of statements: each part of an expression that is an operation has one.
//!
//! Equal parts share a value: in a statement, and products, reductions and lookups between
//! statements of a block, too. An element-wise part is cheaper computed again by the kernel of each
//! statement than written to memory for all. The alternative, a pass over all operations, would
//! also merge statements that the author named apart, and what a checkpoint computes again on
//! purpose.

use shardwise_grammar::span::{Name, Span};

use super::Resolver;
use super::define::{Operation, Target};
use crate::ids::{DimId, RepeatId, ValueId};
use crate::program::{Op, OpKind, Operand};
use crate::sharding::Pin;

/// What an operation reads, and its block.
pub(super) type Place = (Vec<ValueId>, Option<RepeatId>);

impl Resolver<'_> {
    /// The result of a part of a statement, named after the target of the statement; that of an
    /// equal part before it, if there is one in the same block.
    pub(super) fn link_value(
        &mut self,
        operation: Operation,
        target: Option<&Target>,
        span: Span,
    ) -> Option<Operand> {
        self.link_value_of(operation, None, target, span)
    }

    /// The same of an operation that does not say itself which dimensions its result has.
    pub(super) fn link_value_of(
        &mut self,
        operation: Operation,
        dims: Option<Vec<DimId>>,
        target: Option<&Target>,
        span: Span,
    ) -> Option<Operand> {
        let place = (operation.operands.iter().map(|of| of.value).collect(), self.inside());
        if let Some(value) = self.computed_before(&operation, &place) {
            return Some(Operand { value, pin: None, span });
        }
        let base = target.map_or("t", |target| target.name.node.as_str());
        let name = Name::new(self.link_name(base), span);
        let written = dims.map(|dims| {
            let open = Pin::open(dims.len());
            (dims, open, span)
        });
        let target = Target { name, dtype: None, written, wished: None };
        let value = self.finish_operation(operation, target, span)?;
        self.parts.entry(place).or_default().push(self.ops.last_idx());
        Some(Operand { value, pin: None, span })
    }

    /// The value of an equal part of an expression: `y - t` in `(y - t) * (y - t)` is one.
    fn computed_before(&self, operation: &Operation, place: &Place) -> Option<ValueId> {
        let is_elementwise = match &operation.kind {
            OpKind::Map(_) => true,
            OpKind::Einsum { contracted } => contracted.is_empty(),
            _ => false,
        };
        let first = if is_elementwise { self.statement_start } else { 0 };
        let is_equal = |op: &&Op| {
            let mut operands = op.operands.iter().zip(&operation.operands);
            op.kind == operation.kind && operands.all(|(a, b)| a.pin == b.pin)
        };
        let before = self.parts.get(place)?.iter().filter(|op| op.index() >= first);
        before.map(|&op| &self.ops[op]).find(is_equal).map(|op| op.result)
    }

    /// `Out.1`, `Out.2`: names of the links of a chain, in the order in which they are computed.
    fn link_name(&mut self, base: &str) -> String {
        loop {
            self.links += 1;
            let name = format!("{base}.{}", self.links);
            let taken = self.value_names.contains_key(&name)
                || self.defined_at.contains_key(name.as_str())
                || self.poisoned.contains(&name);
            if !taken {
                return name;
            }
        }
    }
}
