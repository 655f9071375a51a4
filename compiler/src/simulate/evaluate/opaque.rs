//! Evaluates the stand-ins of functions that the language does not have.

use ndarray::{ArrayD, IxDyn, indices};
use shardwise_ir::dtype::DType;
use shardwise_ir::ids::DimId;
use shardwise_ir::program::{Digest, Opaque, Program};

use super::position;

/// The blocks of the operands of one of these functions.
struct Blocks<'a> {
    function: &'a Opaque,
    dims: &'a [&'a [DimId]],
    operands: &'a [&'a ArrayD<f64>],
}

/// The block of the result; `None` where an operand is not whole along a dimension that the
/// function needs whole.
pub(super) fn stand_in(
    program: &Program,
    function: &Opaque,
    (dims, operands): (&[&[DimId]], &[&ArrayD<f64>]),
    (result, shape): (&[DimId], &[usize]),
    dtype: DType,
) -> Option<ArrayD<f64>> {
    let is_whole = |dim: &DimId, length: usize| {
        !function.from.contains(dim) || length as u64 == program.dims[*dim].size
    };
    let lengths = dims.iter().zip(operands).flat_map(|(dims, it)| dims.iter().zip(it.shape()));
    if !lengths.into_iter().all(|(dim, &length)| is_whole(dim, length)) {
        return None;
    }
    let blocks = Blocks { function, dims, operands };
    let new: Vec<bool> = result.iter().map(|dim| function.to.contains(dim)).collect();
    let lengths_of = |is_new: bool| -> Vec<usize> {
        new.iter().zip(shape).map(|(&new, &size)| if new == is_new { size } else { 1 }).collect()
    };
    let (apart, together) = (lengths_of(false), lengths_of(true));
    let mut found = ArrayD::zeros(IxDyn(shape));
    for outer in indices(IxDyn(&apart)) {
        let at = |dim: DimId| position(result, dim).map_or(0, |place| outer[place]);
        let digest = blocks.digest(at);
        for (number, inner) in indices(IxDyn(&together)).into_iter().enumerate() {
            let place: Vec<usize> =
                (0..shape.len()).map(|axis| outer[axis] + inner[axis]).collect();
            found[IxDyn(&place)] = digest.element(number, dtype);
        }
    }
    Some(found)
}

impl Blocks<'_> {
    /// Of all elements at one index of the dimensions that the function does not need whole.
    fn digest(&self, at: impl Fn(DimId) -> usize) -> Digest {
        let mut digest = self.function.digest();
        for (dims, operand) in self.dims.iter().zip(self.operands) {
            let is_read = |dim: &DimId| self.function.from.contains(dim);
            let lengths: Vec<usize> = dims
                .iter()
                .zip(operand.shape())
                .map(|(dim, &size)| if is_read(dim) { size } else { 1 })
                .collect();
            for index in indices(IxDyn(&lengths)) {
                let place: Vec<usize> = dims
                    .iter()
                    .enumerate()
                    .map(|(axis, dim)| if is_read(dim) { index[axis] } else { at(*dim) })
                    .collect();
                digest.read(operand[IxDyn(&place)]);
            }
        }
        digest
    }
}
