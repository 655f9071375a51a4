//! Evaluates the unsharded program, and tracks whether its numbers are exact.
//!
//! Data are small integers. Sums and products of integers below 2^53 are exact in `f64` whatever
//! their order, so that a plan of linear operations must compute equal numbers; a bound on the
//! magnitudes, computed along with the values, decides whether that holds. Anything else is
//! computed from fractions below one and compared with a tolerance.

use std::collections::BTreeMap;

use index_vec::IndexVec;
use indexmap::IndexMap;
use ndarray::{ArrayD, Axis, IxDyn};
use shardwise_ir::ids::{DimId, ValueId};
use shardwise_ir::program::{MapFn, MapForm, Op, OpKind, Program, Value};
use shardwise_ir::sharding::Reduction;
use shardwise_ir::unroll;

use super::evaluate as local;
use super::scale::Batch;

/// Data of programs with other functions: small enough that exponentials and many layers of them
/// keep most of their digits.
const SMALL: f64 = 0.125;

/// Integers up to here are exact.
const EXACT: f64 = 9_007_199_254_740_992.0;

type Arrays = IndexMap<ValueId, ArrayD<f64>>;

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
        let mut arrays = Arrays::new();
        let linear = program.ops.iter().all(|op| local::is_exact(&op.kind));
        let positive = program.ops.iter().any(|op| local::wants_positive(&op.kind));
        for (id, value) in declared(program) {
            let data = match places(program, id) {
                Some(places) => local::Data::Places(places),
                None if positive => local::Data::Positive,
                None => local::Data::Any,
            };
            let mut array =
                local::data(&whole_shape(program, id), seed ^ local::hash(&value.name), data);
            if !linear && !matches!(data, local::Data::Places(_)) {
                array *= SMALL;
            }
            arrays.insert(id, array);
        }
        compute(program, &mut arrays);
        let mut bounds: IndexVec<ValueId, f64> =
            program.values.indices().map(|value| declared_bound(program, value)).collect();
        program.ops.iter().for_each(|op| bounds[op.result] = bound(program, op, &bounds));
        let exact = linear && bounds.iter().all(|&bound| bound <= EXACT);
        let undefined = arrays.values().flatten().filter(|x| x.is_nan()).count();
        let dims = |id: ValueId| {
            program.values[id].dims.iter().map(|&dim| program.dims[dim].name.clone()).collect()
        };
        let values = arrays
            .into_iter()
            .map(|(id, array)| (program.values[id].name.clone(), (dims(id), array)))
            .collect();
        Self { values, exact, undefined }
    }

    /// Leaves out the values of these names.
    pub(super) fn forget(&mut self, names: &[String]) {
        self.values.retain(|name, _| !names.contains(name));
    }

    /// The value called as `value` of `program` is, its dimensions in that order; `None` if there
    /// is none with these dimensions. A microbatch has its rows of the value of the complete batch.
    pub(super) fn of(
        &self,
        program: &Program,
        value: &Value,
        batches: &[Batch],
    ) -> Option<ArrayD<f64>> {
        let dims: Vec<&str> =
            value.dims.iter().map(|&dim| program.dims[dim].name.as_str()).collect();
        self.named(&value.name, &dims).or_else(|| {
            let (name, number) = value.name.rsplit_once('@')?;
            let (place, batch) = dims.iter().enumerate().find_map(|(place, &dim)| {
                Some((place, batches.iter().find(|batch| batch.part.as_deref() == Some(dim))?))
            })?;
            let mut whole = dims.clone();
            whole[place] = &batch.whole;
            let rows = local::every(number.parse().ok()?, batch.count as usize)?;
            Some(self.named(name, &whole)?.slice_axis(Axis(place), rows).to_owned())
        })
    }

    fn named(&self, name: &str, dims: &[&str]) -> Option<ArrayD<f64>> {
        let (names, array) = self.values.get(name)?;
        let order: Vec<usize> = dims
            .iter()
            .map(|dim| names.iter().position(|name| name == dim))
            .collect::<Option<_>>()?;
        (order.len() == names.len()).then(|| array.view().permuted_axes(IxDyn(&order)).to_owned())
    }
}

