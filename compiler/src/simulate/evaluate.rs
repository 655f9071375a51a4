//! Evaluates operations, on unsharded arrays and on local blocks alike.

mod definition;
mod opaque;
mod structure;

pub(super) use structure::every;

use indexmap::IndexMap;
use ndarray::{ArrayD, Axis, IxDyn};
use shardwise_ir::functions::{Arithmetic, Composite, Domain, Function, ResultType, cast};
use shardwise_ir::ids::DimId;
use shardwise_ir::program::{Fill, MapForm, Op, OpKind, Program, ReduceFn};

/// The largest magnitude of the data.
pub(super) const LARGEST: f64 = 4.0;

/// Below so many elements those of both lists alternate, since chance may take all of one.
const FEW: usize = 8;

/// The kind of data of a declared value.
#[derive(Clone, Copy)]
pub(super) enum Data<'n> {
    /// Of both signs.
    Any,
    /// Above zero.
    Positive,
    /// Indices along a dimension of this size.
    Places(u64),
    /// As many of one list as of the other.
    Among(&'n [Vec<f64>; 2]),
}

/// Multiples of `step`, of at most [`LARGEST`], that depend on the seed and the index only.
pub(super) fn data(shape: &[usize], seed: u64, data: Data<'_>, step: f64) -> ArrayD<f64> {
    let mut state = seed;
    let mut among = |count: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % count) as f64
    };
    let are_few = shape.iter().product::<usize>() < FEW;
    let mut count = 0;
    let between = |least: f64| ((LARGEST - least) / step) as u64 + 1;
    ArrayD::from_shape_fn(IxDyn(shape), |_| match data {
        Data::Any => among(between(-LARGEST)) * step - LARGEST,
        Data::Positive => among(between(1.0)) * step + 1.0,
        Data::Places(many) => among(many),
        Data::Among(lists) => {
            count += 1;
            let list = &lists[if are_few { count % 2 } else { among(2) as usize }];
            list[among(list.len() as u64) as usize]
        }
    })
}

/// The places of an operation's blocks in the unsharded values.
pub(super) struct Place {
    /// For each operand, the start of its block along each dimension.
    pub(super) starts: Vec<Vec<usize>>,
    /// The start of the result's block.
    pub(super) start: Vec<usize>,
    /// Its shape.
    pub(super) shape: Vec<usize>,
}

/// A number for a name.
pub(super) fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Whether results on small integers are exact whatever the order of summing.
pub(super) fn is_exact(kind: &OpKind) -> bool {
    match kind {
        OpKind::Composite { .. } | OpKind::Opaque(_) => false,
        OpKind::Map(function) => match &function.form {
            MapForm::Infix(Arithmetic::Add | Arithmetic::Sub)
            | MapForm::Negate
            | MapForm::LoopCarried
            | MapForm::Last
            | MapForm::Host(_)
            | MapForm::Broadcast(_)
            | MapForm::Iota(_)
            | MapForm::Position(_) => true,
            MapForm::Constant { number, .. } => {
                number.parse::<f64>().is_ok_and(|number| number.fract().abs() <= 0.0)
            }
            MapForm::Causal { fill, .. } => *fill == Fill::Zero,
            MapForm::Call { .. }
            | MapForm::Cast(_)
            | MapForm::Infix(Arithmetic::Div)
            | MapForm::ScaleBy(_)
            | MapForm::InfixScalar(..)
            | MapForm::ScalarInfix(..)
            | MapForm::Total => false,
        },
        OpKind::Reduce { function, .. } => function.row().result != ResultType::Float,
        OpKind::Einsum { .. }
        | OpKind::Gather { .. }
        | OpKind::ScatterAdd { .. }
        | OpKind::Update { .. }
        | OpKind::Rearrange(_)
        | OpKind::Route(_)
        | OpKind::Along(_)
        | OpKind::Collective(_) => true,
    }
}

