//! What operations compute, on whole arrays and on local blocks alike.

mod structure;

pub(super) use structure::every;
mod update;

use indexmap::IndexMap;
use ndarray::{ArrayD, Axis, IxDyn};
use shardwise_ir::functions;
use shardwise_ir::ids::DimId;
use shardwise_ir::program::{Fill, Linearity, MapForm, Op, OpKind, Program, ReduceFn};

/// No element of the data is larger.
pub(super) const LARGEST: f64 = 4.0;

/// What the data of a declared value are.
#[derive(Clone, Copy)]
pub(super) enum Data {
    /// Of both signs.
    Any,
    /// Above zero.
    Positive,
    /// Places along something of this length.
    Places(u64),
}

/// Small integers that depend on the seed and the place only.
pub(super) fn data(shape: &[usize], seed: u64, data: Data) -> ArrayD<f64> {
    let mut state = seed;
    ArrayD::from_shape_fn(IxDyn(shape), |_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        match data {
            Data::Any => ((state >> 33) % 9) as f64 - LARGEST,
            Data::Positive => ((state >> 33) % 4) as f64 + 1.0,
            Data::Places(many) => ((state >> 33) % many) as f64,
        }
    })
}

/// Where the blocks of an operation lie in the whole values.
pub(super) struct Place {
    /// Of each operand, where its block begins along each dimension.
    pub(super) starts: Vec<Vec<usize>>,
    /// Where the block of the result is to begin.
    pub(super) start: Vec<usize>,
    /// How large it is to be.
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
        OpKind::Composite { .. } => false,
        OpKind::Map(function) => match &function.form {
            MapForm::Infix('+' | '-')
            | MapForm::Negate
            | MapForm::LoopCarried
            | MapForm::Last
            | MapForm::Broadcast(_)
            | MapForm::Position(_) => true,
            MapForm::Causal { fill, .. } => *fill == Fill::Zero,
            _ => false,
        },
        OpKind::Reduce { function, .. } => *function != ReduceFn::Mean,
        OpKind::Einsum { .. }
        | OpKind::Gather { .. }
        | OpKind::ScatterAdd { .. }
        | OpKind::Update { .. }
        | OpKind::Rearrange(_)
        | OpKind::Route(_)
        | OpKind::Collective(_) => true,
    }
}

/// Whether an operation is defined on positive numbers only.
pub(super) fn wants_positive(kind: &OpKind) -> bool {
    let OpKind::Map(function) = kind else { return false };
    let root = |name: &str| matches!(name, "log" | "sqrt" | "rsqrt" | "pow" | "adam_step");
    matches!(&function.form, MapForm::Call { name, .. } if root(name))
        || function.linearity == Linearity::First
}

/// The result of `op` on these operands; `None` if they are not as long along the dimensions that
/// they share, or not as large as it needs.
pub(super) fn operation(
    program: &Program,
    op: &Op,
    operands: &[&ArrayD<f64>],
    place: &Place,
) -> Option<ArrayD<f64>> {
    let dims: Vec<&[DimId]> =
        op.operands.iter().map(|operand| program.values[operand.value].dims.as_slice()).collect();
    let result = &program.values[op.result].dims;
    let laid_out = op.sharded_operands().len();
    if !fit(&dims[..laid_out], &operands[..laid_out]) {
        return None;
    }
    Some(match &op.kind {
        OpKind::Einsum { contracted } => {
            let order: Vec<DimId> = result.iter().chain(contracted).copied().collect();
            let shape = shape(&order, &dims, operands);
            let left = spread(operands[0], dims[0], &order, &shape);
            let mut product = left * spread(operands[1], dims[1], &order, &shape);
            for _ in contracted {
                product = product.sum_axis(Axis(result.len()));
            }
            product
        }
        OpKind::Map(function) => {
            let shape =
                shape_of_map(program, &function.form, result, shape(result, &dims, operands));
            let spread: Vec<ArrayD<f64>> = operands
                .iter()
                .zip(&dims)
                .map(|(operand, dims)| spread(operand, dims, result, &shape))
                .collect();
            let start = |dim: DimId| {
                let found = dims
                    .iter()
                    .zip(&place.starts)
                    .find_map(|(dims, starts)| Some(starts[dims.iter().position(|&d| d == dim)?]));
                found.unwrap_or(0)
            };
            placed(&function.form, &spread[0], result, &start)
                .unwrap_or_else(|| map(&function.form, &spread))
        }
        OpKind::Reduce { function, dims: over } => {
            let order: Vec<DimId> = result.iter().chain(over).copied().collect();
            let shape = shape(&order, &dims, operands);
            let mut reduced = spread(operands[0], dims[0], &order, &shape);
            for _ in over {
                reduced = reduce(*function, &reduced, Axis(result.len()));
            }
            let whole: f64 = over.iter().map(|&dim| program.dims[dim].size as f64).product();
            if *function == ReduceFn::Mean { reduced / whole } else { reduced }
        }
        OpKind::Gather { dim } => structure::take(
            *dim,
            &dims,
            operands,
            place.starts[0][position(dims[0], *dim)?],
            (result, &place.shape),
        )?,
        OpKind::ScatterAdd { dim } => structure::put(
            *dim,
            &dims,
            operands,
            place.start[position(result, *dim)?],
            (result, &place.shape),
        ),
        OpKind::Update { dim } => structure::update(
            *dim,
            &dims,
            operands,
            place.starts[0][position(dims[0], *dim)?],
            result,
        ),
        OpKind::Rearrange(how) => {
            structure::rearranged(program, how, &dims, operands, (result, &place.shape))?
        }
        OpKind::Route(route) => {
            structure::route(route, dims[0], operands[0], (result, &place.shape))?
        }
        OpKind::Composite { function, dims: along } => {
            let order: Vec<DimId> = dims[0]
                .iter()
                .copied()
                .filter(|dim| !along.contains(dim))
                .chain(along.iter().copied())
                .collect();
            let whole: f64 = along.iter().map(|&dim| program.dims[dim].size as f64).product();
            let shape = shape(&order, &dims, operands);
            let (computed, rank) = structure::composite(
                *function,
                spread(operands[0], dims[0], &order, &shape),
                along.len(),
                whole,
            );
            let order = &order[..rank];
            let shape: Vec<usize> = result
                .iter()
                .filter_map(|dim| Some(computed.shape()[position(order, *dim)?]))
                .collect();
            spread(&computed, order, result, &shape)
        }
        OpKind::Collective(_) => operands[0].clone(),
    })
}