/// Every value of a program, computed unsharded from the declared ones; all by name, their elements
/// in row-major order. `None` where a declared value is missing, or has another number of elements
/// than the program declares. Every layer of a block is computed; its values have one entry per
/// layer, called `W@0`, `W@1` and so on.
pub fn evaluate(
    program: &Program,
    given: &BTreeMap<String, Vec<f64>>,
) -> Option<BTreeMap<String, Vec<f64>>> {
    if !program.repeats.is_empty() {
        return evaluate(&unroll::program(program, &|block| program.repeats[block].count), given);
    }
    let mut arrays = Arrays::new();
    for (id, value) in declared(program) {
        let elements = given.get(&value.name)?.clone();
        arrays.insert(id, ArrayD::from_shape_vec(whole_shape(program, id), elements).ok()?);
    }
    compute(program, &mut arrays);
    Some(
        arrays
            .into_iter()
            .map(|(id, array)| (program.values[id].name.clone(), array.iter().copied().collect()))
            .collect(),
    )
}

fn declared(program: &Program) -> impl Iterator<Item = (ValueId, &Value)> {
    program.values.iter_enumerated().filter(|(_, value)| value.is_declared())
}

fn whole_shape(program: &Program, value: ValueId) -> Vec<usize> {
    program.values[value].dims.iter().map(|&dim| program.dims[dim].size as usize).collect()
}

/// Adds the results of the operations to the declared values; a result that cannot be computed is
/// undefined.
fn compute(program: &Program, arrays: &mut Arrays) {
    for op in &program.ops {
        let operands: Vec<&ArrayD<f64>> =
            op.operands.iter().map(|operand| &arrays[&operand.value]).collect();
        let place = local::Place {
            starts: operands.iter().map(|operand| vec![0; operand.ndim()]).collect(),
            start: vec![0; program.values[op.result].dims.len()],
            shape: whole_shape(program, op.result),
        };
        let result = local::operation(program, op, &operands, &place);
        arrays.insert(
            op.result,
            result.unwrap_or_else(|| ArrayD::from_elem(whole_shape(program, op.result), f64::NAN)),
        );
    }
}

/// The size of the dimension that a declared value has indices of, if it has.
fn places(program: &Program, value: ValueId) -> Option<u64> {
    let along = |op: &Op| match op.kind {
        OpKind::Gather { dim } | OpKind::ScatterAdd { dim } | OpKind::Update { dim }
            if op.operands[1].value == value =>
        {
            Some(program.dims[dim].size)
        }
        _ => None,
    };
    program.ops.iter().filter_map(along).min()
}

/// A pending value's parts are larger than the value.
fn declared_bound(program: &Program, id: ValueId) -> f64 {
    let value = &program.values[id];
    if let Some(places) = places(program, id) {
        return places as f64;
    }
    let pending = value
        .declared_sharding
        .iter()
        .flat_map(|pin| pin.unreduced.axes())
        .map(|axis| axis.size(&program.mesh) as f64);
    let parts: f64 = pending.product();
    if parts > 1.0 { local::LARGEST + 2.0 * parts } else { local::LARGEST }
}

/// A bound of all elements of the result and of all partial sums.
fn bound(program: &Program, op: &Op, bounds: &IndexVec<ValueId, f64>) -> f64 {
    let operands = || op.operands.iter().map(|operand| bounds[operand.value]);
    let sizes =
        |dims: &[DimId]| dims.iter().map(|&dim| program.dims[dim].size as f64).product::<f64>();
    match &op.kind {
        OpKind::Einsum { contracted } => operands().product::<f64>() * sizes(contracted),
        OpKind::Reduce { function, dims } if function.reduction() == Reduction::Sum => {
            operands().sum::<f64>() * sizes(dims)
        }
        OpKind::Gather { .. } => bounds[op.operands[0].value],
        OpKind::Update { .. } => bounds[op.operands[0].value].max(bounds[op.operands[2].value]),
        OpKind::ScatterAdd { .. } => {
            let rows = |k: usize| sizes(&program.values[op.operands[k].value].dims);
            bounds[op.operands[0].value] * rows(0) * rows(1)
        }
        OpKind::Route(_) => 1.0,
        // Its stand-in's.
        OpKind::Opaque(_) => 8.0,
        OpKind::Along(along) => {
            let row = along.function.row();
            let elements = if row.is_index { 1.0 } else { operands().sum() };
            if row.is_index || row.is_linear { elements * sizes(&[along.from]) } else { elements }
        }
        OpKind::Map(MapFn { form: MapForm::Position(dim) | MapForm::Iota(dim), .. }) => {
            sizes(&[*dim])
        }
        OpKind::Map(MapFn { form: MapForm::Constant { number, .. }, .. }) => {
            number.parse::<f64>().map_or(0.0, f64::abs)
        }
        OpKind::Map(_)
        | OpKind::Reduce { .. }
        | OpKind::Rearrange(_)
        | OpKind::Composite { .. }
        | OpKind::Collective(_) => operands().sum(),
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
