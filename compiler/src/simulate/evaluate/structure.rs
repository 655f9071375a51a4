//! Evaluates tables, rearrangements and routing, element by element: written to be obviously
//! correct, not fast.

use ndarray::{ArrayD, Axis, IxDyn, Slice, concatenate, indices};
use shardwise_ir::ids::DimId;
use shardwise_ir::program::{Along, Program};
use shardwise_ir::rearrange::{Rearrange, Regroup, Roll, Route, Window, Windows};

use super::{position, spread};

type Array = ArrayD<f64>;

/// The rows of a table at the indices in the second operand; `start` is the start of the table's
/// block, and rows outside it are zero. `None` where the blocks do not belong to that of the
/// result.
pub(super) fn take(
    dim: DimId,
    dims: &[&[DimId]],
    operands: &[&Array],
    start: usize,
    result: (&[DimId], &[usize]),
) -> Option<Array> {
    let (table, ids) = (operands[0], operands[1]);
    let rows = position(dims[0], dim).map_or(0, |axis| table.shape()[axis]);
    let length = |other: DimId| position(result.0, other).map(|place| result.1[place]);
    let fits = |k: usize| {
        dims[k]
            .iter()
            .zip(operands[k].shape())
            .all(|(&other, &size)| other == dim || length(other) == Some(size))
    };
    (fits(0) && fits(1)).then(|| {
        ArrayD::from_shape_fn(IxDyn(result.1), |index| {
            let at = |other: DimId| position(result.0, other).map_or(0, |place| index[place]);
            let row = ids[IxDyn(&dims[1].iter().map(|&other| at(other)).collect::<Vec<_>>())]
                - start as f64;
            let place: Vec<usize> = dims[0]
                .iter()
                .map(|&other| if other == dim { row.max(0.0) as usize } else { at(other) })
                .collect();
            if row >= 0.0 && row < rows as f64 {
                table.get(IxDyn(&place)).copied().unwrap_or(f64::NAN)
            } else {
                0.0
            }
        })
    })
}

/// Rows added up at the indices in the second operand; the block of the result begins at `start`.
pub(super) fn put(
    dim: DimId,
    dims: &[&[DimId]],
    operands: &[&Array],
    start: usize,
    (result, shape): (&[DimId], &[usize]),
) -> Array {
    let (rows, ids) = (operands[0], operands[1]);
    let all: Vec<DimId> = dims[0]
        .iter()
        .chain(dims[1].iter().filter(|other| !dims[0].contains(other)))
        .copied()
        .collect();
    let length = |other: DimId| {
        let of = |k: usize| Some(operands[k].shape()[position(dims[k], other)?]);
        of(0).or_else(|| of(1)).unwrap_or(1)
    };
    let mut sum = ArrayD::zeros(IxDyn(shape));
    for index in indices(IxDyn(&all.iter().map(|&other| length(other)).collect::<Vec<_>>())) {
        let at = |other: DimId| position(&all, other).map_or(0, |place| index[place]);
        let of = |k: usize| IxDyn(&dims[k].iter().map(|&other| at(other)).collect::<Vec<_>>());
        let row = ids[of(1)] - start as f64;
        let place: Vec<usize> = result
            .iter()
            .map(|&other| if other == dim { row.max(0.0) as usize } else { at(other) })
            .collect();
        if row >= 0.0
            && let Some(element) = sum.get_mut(IxDyn(&place))
        {
            *element += rows[of(0)];
        }
    }
    sum
}

/// The first array with rows at the indices in the second operand replaced by those of the third,
/// in order; `start` is the start of the array's block.
pub(super) fn update(
    dim: DimId,
    dims: &[&[DimId]],
    operands: &[&Array],
    start: usize,
    result: &[DimId],
) -> Array {
    let (array, ids, rows) = (operands[0], operands[1], operands[2]);
    let mut updated = ordered(array, dims[0], result);
    for (index, &element) in rows.indexed_iter() {
        let at = |other: DimId| position(dims[2], other).map_or(0, |place| index[place]);
        let row =
            ids[IxDyn(&dims[1].iter().map(|&other| at(other)).collect::<Vec<_>>())] - start as f64;
        let place: Vec<usize> = result
            .iter()
            .map(|&other| if other == dim { row.max(0.0) as usize } else { at(other) })
            .collect();
        if row >= 0.0
            && let Some(old) = updated.get_mut(IxDyn(&place))
        {
            *old = element;
        }
    }
    updated
}