/// Whether an operation is defined on positive numbers only.
pub(super) fn wants_positive(kind: &OpKind) -> bool {
    let OpKind::Map(function) = kind else { return false };
    match &function.form {
        MapForm::Call { function, .. } => {
            function.row().operands.iter().any(|operand| operand.domain == Domain::Positive)
        }
        form => *form == MapForm::Infix(Arithmetic::Div),
    }
}

/// Whether an operation asks which elements are equal: none are, of numbers that are too different.
pub(super) fn asks_for_equals(kind: &OpKind) -> bool {
    let OpKind::Map(function) = kind else { return false };
    matches!(function.form, MapForm::Call { function: Function::Equal | Function::NotEqual, .. })
}

/// The result of `op` on these operands; `None` if their shapes do not match.
pub(super) fn operation(
    program: &Program,
    op: &Op,
    operands: &[&ArrayD<f64>],
    place: &Place,
) -> Option<ArrayD<f64>> {
    let dims: Vec<&[DimId]> =
        op.operands.iter().map(|operand| program.values[operand.value].dims.as_slice()).collect();
    let result = program.values[op.result].dims.as_slice();
    let sharded = op.sharded_operands().len();
    if !fit(&dims[..sharded], &operands[..sharded]) {
        return None;
    }
    let local = Local { program, operands, dims: &dims, result, place };
    let to = (result, place.shape.as_slice());
    let start = |dim: DimId| Some(place.starts[0][position(dims[0], dim)?]);
    match &op.kind {
        OpKind::Einsum { contracted } => Some(local.einsum(contracted)),
        OpKind::Map(function) => Some(local.map(&function.form)),
        OpKind::Reduce { function, dims: over } => Some(local.reduce(*function, over)),
        OpKind::Gather { dim } => structure::take(*dim, &dims, operands, start(*dim)?, to),
        OpKind::ScatterAdd { dim } => {
            let start = place.start[position(result, *dim)?];
            Some(structure::put(*dim, &dims, operands, start, to))
        }
        OpKind::Update { dim } => {
            Some(structure::update(*dim, &dims, operands, start(*dim)?, result))
        }
        OpKind::Rearrange(how) => structure::rearranged(program, how, &dims, operands, to),
        OpKind::Along(along) => structure::along(program, along, dims[0], operands[0], to),
        OpKind::Route(route) => structure::route(route, dims[0], operands[0], to),
        OpKind::Opaque(function) => {
            let dtype = program.values[op.result].dtype;
            opaque::stand_in(program, function, (&dims, operands), to, dtype)
        }
        OpKind::Composite { function, dims: along } => local.composite(*function, along),
        OpKind::Collective(_) => Some(operands[0].clone()),
    }
}

/// The blocks of one operation on one device.
struct Local<'a> {
    program: &'a Program,
    operands: &'a [&'a ArrayD<f64>],
    /// Of each operand.
    dims: &'a [&'a [DimId]],
    /// Of the result.
    result: &'a [DimId],
    place: &'a Place,
}

