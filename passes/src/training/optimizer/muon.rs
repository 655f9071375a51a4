//! Muon (Jordan et al. 2024): the momentum of a matrix, with all singular values brought to about
//! one, is what the matrix is moved by.
//!
//! Before:
//!
//! ```text
//! param W[D, F]
//! dW = In *B dOut
//! optimizer muon
//! ```
//!
//! After, with `D` the shorter dimension, and `D'` and `D''` as long as `D`:
//!
//! ```text
//! mW.new = momentum(mW, dW, 0.95)
//! oW.1 = cast<bf16>(mW.new)
//! oW.6 = oW.1 * rsqrt(sum_{D,F}(square(oW.1)) + 1e-14)     its norm is one
//! oW.7[D', F] = rename(oW.6)
//! oW.8 = oW.6 *F oW.7                                      A = X Xᵀ
//! oW.9[D'', D'] = rename(oW.8)                             A is symmetric
//! oW.11[D, D'] = rename(oW.8 *D' oW.9)                     A A
//! oW.14 = -4.775 * oW.8 + 2.0315 * oW.11                   B = b A + c A A
//! oW.17 = 3.4445 * oW.6 + oW.14 *D' oW.7                   X = a X + B X, five times
//! W.new = sgd_step(W, oW.61, 0.02)
//! ```
//!
//! So the search decides how the products are sharded, and whether a sharded matrix is gathered for
//! them. Alternatives: one function `muon_step` of a replicated matrix would hide from the search
//! products that take a good part of a small step, and their distributed forms.

use shardwise_ir::dtype::DType;
use shardwise_ir::functions::{Arithmetic, Function, ReduceFn};
use shardwise_ir::ids::{DimId, RepeatId, ValueId};
use shardwise_ir::program::{
    Dim, KernelPart, MapFn, MapForm, Op, OpKind, Operand, Phase, Program, Value,
};
use shardwise_ir::rearrange::Rearrange;
use shardwise_ir::shape;
use shardwise_ir::sharding::{Pin, Unreduced};

use super::UpdateEmitter;

/// The coefficients of an iteration, chosen for the steepest slope at zero.
const COEFFICIENTS: [&str; 3] = ["3.4445", "-4.775", "2.0315"];
const ITERATIONS: usize = 5;
/// Keeps the norm of a gradient of zeros from dividing by zero.
const LEAST_SQUARE: &str = "1e-14";

/// Whether the parameter is a matrix that Muon updates: not a table whose rows are looked up.
pub(super) fn is_matrix(program: &Program, param: ValueId) -> bool {
    let is_table =
        |op: &Op| matches!(op.kind, OpKind::Gather { .. }) && op.operands[0].value == param;
    program.values[param].dims.len() == 2 && !program.ops.iter().any(is_table)
}

/// Statements whose results belong to the update of one parameter.
struct Muon<'e> {
    emitter: &'e mut UpdateEmitter,
    base: String,
    block: Option<RepeatId>,
    /// The shorter dimension, two others as long, and the longer one.
    dims: [DimId; 4],
}

/// The direction in which a matrix is moved, from its momentum.
pub(super) fn orthogonal(
    emitter: &mut UpdateEmitter,
    param: ValueId,
    momentum: ValueId,
) -> ValueId {
    let of = &emitter.program.values[param];
    let base = format!("o{}", of.name);
    let (first, second) = (of.dims[0], of.dims[1]);
    let size = |dim: DimId| emitter.program.dims[dim].size;
    let [short, long] = if size(first) <= size(second) { [first, second] } else { [second, first] };
    let [once, twice] = ["'", "''"].map(|mark| alike(emitter, short, mark));
    let block = emitter.program.values[momentum].repeat;
    Muon { emitter, base, block, dims: [short, once, twice, long] }.orthogonal(momentum)
}

