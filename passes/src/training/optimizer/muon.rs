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
use shardwise_ir::ids::{DimId, ValueId};
use shardwise_ir::program::{Dim, MapForm, Op, OpKind, Program};

use super::UpdateEmitter;
use super::statements::Statements;

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

/// The statements that find the direction of one matrix.
struct Muon<'e> {
    write: Statements<'e>,
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
    let write = Statements { emitter, base, block };
    Muon { write, dims: [short, once, twice, long] }.orthogonal(momentum)
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
        let momentum = self.write.map(MapForm::Cast(DType::Bf16), &[momentum]);
        let squares = self.write.call(Function::Square, &[momentum]);
        let sum = OpKind::Reduce { function: ReduceFn::Sum, dims: vec![short, long] };
        let sum = self.write.statement(sum, &[squares]);
        let sum =
            self.write.map(MapForm::InfixScalar(Arithmetic::Add, LEAST_SQUARE.to_owned()), &[sum]);
        let scale = self.write.call(Function::Rsqrt, &[sum]);
        let scaled = self.write.product(&[], momentum, scale);
        (0..ITERATIONS).fold(scaled, |so_far, _| self.iteration(so_far))
    }

    /// `a X + (b A + c A A) X`, where `A` is `X Xᵀ`.
    fn iteration(&mut self, x: ValueId) -> ValueId {
        let [short, once, twice, long] = self.dims;
        let [a, b, c] = COEFFICIENTS;
        let renamed = self.write.renamed(x, &[(short, once)]);
        let gram = self.write.product(&[long], x, renamed);
        let again = self.write.renamed(gram, &[(short, twice)]);
        let square = self.write.product(&[once], gram, again);
        let square = self.write.renamed(square, &[(twice, once)]);
        let [gram, square] = [(b, gram), (c, square)].map(|(by, of)| self.write.scaled(by, of));
        let both = self.write.map(MapForm::Infix(Arithmetic::Add), &[gram, square]);
        let turned = self.write.product(&[once], both, renamed);
        let scaled = self.write.scaled(a, x);
        self.write.map(MapForm::Infix(Arithmetic::Add), &[scaled, turned])
    }
}
