//! Tables whose rows are looked up: row-wise Adagrad, on the rows that a step has looked up.
//!
//! Before:
//!
//! ```text
//! param E[V, D]
//! dE = put_V(dx, ids, E)
//! optimizer adam, tables=0.01
//! ```
//!
//! After:
//!
//! ```text
//! state sE: f32[V]
//! sE.1 = mean_D(square(dE))
//! sE.new = sE + sE.1
//! E.new = row_step(E, dE, sE.new, 0.01, 1e-8)
//! ```
//!
//! A row that no index names has a gradient of zero, and neither its sum nor the row changes: so
//! these statements say what kernels of embedding tables do, and that only rows that were looked up
//! are held, sent, read and written follows from them ([`shardwise_ir::sparse`]). Alternatives: a
//! type of sparse gradients with operations of its own would say the same twice; Adam moves every
//! row at each step by its momentum, and has no sparse form.

use shardwise_ir::dtype::DType;
use shardwise_ir::functions::{Arithmetic, Function, ReduceFn};
use shardwise_ir::ids::{DimId, ValueId};
use shardwise_ir::program::{MapFn, MapForm, OpKind, Program};

use super::UpdateEmitter;
use super::statements::Statements;

/// The dimensions of a row of `param`, if its gradient is that of lookups and nothing else.
pub(super) fn row(program: &Program, param: ValueId, gradient: ValueId) -> Option<Vec<DimId>> {
    let mut row: Option<Vec<DimId>> = None;
    let mut left = vec![gradient];
    while let Some(value) = left.pop() {
        let made = program.ops.iter().filter(|op| op.result == value);
        let made = made.filter(|op| !matches!(op.kind, OpKind::Collective(_)));
        for op in made {
            match &op.kind {
                OpKind::ScatterAdd { dim } => {
                    let ids = &program.values[op.operands[1].value].dims;
                    let of = program.values[param].dims.iter().copied();
                    let of: Vec<DimId> =
                        of.filter(|other| other != dim && !ids.contains(other)).collect();
                    if of.is_empty() || row.as_ref().is_some_and(|row| *row != of) {
                        return None;
                    }
                    row = Some(of);
                }
                OpKind::Map(MapFn {
                    form: MapForm::Infix(Arithmetic::Add) | MapForm::Total,
                    ..
                }) => left.extend(op.operands.iter().map(|operand| operand.value)),
                _ => return None,
            }
        }
    }
    row
}

impl UpdateEmitter {
    /// The statements that update the rows of a table.
    pub(super) fn update_rows(
        &mut self,
        param: ValueId,
        gradient: ValueId,
        row: Vec<DimId>,
        rate: String,
    ) {
        let table = &self.program.values[param];
        let (name, block) = (format!("s{}", table.name), self.program.values[gradient].repeat);
        let kept: Vec<usize> =
            (0..table.dims.len()).filter(|&place| !row.contains(&table.dims[place])).collect();
        let sums = self.state_along(param, name.clone(), DType::F32, &kept);
        let mut write = Statements { emitter: self, base: name, block };
        let squares = write.call(Function::Square, &[gradient]);
        let mean = OpKind::Reduce { function: ReduceFn::Mean, dims: row };
        let mean = write.statement(mean, &[squares]);
        let sum = MapFn::new(MapForm::Infix(Arithmetic::Add));
        let sums = self.statement(sum, vec![sums, mean], sums, block);
        self.next(Function::RowStep, param, &[gradient, sums], vec![rate, "1e-8".to_owned()]);
    }
}
