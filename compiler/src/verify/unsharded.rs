//! The unsharded program: every value computed whole, and whether the numbers on the way are exact.
//!
//! Data are small integers. Sums and products of integers below 2^53 are exact in `f64` whatever their order, so that a plan of linear operations
//! must give equal numbers; a bound on the magnitudes, carried along, says whether that holds. Anything else is compared with a tolerance.

use index_vec::IndexVec;
use indexmap::IndexMap;
use ndarray::{ArrayD, Axis, IxDyn};
use shardwise_ir::ids::{DimId, ValueId};
use shardwise_ir::program::{Op, OpKind, Program, ReduceFn, Value};

use super::evaluate;

/// Integers up to here are exact.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Every value of a program by name, with its dimensions' names.
pub(super) struct Truth {
    values: IndexMap<String, (Vec<String>, ArrayD<f64>)>,
    /// Whether all numbers are exact.
    pub(super) exact: bool,
    /// Elements that are no number.
    pub(super) undefined: usize,
}

impl Truth {
    pub(super) fn new(program: &Program, seed: u64) -> Self {
        let mut arrays: IndexMap<ValueId, ArrayD<f64>> = IndexMap::new();
        let mut bounds: IndexVec<ValueId, f64> = program.values.iter().map(|value| declared_bound(program, value)).collect();
        let positive = program.ops.iter().any(|op| evaluate::wants_positive(&op.kind));
        for (id, value) in program.values.iter_enumerated().filter(|(_, value)| value.producer.is_none()) {
            let shape: Vec<usize> = value.dims.iter().map(|&dim| program.dims[dim].size as usize).collect();
            arrays.insert(id, evaluate::data(&shape, seed ^ evaluate::hash(&value.name), positive));
        }
        for op in &program.ops {
            bounds[op.result] = bound(program, op, &bounds);
            let operands: Vec<&ArrayD<f64>> = op.operands.iter().map(|operand| &arrays[&operand.value]).collect();
            let result = evaluate::operation(program, op, &operands).unwrap_or_else(|| gaps(program, op));
            arrays.insert(op.result, result);
        }
        let exact = program.ops.iter().all(|op| evaluate::is_exact(&op.kind)) && bounds.iter().all(|&bound| bound <= EXACT);
        let undefined = arrays.values().flatten().filter(|x| x.is_nan()).count();
        let dims = |id: ValueId| program.values[id].dims.iter().map(|&dim| program.dims[dim].name.clone()).collect();
        let values = arrays.into_iter().map(|(id, array)| (program.values[id].name.clone(), (dims(id), array))).collect();
        Self { values, exact, undefined }
    }

    /// The value called as `value` of `program` is, its dimensions in that order; `None` if there is none with these dimensions.
    pub(super) fn of(&self, program: &Program, value: &Value) -> Option<ArrayD<f64>> {
        let (names, array) = self.values.get(&value.name)?;
        let place = |&dim: &DimId| names.iter().position(|name| *name == program.dims[dim].name);
        let order: Vec<usize> = value.dims.iter().map(place).collect::<Option<_>>()?;
        (order.len() == names.len()).then(|| array.view().permuted_axes(IxDyn(&order)).to_owned())
    }
}

/// A value of the right shape without numbers, where none can be computed.
fn gaps(program: &Program, op: &Op) -> ArrayD<f64> {
    let shape: Vec<usize> = program.values[op.result].dims.iter().map(|&dim| program.dims[dim].size as usize).collect();
    ArrayD::from_elem(shape, f64::NAN)
}

/// A pending value's parts are larger than the value.
fn declared_bound(program: &Program, value: &Value) -> f64 {
    let pending = value.home.iter().flat_map(|pin| pin.unreduced.axes()).map(|axis| axis.size(&program.mesh) as f64);
    let parts: f64 = pending.product();
    if parts > 1.0 { evaluate::LARGEST + 2.0 * parts } else { evaluate::LARGEST }
}

/// What no element of the result, nor any part of a sum on its way, is larger than.
fn bound(program: &Program, op: &Op, bounds: &IndexVec<ValueId, f64>) -> f64 {
    let operands = || op.operands.iter().map(|operand| bounds[operand.value]);
    let sizes = |dims: &[DimId]| dims.iter().map(|&dim| program.dims[dim].size as f64).product::<f64>();
    match &op.kind {
        OpKind::Einsum { contracted } => operands().product::<f64>() * sizes(contracted),
        OpKind::Reduce { function: ReduceFn::Sum, dims } => operands().sum::<f64>() * sizes(dims),
        OpKind::Map(_) | OpKind::Reduce { .. } | OpKind::Collective(_) => operands().sum(),
    }
}

/// The largest magnitude in an array.
pub(super) fn largest(array: &ArrayD<f64>) -> f64 {
    array.iter().filter(|x| x.is_finite()).fold(0.0, |largest: f64, x| largest.max(x.abs()))
}

/// Shapes for messages.
pub(super) fn shape(array: &ArrayD<f64>) -> Vec<usize> {
    (0..array.ndim()).map(|axis| array.len_of(Axis(axis))).collect()
}