impl Local<'_> {
    /// An operand with its dimensions in this order, broadcast to the sizes of the other operands.
    fn spread(&self, operand: usize, order: &[DimId]) -> ArrayD<f64> {
        let shape = shape(order, self.dims, self.operands);
        spread(self.operands[operand], self.dims[operand], order, &shape)
    }

    /// The product of the sizes of dimensions.
    fn whole(&self, dims: &[DimId]) -> f64 {
        dims.iter().map(|&dim| self.program.dims[dim].size as f64).product()
    }

    fn einsum(&self, contracted: &[DimId]) -> ArrayD<f64> {
        let order: Vec<DimId> = self.result.iter().chain(contracted).copied().collect();
        let mut product = self.spread(0, &order) * self.spread(1, &order);
        for _ in contracted {
            product = product.sum_axis(Axis(self.result.len()));
        }
        product
    }

    fn map(&self, form: &MapForm) -> ArrayD<f64> {
        if let Some(array) = self.without_operands(form) {
            return array;
        }
        let shape = &self.place.shape;
        let operands = self.operands.iter().zip(self.dims);
        let spread: Vec<ArrayD<f64>> =
            operands.map(|(operand, dims)| spread(operand, dims, self.result, shape)).collect();
        self.placed(form, &spread[0]).unwrap_or_else(|| map(form, &spread))
    }

    /// The block of a result that depends on its place only.
    fn without_operands(&self, form: &MapForm) -> Option<ArrayD<f64>> {
        let Place { start, shape, .. } = self.place;
        match form {
            MapForm::Constant { number, .. } => {
                Some(ArrayD::from_elem(IxDyn(shape), number.parse().unwrap_or(f64::NAN)))
            }
            MapForm::Iota(dim) => {
                let position = self.position_along(*dim);
                Some(ArrayD::from_shape_fn(IxDyn(shape), |index| position(start[0] + index[0])))
            }
            _ => None,
        }
    }

    /// Functions of the position of an element.
    fn placed(&self, form: &MapForm, operand: &ArrayD<f64>) -> Option<ArrayD<f64>> {
        let of = |dim: DimId| {
            let (axis, start) = (position(self.result, dim)?, self.start(dim));
            let along = self.position_along(dim);
            Some(move |index: &IxDyn| along(start + index[axis]))
        };
        match form {
            MapForm::Position(dim) => {
                let here = of(*dim)?;
                Some(ArrayD::from_shape_fn(operand.raw_dim(), |index| here(&index)))
            }
            MapForm::Causal { query, key, fill } => {
                let (query, key) = (of(*query)?, of(*key)?);
                let filler = if *fill == Fill::Infinite { f64::NEG_INFINITY } else { 0.0 };
                Some(ArrayD::from_shape_fn(operand.raw_dim(), |index| {
                    if key(&index) <= query(&index) { operand[&index] } else { filler }
                }))
            }
            _ => None,
        }
    }

    /// The position in its sequence of the element at an index along `dim`.
    fn position_along(&self, dim: DimId) -> impl Fn(usize) -> f64 + use<'_> {
        let dim = &self.program.dims[dim];
        move |index| dim.position(index as u64) as f64
    }

    /// The start of the block, along a dimension, of an operand that has it.
    fn start(&self, dim: DimId) -> usize {
        let mut operands = self.dims.iter().zip(&self.place.starts);
        operands.find_map(|(dims, starts)| Some(starts[position(dims, dim)?])).unwrap_or(0)
    }

    fn reduce(&self, function: ReduceFn, over: &[DimId]) -> ArrayD<f64> {
        let row = function.row();
        let order: Vec<DimId> = self.result.iter().chain(over).copied().collect();
        let axis = Axis(self.result.len());
        let combined = over.iter().fold(self.spread(0, &order), |array, _| {
            array.fold_axis(axis, row.start, |&a, &b| (row.combine)(a, b))
        });
        combined.mapv_into(|total| (row.finish)(total, self.whole(over)))
    }

    fn composite(&self, function: Composite, along: &[DimId]) -> Option<ArrayD<f64>> {
        let kept = self.dims[0].iter().filter(|dim| !along.contains(dim));
        let order: Vec<DimId> = kept.chain(along).copied().collect();
        let operand = self.spread(0, &order);
        let (computed, rank) =
            definition::composite(function, &operand, along.len(), self.whole(along));
        let order = &order[..rank];
        let lengths = self.result.iter().map(|&dim| Some(computed.shape()[position(order, dim)?]));
        let shape = lengths.collect::<Option<Vec<usize>>>()?;
        Some(spread(&computed, order, self.result, &shape))
    }
}

/// The position of a dimension among others.
pub(super) fn position(dims: &[DimId], dim: DimId) -> Option<usize> {
    dims.iter().position(|&other| other == dim)
}