/// Rearranged elements; `None` where the block of the result would have another number of them.
/// The result of a rearrangement; `None` where a dimension that it splits or joins is sharded.
pub(super) fn rearranged(
    program: &Program,
    how: &Rearrange,
    dims: &[&[DimId]],
    operands: &[&Array],
    (result, shape): (&[DimId], &[usize]),
) -> Option<Array> {
    let blocks = Blocks { program, dims, operands, result, shape };
    match how {
        Rearrange::Rename(pairs) => {
            let renamed =
                |dim: DimId| pairs.iter().find(|(old, _)| *old == dim).map_or(dim, |(_, new)| *new);
            let dims: Vec<DimId> = dims[0].iter().map(|&dim| renamed(dim)).collect();
            Some(ordered(operands[0], &dims, result))
        }
        Rearrange::Reshape(groups) => blocks.reshape(groups),
        Rearrange::Slice(window) => blocks.slice(window),
        Rearrange::Pad(window) => blocks.pad(window),
        Rearrange::Part { from, to, first } => blocks.part(*from, *to, *first),
        Rearrange::Join { from, to } => blocks.join(*from, *to),
        Rearrange::Chunk { from, to, step } => blocks.chunk(*from, *to, *step as usize),
        Rearrange::Stack { from, to } => blocks.stack(*from, *to),
        Rearrange::Roll(roll) => blocks.roll(roll),
        Rearrange::Windows(windows) => blocks.windows(windows),
        Rearrange::Overlap(windows) => blocks.overlap(windows),
        Rearrange::Concat { from, to } => blocks.concat(from, *to),
    }
}

/// The blocks of one rearrangement on one device.
struct Blocks<'a> {
    program: &'a Program,
    dims: &'a [&'a [DimId]],
    operands: &'a [&'a Array],
    result: &'a [DimId],
    shape: &'a [usize],
}

