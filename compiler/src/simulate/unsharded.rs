//! Evaluates the unsharded program, and tracks whether its numbers are exact.
//!
//! Data are small integers. Sums and products of integers below 2^53 are exact in `f64` whatever
//! their order, so that a plan of linear operations must compute equal numbers; a bound on the
//! magnitudes decides whether that holds. Anything else is computed from fractions and compared
//! with a tolerance; data meet the numbers with which the program compares them ([`compared`]).
//!
//! Fractions of one scale would shrink or grow from layer to layer: forty layers without norms
//! multiply numbers to 1e-36, of which a tolerance sees nothing, or scores to 1e8, whose rounding
//! errors an exponential makes visible. Therefore the first product that reads a declared value
//! scales it, so that the largest element of the result is about one ([`Scaled::product`]), or more
//! than the numbers that limit values; a scale by the sizes of dimensions alone would not, since
//! functions between products and sums of layers change magnitudes, too. Scales are powers of two,
//! which round nothing.
//!
//! A difference counts relative to the value's largest element; and where many layers of functions
//! make more of every rounding error, relative to what they make of a small change of the data
//! ([`moves`]). Bounds of rounding errors, term by term, would grow so much faster than errors do
//! that no wrong number were beyond them after a few layers.

use std::collections::BTreeMap;

use index_vec::IndexVec;
use indexmap::IndexMap;
use ndarray::{ArrayD, Axis, IxDyn};
use rustc_hash::{FxHashMap, FxHashSet};
use shardwise_ir::Role;
use shardwise_ir::ids::{DimId, ValueId};
use shardwise_ir::program::{MapFn, MapForm, Op, OpKind, Program, Value};
use shardwise_ir::sharding::Reduction;
use shardwise_ir::unroll;

use super::evaluate as local;
use super::scale::Batch;
use super::{TOLERANCE, compared};

/// Data of programs with other functions: small enough that exponentials and many layers of them
/// keep most of their digits.
const SMALL: f64 = 0.125;

/// The distance of data of such programs before they are scaled. Few different numbers would often
/// cancel to zero, and a derivative at the rounding error of a zero may be that of either side.
/// Programs that ask which elements are equal have few.
const STEP: f64 = 1.0 / 131_072.0;

/// By how much, relative to themselves, fractions are moved: thousands of rounding errors, and too
/// little to make another integer of a number.
const SHIFT: f64 = 1e-12;

/// What a value may differ by, in units of the tolerance: a tenth of what it moves by, which is
/// hundreds of times what rounding errors make of it.
const UNITS_OF_MOVES: f64 = 0.1 / TOLERANCE;

/// Integers up to here are exact.
const EXACT: f64 = 9_007_199_254_740_992.0;

type Arrays = IndexMap<ValueId, ArrayD<f64>>;

/// A value, and what its differences are relative to.
pub(super) struct Expected {
    pub(super) whole: ArrayD<f64>,
    pub(super) unit: f64,
}

/// A value with its dimensions' names, and what its differences are relative to.
struct Known {
    dims: Vec<String>,
    array: ArrayD<f64>,
    unit: f64,
}

/// Every value of a program by name.
pub(super) struct Truth {
    values: IndexMap<String, Known>,
    /// Whether all numbers are exact.
    pub(super) exact: bool,
    /// Elements that are no number.
    pub(super) undefined: usize,
}

impl Truth {
    pub(super) fn new(program: &Program, seed: u64) -> Self {
        let linear = program.ops.iter().all(|op| local::is_exact(&op.kind));
        let mut bounds: IndexVec<ValueId, f64> =
            program.values.indices().map(|value| declared_bound(program, value)).collect();
        program.ops.iter().for_each(|op| bounds[op.result] = bound(program, op, &bounds));
        let exact = linear && bounds.iter().all(|&bound| bound <= EXACT);
        let mut scaled = Scaled::new(program, seed, linear);
        program.ops.iter().for_each(|op| scaled.compute(op));
        let arrays = scaled.arrays;
        let moves = (!exact).then(|| moves(program, &arrays, seed));
        let moves = |id: ValueId| moves.as_ref().map_or(0.0, |moves| moves[id]);
        let undefined = arrays.values().flatten().filter(|x| x.is_nan()).count();
        let dims = |id: ValueId| {
            program.values[id].dims.iter().map(|&dim| program.dims[dim].name.clone()).collect()
        };
        let values = arrays
            .into_iter()
            .map(|(id, array)| {
                let unit = largest(&array).max(1.0).max(moves(id) * UNITS_OF_MOVES);
                (program.values[id].name.clone(), Known { dims: dims(id), array, unit })
            })
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
    ) -> Option<Expected> {
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
            let Expected { whole, unit } = self.named(name, &whole)?;
            Some(Expected { whole: whole.slice_axis(Axis(place), rows).to_owned(), unit })
        })
    }

    fn named(&self, name: &str, dims: &[&str]) -> Option<Expected> {
        let known = self.values.get(name)?;
        let order: Vec<usize> = dims
            .iter()
            .map(|dim| known.dims.iter().position(|name| name == dim))
            .collect::<Option<_>>()?;
        (order.len() == known.dims.len()).then(|| Expected {
            whole: known.array.view().permuted_axes(IxDyn(&order)).to_owned(),
            unit: known.unit,
        })
    }
}

