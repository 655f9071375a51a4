//! Windows of a dimension that every device has complete, and their transpose.

use shardwise_ir::dtype::DType;

use super::super::json::{Operation, StepJson};
use super::super::walk::collectives::place_of;
use super::super::walk::{Result, unsupported};
use super::array::Array;
use super::einsum::Named;
use super::writer::{Writer, names};

impl Writer<'_> {
    /// Windows, or windows added up, of complete dimensions.
    pub(super) fn convolved(
        &mut self,
        step: &StepJson,
        operation: &Operation,
        of: &Array,
    ) -> Result<Array> {
        let both = step.operands[0].dims.iter().chain(&step.result.dims);
        let mut split = both.filter(|dim| !dim.axes.is_empty()).map(|dim| dim.dim.as_str());
        let (Operation::Windows { from, to, kernel, stride, padding }
        | Operation::Overlap { from, to, kernel, stride, padding }) = operation
        else {
            return unsupported(&step.value, "this rearrangement");
        };
        if split.any(|dim| [from, to, kernel].iter().any(|own| *own == dim)) {
            return unsupported(&step.value, "windows of a dimension that is split over devices");
        }
        let numbers = [*stride, *padding];
        Ok(if matches!(operation, Operation::Windows { .. }) {
            self.windows(step, [from, to, kernel], numbers, of)
        } else {
            self.overlap(step, [from, to, kernel], numbers, of)
        })
    }

    /// For each place and element of a window, the element of the dimension that it is.
    fn elements(&mut self, shape: &[u64], [stride, padding]: [u64; 2]) -> Array {
        let b = &mut self.builder;
        let (place, within) = (b.iota(shape, 0), b.iota(shape, 1));
        let start = b.with("multiply", &place, stride as f64);
        let element = b.binary("add", &start, &within);
        b.with("subtract", &element, padding as f64)
    }

    /// The windows of a dimension, which are zero outside of it.
    fn windows(
        &mut self,
        step: &StepJson,
        [from, to, kernel]: [&str; 3],
        [stride, padding]: [u64; 2],
        of: &Array,
    ) -> Array {
        let place = place_of(&step.operands[0], from);
        let [places, width] = [self.size(to), self.size(kernel)];
        let end = (places - 1) * stride + width;
        let after = end.saturating_sub(padding + of.shape[place]);
        let padded = self.padded(of, place, [padding, after]);
        let at = self.elements(&[places, width], [stride, 0]);
        let found = self.gathered_rows(&padded, &at, place);
        let dims = names(&step.operands[0]).into_iter();
        let dims = dims.flat_map(|dim| if dim == from { vec![to, kernel] } else { vec![dim] });
        self.reordered(&found, &dims.collect::<Vec<_>>(), &names(&step.result))
    }

    /// Windows added up at the elements that they are of.
    fn overlap(
        &mut self,
        step: &StepJson,
        [from, to, kernel]: [&str; 3],
        numbers: [u64; 2],
        of: &Array,
    ) -> Array {
        let shape = [self.size(from), self.size(kernel), self.size(to)];
        let element = self.elements(&shape[..2], numbers);
        let element = self.builder.broadcast(&element, &shape, &[0, 1]);
        let wanted = self.builder.iota(&shape, 2);
        let is_it = self.builder.compare("EQ", &element, &wanted);
        let dtype = if of.dtype == DType::Bool { self.dtype(&step.value) } else { of.dtype };
        let hot = self.builder.convert(&is_it, dtype);
        let left = Named { array: of.clone(), dims: names(&step.operands[0]) };
        let right = Named { array: hot, dims: vec![from, kernel, to] };
        self.einsum(left, right, (&names(&step.result), dtype))
    }
}