/// Where a dimension stands among others.
pub(super) fn position(dims: &[DimId], dim: DimId) -> Option<usize> {
    dims.iter().position(|&other| other == dim)
}

/// What depends on where an element stands.
fn placed(
    form: &MapForm,
    operand: &ArrayD<f64>,
    dims: &[DimId],
    start: &dyn Fn(DimId) -> usize,
) -> Option<ArrayD<f64>> {
    let of = |dim: DimId| Some((position(dims, dim)?, start(dim)));
    match form {
        MapForm::Position(dim) => {
            let (axis, start) = of(*dim)?;
            Some(ArrayD::from_shape_fn(operand.raw_dim(), |index| (start + index[axis]) as f64))
        }
        MapForm::Causal { query, key, fill } => {
            let ((query, at), (key, from)) = (of(*query)?, of(*key)?);
            let filler = if *fill == Fill::Infinite { f64::NEG_INFINITY } else { 0.0 };
            let seen = |index: &IxDyn| from + index[key] <= at + index[query];
            Some(ArrayD::from_shape_fn(operand.raw_dim(), |index| {
                if seen(&index) { operand[&index] } else { filler }
            }))
        }
        _ => None,
    }
}

/// Whether every dimension is as long in all operands that have it.
fn fit(dims: &[&[DimId]], operands: &[&ArrayD<f64>]) -> bool {
    let mut lengths: IndexMap<DimId, usize> = IndexMap::new();
    let all = dims
        .iter()
        .zip(operands)
        .flat_map(|(dims, operand)| dims.iter().copied().zip(operand.shape().iter().copied()));
    all.into_iter().all(|(dim, length)| *lengths.entry(dim).or_insert(length) == length)
}

/// The shape of a result, the dimensions that a broadcast adds whole.
fn shape_of_map(
    program: &Program,
    form: &MapForm,
    result: &[DimId],
    mut shape: Vec<usize>,
) -> Vec<usize> {
    if let MapForm::Broadcast(added) = form {
        for (size, dim) in shape.iter_mut().zip(result).filter(|(_, dim)| added.contains(dim)) {
            *size = program.dims[*dim].size as usize;
        }
    }
    shape
}