/// Computes a program from data that suit it.
struct Scaled<'p> {
    program: &'p Program,
    arrays: Arrays,
    /// Declared values whose scale is free: nothing has read them.
    unread: FxHashSet<ValueId>,
    /// What the largest elements of products are about.
    magnitude: f64,
}

impl<'p> Scaled<'p> {
    /// The declared values; small integers for a linear program, else fractions.
    fn new(program: &'p Program, seed: u64, linear: bool) -> Self {
        let positive = program.ops.iter().any(|op| local::wants_positive(&op.kind));
        let few = linear || program.ops.iter().any(|op| local::asks_for_equals(&op.kind));
        let (arrays, unread) = (Arrays::new(), FxHashSet::default());
        let magnitude = compared::magnitude(program);
        let mut scaled = Self { program, arrays, unread, magnitude };
        for (id, value) in declared(program) {
            // Of a linear program all are whole.
            let numbers = (!linear).then(|| compared::numbers(program, id)).flatten();
            let data = match (places(program, id), &numbers) {
                (Some(places), _) => local::Data::Places(places),
                (None, Some(numbers)) => local::Data::Among(numbers),
                (None, None) if positive => local::Data::Positive,
                (None, None) => local::Data::Any,
            };
            let (shape, seed) = (whole_shape(program, id), seed ^ local::hash(&value.name));
            let mut array = local::data(&shape, seed, data, if few { 1.0 } else { STEP });
            if !linear && matches!(data, local::Data::Any | local::Data::Positive) {
                array *= SMALL * magnitude;
                scaled.unread.insert(id);
            }
            scaled.arrays.insert(id, array);
        }
        scaled
    }

    fn compute(&mut self, op: &Op) {
        let mut result = result(self.program, op, &self.arrays);
        if let Some(value) = self.product(op) {
            let scale = about_one(largest(&result)) * self.magnitude;
            result *= scale;
            self.arrays[&value] *= scale;
        }
        for operand in &op.operands {
            self.unread.remove(&operand.value);
        }
        self.arrays.insert(op.result, result);
    }

    /// The operand of a product that is scaled with it: a parameter, if there is one.
    fn product(&self, op: &Op) -> Option<ValueId> {
        let OpKind::Einsum { .. } = op.kind else { return None };
        let [left, right] = [op.operands[0].value, op.operands[1].value];
        let is_parameter =
            |&&value: &&ValueId| self.program.values[value].role == Some(Role::Param);
        let free = [left, right].into_iter().filter(|value| self.unread.contains(value));
        let free: Vec<ValueId> = free.filter(|_| left != right).collect();
        free.iter().find(is_parameter).or(free.first()).copied()
    }
}

/// The power of two that brings a magnitude to between a half and one.
fn about_one(magnitude: f64) -> f64 {
    let power = -magnitude.log2().ceil();
    if power.is_finite() { power.exp2() } else { 1.0 }
}

/// How far each value moves when every fraction that is declared moves a little.
fn moves(program: &Program, arrays: &Arrays, seed: u64) -> IndexVec<ValueId, f64> {
    let mut moved = Arrays::new();
    for (id, value) in declared(program) {
        let mut array = arrays[&id].clone();
        if places(program, id).is_none() && compared::numbers(program, id).is_none() {
            let seed = !seed ^ local::hash(&value.name);
            let by = local::data(array.shape(), seed, local::Data::Any, STEP) / local::LARGEST;
            array *= &by.mapv(|x| 1.0 + SHIFT * x);
        }
        moved.insert(id, array);
    }
    let mut last = FxHashMap::default();
    for (number, op) in program.ops.iter().enumerate() {
        last.extend(op.operands.iter().map(|operand| (operand.value, number)));
    }
    let mut moves: IndexVec<ValueId, f64> = program.values.iter().map(|_| 0.0).collect();
    for (number, op) in program.ops.iter().enumerate() {
        let result = result(program, op, &moved);
        moves[op.result] = largest(&(&result - &arrays[&op.result]));
        moved.insert(op.result, result);
        for operand in op.operands.iter().filter(|operand| last[&operand.value] == number) {
            moved.swap_remove(&operand.value);
        }
    }
    moves
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
    for op in &program.ops {
        arrays.insert(op.result, result(program, op, &arrays));
    }
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

/// The result of an operation; undefined where it cannot be computed.
fn result(program: &Program, op: &Op, arrays: &Arrays) -> ArrayD<f64> {
    let operands: Vec<&ArrayD<f64>> =
        op.operands.iter().map(|operand| &arrays[&operand.value]).collect();
    let place = local::Place {
        starts: operands.iter().map(|operand| vec![0; operand.ndim()]).collect(),
        start: vec![0; program.values[op.result].dims.len()],
        shape: whole_shape(program, op.result),
    };
    local::operation(program, op, &operands, &place)
        .unwrap_or_else(|| ArrayD::from_elem(whole_shape(program, op.result), f64::NAN))
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
