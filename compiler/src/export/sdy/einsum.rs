//! Products, with sums over dimensions that the result lacks.

use shardwise_ir::dtype::DType;

use super::super::json::StepJson;
use super::array::{Array, promoted, tensor};
use super::builder::list;
use super::writer::{Writer, names};

/// An array with the names of its dimensions.
#[derive(Clone)]
pub(super) struct Named<'s> {
    pub(super) array: Array,
    pub(super) dims: Vec<&'s str>,
}

impl Writer<'_> {
    /// A product of a plan: where nothing is summed, element by element.
    pub(super) fn product(
        &mut self,
        step: &StepJson,
        contracted: &[String],
        of: &[Array],
    ) -> Array {
        let planned = self.dtype(&step.value);
        let operands = [0, 1]
            .map(|place| Named { array: of[place].clone(), dims: names(&step.operands[place]) });
        if contracted.is_empty() {
            let (order, shape) = (names(&step.result), self.shape(&step.result));
            let dtype = promoted([of[0].dtype, of[1].dtype, planned]);
            let [left, right] = operands.map(|operand| {
                let array = self.builder.convert(&operand.array, dtype);
                self.aligned(&array, &operand.dims, (&order, &shape))
            });
            return self.builder.binary("multiply", &left, &right);
        }
        let wider = promoted([of[0].dtype, of[1].dtype, planned]);
        let [left, right] = operands;
        self.einsum(left, right, (&names(&step.result), wider))
    }

    /// The product of two arrays, summed over the dimensions that the result lacks.
    pub(super) fn einsum(
        &mut self,
        left: Named<'_>,
        right: Named<'_>,
        (order, dtype): (&[&str], DType),
    ) -> Array {
        let common = promoted([left.array.dtype, right.array.dtype]);
        // True and false are counted.
        let common = if common == DType::Bool { dtype } else { common };
        let left = self.summed(left, &right.dims, order, common);
        let right = self.summed(right, &left.dims, order, common);
        let place = |of: &Named<'_>, dim: &str| of.dims.iter().position(|other| *other == dim);
        let both = left.dims.iter().copied().filter(|dim| right.dims.contains(dim));
        let (batch, gone): (Vec<&str>, Vec<&str>) = both.partition(|dim| order.contains(dim));
        let at = |of: &Named<'_>, dims: &[&str]| list(dims.iter().filter_map(|dim| place(of, dim)));
        let free = |of: &Named<'_>| {
            let shared = |dim: &&str| batch.contains(dim) || gone.contains(dim);
            of.dims.iter().enumerate().filter(|(_, dim)| !shared(dim)).map(|(n, _)| n).collect()
        };
        let (left_free, right_free): (Vec<usize>, Vec<usize>) = (free(&left), free(&right));
        let of_left = batch.iter().filter_map(|dim| place(&left, dim)).chain(left_free.clone());
        let mut dims: Vec<&str> = batch.clone();
        dims.extend(left_free.iter().map(|&n| left.dims[n]));
        dims.extend(right_free.iter().map(|&n| right.dims[n]));
        let mut shape: Vec<u64> = of_left.map(|n| left.array.shape[n]).collect();
        shape.extend(right_free.iter().map(|&n| right.array.shape[n]));
        let batching = format!("batching_dims = {} x {}, ", at(&left, &batch), at(&right, &batch));
        let batching = if batch.is_empty() { String::new() } else { batching };
        let text = format!(
            "stablehlo.dot_general {}, {}, {batching}contracting_dims = {} x {} : ({}, {}) -> {}",
            left.array.name,
            right.array.name,
            at(&left, &gone),
            at(&right, &gone),
            left.array.ty(),
            right.array.ty(),
            tensor(&shape, dtype)
        );
        let made = self.builder.define(&shape, dtype, &text);
        self.reordered(&made, &dims, order)
    }

    /// An operand summed over the dimensions that neither the other one nor the result has.
    fn summed<'s>(
        &mut self,
        of: Named<'s>,
        other: &[&str],
        order: &[&str],
        dtype: DType,
    ) -> Named<'s> {
        let array = self.builder.convert(&of.array, dtype);
        let is_alone = |dim: &&str| !other.contains(dim) && !order.contains(dim);
        let alone = of.dims.iter().enumerate().filter(|(_, dim)| is_alone(dim));
        let alone: Vec<usize> = alone.map(|(place, _)| place).collect();
        let array = self.builder.reduce(&array, "add", &alone);
        Named { array, dims: of.dims.into_iter().filter(|dim| !is_alone(dim)).collect() }
    }
}