impl Blocks<'_> {
    fn size(&self, dim: DimId) -> usize {
        self.program.dims[dim].size as usize
    }

    /// The dimension of an operand that is split or joined, which must be unsharded.
    fn replicated_axis(&self, operand: usize, dim: DimId) -> Option<usize> {
        position(self.dims[operand], dim)
            .filter(|&axis| self.operands[operand].shape()[axis] == self.size(dim))
    }

    /// The first operand's dimensions, one of them under another name.
    fn with(&self, old: DimId, new: DimId) -> Vec<DimId> {
        replaced(self.dims[0], old, new)
    }

    /// Each group's dimensions side by side, then as one run of elements, then apart again.
    fn reshape(&self, groups: &[Regroup]) -> Option<Array> {
        let kept: Vec<DimId> = self.dims[0]
            .iter()
            .copied()
            .filter(|dim| groups.iter().all(|group| !group.from.contains(dim)))
            .collect();
        let before: Vec<DimId> =
            kept.iter().chain(groups.iter().flat_map(|group| &group.from)).copied().collect();
        let after: Vec<DimId> =
            kept.iter().chain(groups.iter().flat_map(|group| &group.to)).copied().collect();
        let lengths: Vec<usize> = after
            .iter()
            .map(|&dim| position(self.result, dim).map_or(1, |place| self.shape[place]))
            .collect();
        let flat = ordered(self.operands[0], self.dims[0], &before).into_iter().collect::<Vec<_>>();
        let split = ArrayD::from_shape_vec(IxDyn(&lengths), flat).ok()?;
        Some(ordered(&split, &after, self.result))
    }

    fn slice(&self, Window { from, to, start }: &Window) -> Option<Array> {
        let axis = Axis(self.replicated_axis(0, *from)?);
        let start = *start as usize;
        let rows = Slice::from(start..start + self.size(*to));
        let part = self.operands[0].slice_axis(axis, rows).to_owned();
        Some(ordered(&part, &self.with(*from, *to), self.result))
    }

    fn pad(&self, Window { from, to, start }: &Window) -> Option<Array> {
        let axis = Axis(self.replicated_axis(0, *from)?);
        let start = *start as usize;
        let mut lengths = self.operands[0].shape().to_vec();
        lengths[axis.index()] = self.size(*to);
        let mut padded = ArrayD::zeros(IxDyn(&lengths));
        let rows = Slice::from(start..start + self.size(*from));
        padded.slice_axis_mut(axis, rows).assign(self.operands[0]);
        Some(ordered(&padded, &self.with(*from, *to), self.result))
    }

    /// A block of the batch holds the rows of every microbatch, each as many apart as there are
    /// microbatches.
    fn part(&self, from: DimId, to: DimId, first: u64) -> Option<Array> {
        let axis = Axis(position(self.dims[0], from)?);
        let apart = self
            .size(from)
            .checked_div(self.size(to))
            .filter(|&apart| self.operands[0].len_of(axis).is_multiple_of(apart))?;
        let rows = self.operands[0].slice_axis(axis, every(first as usize, apart)?).to_owned();
        Some(ordered(&rows, &self.with(from, to), self.result))
    }

    fn join(&self, from: DimId, to: DimId) -> Option<Array> {
        let axis = Axis(position(self.result, to)?);
        let mut batch = ArrayD::zeros(IxDyn(self.shape));
        for (number, (operand, dims)) in self.operands.iter().zip(self.dims).enumerate() {
            let rows = every(number, self.operands.len())?;
            let part = ordered(operand, &replaced(dims, from, to), self.result);
            let mut place = batch.slice_axis_mut(axis, rows);
            if place.shape() != part.shape() {
                return None;
            }
            place.assign(&part);
        }
        Some(batch)
    }

    fn chunk(&self, from: DimId, to: Option<DimId>, step: usize) -> Option<Array> {
        let axis = Axis(self.replicated_axis(0, from)?);
        let Some(to) = to else {
            let dims: Vec<DimId> =
                self.dims[0].iter().copied().filter(|&dim| dim != from).collect();
            let element = self.operands[0].index_axis(axis, step).to_owned();
            return Some(ordered(&element, &dims, self.result));
        };
        let rows = Slice::from(step * self.size(to)..(step + 1) * self.size(to));
        let part = self.operands[0].slice_axis(axis, rows).to_owned();
        Some(ordered(&part, &self.with(from, to), self.result))
    }

    fn stack(&self, from: Option<DimId>, to: DimId) -> Option<Array> {
        let part = |operand: usize| {
            let block = self.operands[operand];
            if let Some(from) = from {
                self.replicated_axis(operand, from)?;
                let dims = replaced(self.dims[operand], from, to);
                return Some(ordered(block, &dims, self.result));
            }
            let dims = [&[to], self.dims[operand]].concat();
            Some(ordered(&block.clone().insert_axis(Axis(0)), &dims, self.result))
        };
        let parts = (0..self.operands.len()).map(part).collect::<Option<Vec<Array>>>()?;
        let views: Vec<_> = parts.iter().map(|part| part.view()).collect();
        concatenate(Axis(position(self.result, to)?), &views).ok()
    }

    fn roll(&self, Roll { dim, by }: &Roll) -> Option<Array> {
        let axis = Axis(self.replicated_axis(0, *dim)?);
        let by = *by as usize % self.size(*dim).max(1);
        let (front, back) = self.operands[0].view().split_at(axis, self.size(*dim) - by);
        Some(ordered(&concatenate(axis, &[back, front]).ok()?, self.dims[0], self.result))
    }

    fn windows(&self, of: &Windows) -> Option<Array> {
        let axis = self.replicated_axis(0, of.whole)?;
        let at = |index: &IxDyn, dim: DimId| Some(index[position(self.result, dim)?]);
        let element = |index: IxDyn| {
            let from = of.element(at(&index, of.places)?, at(&index, of.kernel)?)?;
            let place: Vec<usize> = self.dims[0]
                .iter()
                .enumerate()
                .map(|(k, &dim)| if k == axis { Some(from) } else { at(&index, dim) })
                .collect::<Option<_>>()?;
            self.operands[0].get(IxDyn(&place)).copied()
        };
        Some(ArrayD::from_shape_fn(IxDyn(self.shape), |index| element(index).unwrap_or(0.0)))
    }

    fn overlap(&self, of: &Windows) -> Option<Array> {
        let axis = self.replicated_axis(0, of.places)?;
        let kernel = position(self.dims[0], of.kernel)?;
        let mut sum = ArrayD::zeros(IxDyn(self.shape));
        for (index, &element) in self.operands[0].indexed_iter() {
            let at = |dim: DimId| Some(index[position(self.dims[0], dim)?]);
            let Some(to) = of.element(index[axis], index[kernel]) else { continue };
            let place: Vec<usize> = self
                .result
                .iter()
                .map(|&dim| if dim == of.whole { Some(to) } else { at(dim) })
                .collect::<Option<_>>()?;
            if let Some(place) = sum.get_mut(IxDyn(&place)) {
                *place += element;
            }
        }
        Some(sum)
    }

    fn concat(&self, from: &[DimId], to: DimId) -> Option<Array> {
        let part = |(operand, &dim): (usize, &DimId)| {
            self.replicated_axis(operand, dim)?;
            let dims = replaced(self.dims[operand], dim, to);
            Some(ordered(self.operands[operand], &dims, self.result))
        };
        let parts = from.iter().enumerate().map(part).collect::<Option<Vec<Array>>>()?;
        let views: Vec<_> = parts.iter().map(|part| part.view()).collect();
        concatenate(Axis(position(self.result, to)?), &views).ok()
    }
}

