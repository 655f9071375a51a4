//! Statements between a gradient and the update: their results belong to one parameter.

use shardwise_ir::dtype::DType;
use shardwise_ir::functions::Function;
use shardwise_ir::ids::{DimId, RepeatId, ValueId};
use shardwise_ir::program::{KernelPart, MapFn, MapForm, Op, OpKind, Operand, Phase, Share, Value};
use shardwise_ir::rearrange::Rearrange;
use shardwise_ir::shape;
use shardwise_ir::sharding::Pin;

use super::UpdateEmitter;

/// Adds statements to a block; their results are called `base.1`, `base.2`.
pub(super) struct Statements<'e> {
    pub(super) emitter: &'e mut UpdateEmitter,
    pub(super) base: String,
    pub(super) block: Option<RepeatId>,
}

impl Statements<'_> {
    pub(super) fn scaled(&mut self, by: &str, of: ValueId) -> ValueId {
        self.map(MapForm::ScaleBy(by.to_owned()), &[of])
    }

    pub(super) fn call(&mut self, function: Function, operands: &[ValueId]) -> ValueId {
        self.map(MapForm::call(function), operands)
    }

    pub(super) fn map(&mut self, form: MapForm, operands: &[ValueId]) -> ValueId {
        let dtype = self.emitter.program.values[operands[0]].dtype;
        let function = match form {
            MapForm::Cast(to) => MapFn::cast(dtype, to),
            form => MapFn::new(form),
        };
        self.statement(OpKind::Map(function), operands)
    }

    pub(super) fn product(
        &mut self,
        contracted: &[DimId],
        left: ValueId,
        right: ValueId,
    ) -> ValueId {
        self.statement(OpKind::Einsum { contracted: contracted.to_vec() }, &[left, right])
    }

    pub(super) fn renamed(&mut self, of: ValueId, pairs: &[(DimId, DimId)]) -> ValueId {
        self.statement(OpKind::Rearrange(Rearrange::Rename(pairs.to_vec())), &[of])
    }

    /// Adds a statement; a rename gets its dimensions from its left side, which leaves the sharding
    /// open.
    pub(super) fn statement(&mut self, kind: OpKind, operands: &[ValueId]) -> ValueId {
        let values = &self.emitter.program.values;
        let dims: Vec<&[DimId]> =
            operands.iter().map(|&operand| values[operand].dims.as_slice()).collect();
        let dtypes: Vec<DType> = operands.iter().map(|&operand| values[operand].dtype).collect();
        let (dims, dtype) = (shape::infer_shape(&kind, &dims), shape::dtype(&kind, &dtypes));
        let open = Pin::open(dims.len());
        let pin = Some(open).filter(|_| matches!(kind, OpKind::Rearrange(_)));
        let (name, span) = (self.emitter.numbered(&self.base), self.emitter.optimizer.span);
        let result = self.emitter.program.values.push(Value {
            declared_sharding: pin.clone(),
            repeat: self.block,
            ..Value::result(name, dims, dtype, span)
        });
        let operands = operands.iter().map(|&value| Operand { value, pin: None, span }).collect();
        self.emitter.ops.push(Op {
            kind,
            operands,
            result,
            result_pin: pin,
            phase: Phase::Backward,
            repeat: self.block,
            share: Share::WHOLE,
            is_kept: false,
            kernel: KernelPart::default(),
            span,
        });
        result
    }
}
