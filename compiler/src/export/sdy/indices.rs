//! Positions, and rows of tables.

use shardwise_ir::dtype::DType;

use super::super::json::{StepJson, TensorJson};
use super::super::walk::collectives::place_of;
use super::super::walk::{Result, unsupported};
use super::array::{Array, promoted, tensor};
use super::builder::list;
use super::einsum::Named;
use super::writer::{Writer, names};

impl Writer<'_> {
    /// For each element, its position in the sequence of a dimension.
    pub(super) fn positions(&mut self, of: &TensorJson, dim: &str) -> Array {
        let (shape, place) = (self.shape(of), place_of(of, dim));
        let mut index = self.builder.iota(&shape, place);
        if let Some(start) = self.start(of, dim) {
            let start = self.builder.broadcast(&start, &shape, &[]);
            index = self.builder.binary("add", &index, &start);
        }
        let order = self.plan.dims.iter().find(|other| other.dim == dim);
        match order.and_then(|dim| dim.zigzag) {
            Some(pairs) => self.zigzag(&index, self.size(dim), pairs),
            None => index,
        }
    }

    /// The positions of elements of a sequence whose blocks stand in pairs, from both ends.
    fn zigzag(&mut self, index: &Array, size: u64, pairs: u64) -> Array {
        let block = (size / (2 * pairs)) as f64;
        let b = &mut self.builder;
        let (number, within) = (b.with("divide", index, block), b.with("remainder", index, block));
        let (pair, side) = (b.with("divide", &number, 2.0), b.with("remainder", &number, 2.0));
        let last = b.like(&pair, (2 * pairs - 1) as f64);
        let from_end = b.binary("subtract", &last, &pair);
        let zero = b.like(&side, 0.0);
        let is_first = b.compare("EQ", &side, &zero);
        let stands = b.select(&is_first, &pair, &from_end);
        let start = b.with("multiply", &stands, block);
        b.binary("add", &start, &within)
    }

    /// Indices of rows of a device's block of a table.
    fn own_rows(&mut self, ids: &Array, table: &TensorJson, dim: &str) -> Array {
        let ids = self.builder.convert(ids, DType::Int32);
        let Some(start) = self.start(table, dim) else { return ids };
        let start = self.builder.broadcast(&start, &ids.shape, &[]);
        self.builder.binary("subtract", &ids, &start)
    }

    /// One where an index is that of a row, along a last dimension; zeros for other rows.
    pub(super) fn one_hot(&mut self, ids: &Array, rows: u64, dtype: DType) -> Array {
        let mut shape = ids.shape.clone();
        shape.push(rows);
        let places: Vec<usize> = (0..ids.rank()).collect();
        let ids = self.builder.broadcast(ids, &shape, &places);
        let row = self.builder.iota(&shape, shape.len() - 1);
        let is_row = self.builder.compare("EQ", &ids, &row);
        self.builder.convert(&is_row, dtype)
    }

    pub(super) fn take(&mut self, step: &StepJson, dim: &str, of: &[Array]) -> Array {
        let (table, ids) = (&step.operands[0], &step.operands[1]);
        let rows = self.own_rows(&of[1], table, dim);
        if names(ids).iter().any(|other| names(table).contains(other)) {
            return self.chosen(step, dim, (&of[0], &rows), self.length(table, dim));
        }
        let axis = place_of(table, dim);
        let count = of[0].shape[axis];
        let (zero, last) =
            (self.builder.like(&rows, 0.0), self.builder.like(&rows, count as f64 - 1.0));
        let (above, below) =
            (self.builder.compare("GE", &rows, &zero), self.builder.compare("LE", &rows, &last));
        let is_known = self.builder.binary("and", &above, &below);
        let inside = self.builder.binary("maximum", &rows, &zero);
        let inside = self.builder.binary("minimum", &inside, &last);
        let found = self.gathered_rows(&of[0], &inside, axis);
        let places: Vec<usize> = (axis..axis + rows.rank()).collect();
        let is_known = self.builder.broadcast(&is_known, &found.shape, &places);
        let nothing = self.builder.like(&found, 0.0);
        let found = self.builder.select(&is_known, &found, &nothing);
        let dims = names(table)
            .into_iter()
            .flat_map(|other| if other == dim { names(ids) } else { vec![other] });
        self.reordered(&found, &dims.collect::<Vec<_>>(), &names(&step.result))
    }

    /// Rows of a table: the dimensions of the indices take the place of that of the rows.
    pub(super) fn gathered_rows(&mut self, table: &Array, ids: &Array, axis: usize) -> Array {
        let mut shape = table.shape.clone();
        shape.splice(axis..=axis, ids.shape.iter().copied());
        let others = (0..shape.len()).filter(|place| !(axis..axis + ids.rank()).contains(place));
        let sizes = table.shape.iter().enumerate();
        let sizes = sizes.map(|(place, &size)| if place == axis { 1 } else { size }.to_string());
        let text = format!(
            "\"stablehlo.gather\"({}, {}) <{{dimension_numbers = #stablehlo.gather<offset_dims = \
             {}, collapsed_slice_dims = [{axis}], start_index_map = [{axis}], index_vector_dim = \
             {}>, slice_sizes = array<i64: {}>}}> : ({}, {}) -> {}",
            table.name,
            ids.name,
            list(others),
            ids.rank(),
            sizes.collect::<Vec<_>>().join(", "),
            table.ty(),
            ids.ty(),
            tensor(&shape, table.dtype)
        );
        self.builder.define(&shape, table.dtype, &text)
    }

    pub(super) fn put(&mut self, step: &StepJson, dim: &str, of: &[Array]) -> Array {
        let rows = self.own_rows(&of[1], &step.result, dim);
        self.chosen(step, dim, (&of[0], &rows), self.length(&step.result, dim))
    }

    /// A product with an array that is one where an index is that of a row.
    fn chosen(
        &mut self,
        step: &StepJson,
        dim: &str,
        (of, rows): (&Array, &Array),
        count: u64,
    ) -> Array {
        let dtype = promoted([of.dtype, self.dtype(&step.value)]);
        let hot = self.one_hot(rows, count, dtype);
        let place = names(&step.operands[1]).into_iter().chain([dim]).collect();
        let left = Named { array: of.clone(), dims: names(&step.operands[0]) };
        self.einsum(left, Named { array: hot, dims: place }, (&names(&step.result), dtype))
    }

    /// Rows replaced: of several for one place of the array, the last one stays.
    pub(super) fn update(&mut self, step: &StepJson, dim: &str, of: &[Array]) -> Result<Array> {
        let (array, ids, rows) = (&step.operands[0], &step.operands[1], &step.operands[2]);
        let known = names(array);
        let others = |of| names(of).into_iter().filter(|other| !known.contains(other));
        let several: Vec<&str> = others(ids).collect();
        if several.len() > 1 || others(rows).any(|other| !several.contains(&other)) {
            return unsupported(&step.value, "an update of rows along several dimensions");
        }
        let dtype = of[0].dtype;
        let own = self.own_rows(&of[1], array, dim);
        let hot = self.one_hot(&own, self.length(array, dim), DType::Int32);
        let place: Vec<&str> = names(ids).into_iter().chain([dim]).collect();
        let (result, shape) = (names(&step.result), self.shape(&step.result));
        let order: Vec<&str> = several.iter().copied().chain(result.clone()).collect();
        let lengths: Vec<u64> =
            several.iter().map(|dim| self.length(ids, dim)).chain(shape.clone()).collect();
        let old = self.aligned(&of[0], &known, (&result, &shape));
        let hot = self.aligned(&hot, &place, (&order, &lengths));
        let new = self.builder.convert(&of[2], dtype);
        let new = self.aligned(&new, &names(rows), (&order, &lengths));
        if several.is_empty() {
            let is_replaced = self.is_true(&hot);
            return Ok(self.builder.select(&is_replaced, &new, &old));
        }
        Ok(self.last_rows(&old, &hot, &new))
    }

    /// Of the rows along a first dimension that are chosen for a place, the last one.
    fn last_rows(&mut self, old: &Array, hot: &Array, new: &Array) -> Array {
        let b = &mut self.builder;
        let from_here = b.running_sum(hot, 0, true);
        let later = b.binary("subtract", &from_here, hot);
        let zero = b.like(&later, 0.0);
        let is_last = b.compare("EQ", &later, &zero);
        let last = b.select(&is_last, hot, &zero);
        let is_chosen = b.compare("NE", &last, &zero);
        let nothing = b.like(new, 0.0);
        let chosen = b.select(&is_chosen, new, &nothing);
        let row = b.reduce(&chosen, "add", &[0]);
        let count = b.reduce(&last, "add", &[0]);
        let none = b.like(&count, 0.0);
        let is_replaced = b.compare("NE", &count, &none);
        b.select(&is_replaced, &row, old)
    }
}