/// A dimension as long as another, called after it.
fn alike(emitter: &mut UpdateEmitter, dim: DimId, mark: &str) -> DimId {
    let dims = &mut emitter.program.dims;
    let name = format!("{}.muon{mark}", dims[dim].name);
    let known = dims.position(|other| other.name == name);
    let like = Dim { name, factors: Vec::new(), ..dims[dim].clone() };
    known.unwrap_or_else(|| dims.push(like))
}

impl Muon<'_> {
    fn orthogonal(&mut self, momentum: ValueId) -> ValueId {
        let [short, .., long] = self.dims;
        let momentum = self.map(MapForm::Cast(DType::Bf16), &[momentum]);
        let squares = self.call(Function::Square, &[momentum]);
        let sum = OpKind::Reduce { function: ReduceFn::Sum, dims: vec![short, long] };
        let sum = self.statement(sum, &[squares]);
        let sum = self.map(MapForm::InfixScalar(Arithmetic::Add, LEAST_SQUARE.to_owned()), &[sum]);
        let scale = self.call(Function::Rsqrt, &[sum]);
        let scaled = self.product(&[], momentum, scale);
        (0..ITERATIONS).fold(scaled, |so_far, _| self.iteration(so_far))
    }

    /// `a X + (b A + c A A) X`, where `A` is `X Xᵀ`.
    fn iteration(&mut self, x: ValueId) -> ValueId {
        let [short, once, twice, long] = self.dims;
        let [a, b, c] = COEFFICIENTS;
        let renamed = self.renamed(x, &[(short, once)]);
        let gram = self.product(&[long], x, renamed);
        let again = self.renamed(gram, &[(short, twice)]);
        let square = self.product(&[once], gram, again);
        let square = self.renamed(square, &[(twice, once)]);
        let [gram, square] = [(b, gram), (c, square)].map(|(by, of)| self.scaled(by, of));
        let both = self.map(MapForm::Infix(Arithmetic::Add), &[gram, square]);
        let turned = self.product(&[once], both, renamed);
        let scaled = self.scaled(a, x);
        self.map(MapForm::Infix(Arithmetic::Add), &[scaled, turned])
    }

    fn scaled(&mut self, by: &str, of: ValueId) -> ValueId {
        self.map(MapForm::ScaleBy(by.to_owned()), &[of])
    }

    fn call(&mut self, function: Function, operands: &[ValueId]) -> ValueId {
        self.map(MapForm::call(function), operands)
    }

    fn map(&mut self, form: MapForm, operands: &[ValueId]) -> ValueId {
        let dtype = self.emitter.program.values[operands[0]].dtype;
        let function = match form {
            MapForm::Cast(to) => MapFn::cast(dtype, to),
            form => MapFn::new(form),
        };
        self.statement(OpKind::Map(function), operands)
    }

    fn product(&mut self, contracted: &[DimId], left: ValueId, right: ValueId) -> ValueId {
        self.statement(OpKind::Einsum { contracted: contracted.to_vec() }, &[left, right])
    }

    fn renamed(&mut self, of: ValueId, pairs: &[(DimId, DimId)]) -> ValueId {
        self.statement(OpKind::Rearrange(Rearrange::Rename(pairs.to_vec())), &[of])
    }

    /// Adds a statement; a rename gets its dimensions from its left side, which leaves the sharding
    /// open.
    fn statement(&mut self, kind: OpKind, operands: &[ValueId]) -> ValueId {
        let values = &self.emitter.program.values;
        let dims: Vec<&[DimId]> =
            operands.iter().map(|&operand| values[operand].dims.as_slice()).collect();
        let dtypes: Vec<DType> = operands.iter().map(|&operand| values[operand].dtype).collect();
        let (dims, dtype) = (shape::infer_shape(&kind, &dims), shape::dtype(&kind, &dtypes));
        let open = Pin { dims: vec![None; dims.len()], unreduced: Unreduced::default() };
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
            share: 1.0,
            is_kept: false,
            kernel: KernelPart::default(),
            span,
        });
        result
    }
}