/// Rows at a stride, from one on.
pub(in super::super) fn every(first: usize, apart: usize) -> Option<Slice> {
    Some(Slice {
        start: isize::try_from(first).ok()?,
        end: None,
        step: isize::try_from(apart).ok()?,
    })
}

/// One where a token has a slot of an expert: it is sent to those with its largest scores, and
/// takes the first free slot in the order of tokens.
pub(super) fn route(
    route: &Route,
    dims: &[DimId],
    scores: &Array,
    (result, shape): (&[DimId], &[usize]),
) -> Option<Array> {
    let mut groups = dims.to_vec();
    groups.retain(|dim| ![route.tokens, route.experts].contains(dim));
    let length = |dim: DimId| position(dims, dim).map_or(1, |axis| scores.shape()[axis]);
    let slots = position(result, route.capacity).map_or(0, |axis| shape[axis]);
    let mut chosen = ArrayD::zeros(IxDyn(shape));
    for group in indices(IxDyn(&groups.iter().map(|&dim| length(dim)).collect::<Vec<_>>())) {
        let mut taken = vec![0; length(route.experts)];
        for token in 0..length(route.tokens) {
            let at = |dim: DimId, expert: usize, slot: usize| match dim {
                dim if dim == route.tokens => token,
                dim if dim == route.experts => expert,
                dim if dim == route.capacity => slot,
                dim => position(&groups, dim).map_or(0, |axis| group[axis]),
            };
            let place = |dims: &[DimId], expert: usize, slot: usize| {
                IxDyn(&dims.iter().map(|&dim| at(dim, expert, slot)).collect::<Vec<_>>())
            };
            let mut ranked: Vec<usize> = (0..taken.len()).collect();
            ranked.sort_by(|&a, &b| {
                scores[place(dims, b, 0)].total_cmp(&scores[place(dims, a, 0)]).then(a.cmp(&b))
            });
            for expert in ranked.into_iter().take(route.choices as usize) {
                if taken[expert] < slots {
                    *chosen.get_mut(place(result, expert, taken[expert]))? = 1.0;
                }
                taken[expert] += 1;
            }
        }
    }
    Some(chosen)
}

/// A function of all elements along a dimension; `None` where that is sharded.
pub(super) fn along(
    program: &Program,
    Along { function, from, to }: &Along,
    dims: &[DimId],
    operand: &Array,
    (result, shape): (&[DimId], &[usize]),
) -> Option<Array> {
    let axis = position(dims, *from)
        .filter(|&axis| operand.shape()[axis] as u64 == program.dims[*from].size)?;
    let count = shape[position(result, *to)?];
    let mut lengths = operand.shape().to_vec();
    lengths[axis] = count;
    let mut found = ArrayD::zeros(IxDyn(&lengths));
    for (from, mut to) in operand.lanes(Axis(axis)).into_iter().zip(found.lanes_mut(Axis(axis))) {
        let values = (function.row().evaluate)(&from.to_vec(), count);
        to.iter_mut().zip(values).for_each(|(to, value)| *to = value);
    }
    Some(ordered(&found, &replaced(dims, *from, *to), result))
}

fn replaced(dims: &[DimId], old: DimId, new: DimId) -> Vec<DimId> {
    dims.iter().map(|&dim| if dim == old { new } else { dim }).collect()
}

/// An array with its dimensions in another order.
fn ordered(array: &Array, dims: &[DimId], order: &[DimId]) -> Array {
    let shape: Vec<usize> = order
        .iter()
        .map(|&dim| position(dims, dim).map_or(1, |place| array.shape()[place]))
        .collect();
    spread(array, dims, order, &shape)
}