fn reduce(function: ReduceFn, array: &ArrayD<f64>, axis: Axis) -> ArrayD<f64> {
    match function {
        ReduceFn::Sum | ReduceFn::Mean => array.sum_axis(axis),
        ReduceFn::Max => array.fold_axis(axis, f64::NEG_INFINITY, |&a, &b| a.max(b)),
        ReduceFn::Min => array.fold_axis(axis, f64::INFINITY, |&a, &b| a.min(b)),
    }
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
    let both = |f: &dyn Fn(f64, f64) -> f64| {
        let mut out = operands[0].clone();
        out.zip_mut_with(&operands[1], |a, &b| *a = f(*a, b));
        out
    };
    match form {
        MapForm::Infix('+') => both(&|a, b| a + b),
        MapForm::Infix('-') => both(&|a, b| a - b),
        MapForm::Infix(_) => both(&|a, b| a / b),
        MapForm::Negate => operands[0].mapv(|x| -x),
        MapForm::LoopCarried
        | MapForm::Last
        | MapForm::Total
        | MapForm::Broadcast(_)
        | MapForm::Position(_)
        | MapForm::Causal { .. } => operands[0].clone(),
        MapForm::ScaleBy(scalar) => operands[0].mapv(|x| number(scalar) * x),
        MapForm::InfixScalar(symbol, scalar) => {
            operands[0].mapv(|x| infix(*symbol, x, number(scalar)))
        }
        MapForm::ScalarInfix(scalar, symbol) => {
            operands[0].mapv(|x| infix(*symbol, number(scalar), x))
        }
        MapForm::Call { name, extra } if name == "select" => {
            let scalars: Vec<f64> = extra.iter().map(number).collect();
            let mut out = operands[0].clone();
            for (index, chosen) in out.indexed_iter_mut() {
                // Values come before numbers among what is chosen from.
                let choices = operands[1..]
                    .iter()
                    .map(|operand| operand[&index])
                    .chain(scalars.iter().copied());
                let which = usize::from(*chosen == 0.0);
                *chosen = choices.clone().nth(which).unwrap_or(f64::NAN);
            }
            out
        }
        MapForm::Call { name, extra }
            if functions::find(name).is_some_and(|function| function.numbers > 0) =>
        {
            let numbers: Vec<f64> = extra.iter().map(number).collect();
            update::update(name, operands, &numbers)
                .unwrap_or_else(|| operands[0].mapv(|_| f64::NAN))
        }
        MapForm::Call { name, extra } => match (operands.len(), extra.first().map(number)) {
            (2, _) => both(&|a, b| binary(name, a, b)),
            (_, Some(scalar)) => operands[0].mapv(|x| binary(name, x, scalar)),
            _ => operands[0].mapv(|x| unary(name, x)),
        },
    }
}

fn infix(symbol: char, a: f64, b: f64) -> f64 {
    match symbol {
        '+' => a + b,
        '-' => a - b,
        '/' => a / b,
        _ => a * b,
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The tanh form of the Gaussian error linear unit.
fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + gelu_inner(x).tanh())
}

fn gelu_inner(x: f64) -> f64 {
    (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3))
}

/// Its series, to the last digits; the same on every device.
fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    // All terms have one sign, so that nothing cancels.
    let mut term = x;
    let mut sum = x;
    let mut odd = 1.0;
    while term.abs() > 1e-17 * sum.abs() {
        odd += 2.0;
        term *= 2.0 * x * x / odd;
        sum += term;
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

fn unary(name: &str, x: f64) -> f64 {
    match name {
        "abs" => x.abs(),
        "cos" => x.cos(),
        "erf" => erf(x),
        "exp" => x.exp(),
        "gelu" => gelu(x),
        "log" => x.ln(),
        "ones" => 1.0,
        "neg" => -x,
        "relu" => x.max(0.0),
        "rsqrt" => 1.0 / x.sqrt(),
        "sigmoid" => sigmoid(x),
        "silu" | "swish" => x * sigmoid(x),
        "sin" => x.sin(),
        "softplus" => x.max(0.0) + (-x.abs()).exp().ln_1p(),
        "sqrt" => x.sqrt(),
        "square" => x * x,
        "tanh" => x.tanh(),
        "cast<int8>" | "cast<int4>" | "cast<int32>" => x.trunc(),
        "cast<bool>" => f64::from(u8::from(x != 0.0)),
        _ => x,
    }
}

fn truth(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}

/// Derivatives take what the function was applied to, then the gradient of its result.
fn binary(name: &str, a: f64, b: f64) -> f64 {
    match name {
        "maximum" => a.max(b),
        "minimum" => a.min(b),
        "pow" => a.powf(b),
        "equal" => truth((a - b).abs() <= 0.0),
        "not_equal" => truth((a - b).abs() > 0.0),
        "less" => truth(a < b),
        "less_equal" => truth(a <= b),
        "greater" => truth(a > b),
        "greater_equal" => truth(a >= b),
        _ => b * slope(name, a),
    }
}

/// The derivative of the function whose derivative is called `name`, at `x`; no number for what is
/// no derivative.
fn slope(name: &str, x: f64) -> f64 {
    match name {
        "dabs" => f64::from(i8::from(x > 0.0) - i8::from(x < 0.0)),
        "derf" => 2.0 / std::f64::consts::PI.sqrt() * (-x * x).exp(),
        "dgelu" => {
            let tanh = gelu_inner(x).tanh();
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (1.0 + 3.0 * 0.044_715 * x * x);
            0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh * tanh) * inner
        }
        "drelu" => f64::from(u8::from(x > 0.0)),
        "dsigmoid" => sigmoid(x) * (1.0 - sigmoid(x)),
        "dsilu" => sigmoid(x) + x * sigmoid(x) * (1.0 - sigmoid(x)),
        "dtanh" => 1.0 - x.tanh().powi(2),
        _ => f64::NAN,
    }
}