/// Whether every dimension has the same size in all operands that have it.
fn fit(dims: &[&[DimId]], operands: &[&ArrayD<f64>]) -> bool {
    let mut lengths: IndexMap<DimId, usize> = IndexMap::new();
    let all = dims
        .iter()
        .zip(operands)
        .flat_map(|(dims, operand)| dims.iter().copied().zip(operand.shape().iter().copied()));
    all.into_iter().all(|(dim, length)| *lengths.entry(dim).or_insert(length) == length)
}

/// The sizes of `order`, read off the operands.
fn shape(order: &[DimId], dims: &[&[DimId]], operands: &[&ArrayD<f64>]) -> Vec<usize> {
    let size = |dim: &DimId| {
        let found = dims
            .iter()
            .zip(operands)
            .find_map(|(dims, operand)| Some(operand.shape()[dims.iter().position(|d| d == dim)?]));
        found.unwrap_or(1)
    };
    order.iter().map(size).collect()
}

/// An operand with its dimensions in the order given, repeated along those that it lacks.
pub(super) fn spread(
    operand: &ArrayD<f64>,
    dims: &[DimId],
    order: &[DimId],
    shape: &[usize],
) -> ArrayD<f64> {
    let mut present: Vec<usize> =
        order.iter().filter_map(|dim| dims.iter().position(|d| d == dim)).collect();
    let missing = (0..dims.len()).filter(|i| !present.contains(i)).collect::<Vec<_>>();
    present.extend(missing);
    let mut view = operand.view().permuted_axes(IxDyn(&present));
    for (place, dim) in order.iter().enumerate() {
        if !dims.contains(dim) {
            view = view.insert_axis(Axis(place));
        }
    }
    view.broadcast(IxDyn(shape))
        .map_or_else(|| ArrayD::from_elem(IxDyn(shape), f64::NAN), |wide| wide.to_owned())
}

fn map(form: &MapForm, operands: &[ArrayD<f64>]) -> ArrayD<f64> {
    let number = |text: &String| text.parse::<f64>().unwrap_or(f64::NAN);
    match form {
        MapForm::Infix(how) => elementwise(operands, &[], |v| how.evaluate(v[0], v[1])),
        MapForm::Negate => operands[0].mapv(|x| -x),
        MapForm::LoopCarried
        | MapForm::Last
        | MapForm::Total
        | MapForm::Host(_)
        | MapForm::Broadcast(_)
        | MapForm::Constant { .. }
        | MapForm::Iota(_)
        | MapForm::Position(_)
        | MapForm::Causal { .. } => operands[0].clone(),
        MapForm::ScaleBy(scalar) => operands[0].mapv(|x| number(scalar) * x),
        MapForm::InfixScalar(how, scalar) => operands[0].mapv(|x| how.evaluate(x, number(scalar))),
        MapForm::ScalarInfix(scalar, how) => operands[0].mapv(|x| how.evaluate(number(scalar), x)),
        MapForm::Cast(dtype) => operands[0].mapv(|x| cast(*dtype, x)),
        MapForm::Call { function, numbers } => {
            let numbers: Vec<f64> = numbers.iter().map(number).collect();
            elementwise(operands, &numbers, function.row().evaluate)
        }
    }
}

/// A function of the elements at the same place in arrays of one shape, then of numbers.
fn elementwise(
    operands: &[ArrayD<f64>],
    numbers: &[f64],
    function: impl Fn(&[f64]) -> f64,
) -> ArrayD<f64> {
    let mut arguments = vec![0.0; operands.len()];
    arguments.extend_from_slice(numbers);
    let mut elements: Vec<_> = operands.iter().map(|operand| operand.iter()).collect();
    let results = (0..operands[0].len()).map(|_| {
        for (argument, elements) in arguments.iter_mut().zip(&mut elements) {
            *argument = elements.next().copied().unwrap_or(f64::NAN);
        }
        function(&arguments)
    });
    ArrayD::from_shape_vec(operands[0].raw_dim(), results.collect())
        .expect("there is a result for each element")
}
