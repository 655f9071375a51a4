//! The steps of a plan, as a target of the walk.

use indexmap::{IndexMap, IndexSet};
use shardwise_ir::dtype::DType;

use super::super::devices::Devices;
use super::super::json::{Operation, PlanJson, StagesJson, StepJson, TensorJson, ValueJson};
use super::super::walk::loops::Iterated;
use super::super::walk::stages::Staged;
use super::super::walk::structure::loops;
use super::super::walk::target::{Count, Microbatches, Rows, Taken, Target};
use super::super::walk::{Result, unsupported};
use super::array::Array;
use super::builder::Builder;
use super::loops::Entry;
use super::timetable::slots;

/// Writes what a device runs.
pub(super) struct Writer<'p> {
    pub(super) plan: &'p PlanJson,
    pub(super) devices: Devices<'p>,
    pub(super) builder: Builder,
    /// What each device computes once, before all steps: its places along axes.
    pub(super) first: String,
    /// Places along axes, by these.
    pub(super) places: IndexMap<Vec<String>, Array>,
    /// The arguments inside, by the names of values.
    pub(super) given: IndexMap<String, Array>,
    /// Inside the stages of a pipeline, the dimensions that are shorter, and by what.
    pub(super) rows: Option<(IndexSet<String>, u64)>,
    /// The name of the value that the last operation of a step made, which nothing has read yet.
    made: Option<String>,
    /// The number of collectives, which tells their channels apart.
    pub(super) channels: u64,
}

/// The names of dimensions in order.
pub(super) fn names(of: &TensorJson) -> Vec<&str> {
    of.dims.iter().map(|dim| dim.dim.as_str()).collect()
}

impl<'p> Writer<'p> {
    pub(super) fn new(plan: &'p PlanJson) -> Self {
        Self {
            plan,
            devices: Devices::of(plan),
            builder: Builder::indented(6),
            first: String::new(),
            places: IndexMap::new(),
            given: IndexMap::new(),
            rows: None,
            made: None,
            channels: 0,
        }
    }

    pub(super) fn dtype(&self, value: &str) -> DType {
        dtype(self.plan, value)
    }

    /// The size of a dimension on all devices.
    pub(super) fn size(&self, dim: &str) -> u64 {
        self.plan.dims.iter().find(|other| other.dim == dim).map_or(1, |dim| dim.size)
    }

    /// The lengths of a device's block.
    pub(super) fn shape(&self, of: &TensorJson) -> Vec<u64> {
        of.dims.iter().map(|dim| self.length(of, &dim.dim)).collect()
    }

    /// The length of a device's block along a dimension.
    pub(super) fn length(&self, of: &TensorJson, dim: &str) -> u64 {
        let rows = self.rows.as_ref().filter(|(rows, _)| rows.contains(dim));
        let split = of.dims.iter().find(|other| other.dim == dim);
        let ways = split.map_or(1, |dim| self.devices.ways(&dim.axes));
        self.size(dim) / rows.map_or(1, |(_, count)| *count) / ways
    }

    /// A length that depends on a block.
    pub(super) fn count(&self, count: Count) -> u64 {
        let stages = |block: usize| self.plan.blocks[block].pipeline.as_ref();
        match count {
            Count::Trips(block) => self.plan.blocks[block].count,
            Count::Slots(block) => stages(block).map_or(1, |stages| slots(stages)[0].len() as u64),
            Count::Microbatches(block) => stages(block).map_or(1, |stages| stages.microbatches),
        }
    }

    /// The number of a device along axes, the first of them the major one.
    pub(super) fn place(&mut self, axes: &[String]) -> Array {
        if let Some(known) = self.places.get(axes) {
            return known.clone();
        }
        if self.devices.ways(axes) == 1 {
            return self.builder.index(0);
        }
        let text = std::mem::take(&mut self.builder.text);
        let indent = std::mem::replace(&mut self.builder.indent, 6);
        let b = &mut self.builder;
        let id = b.define(&[], DType::Int32, "stablehlo.partition_id : tensor<ui32>");
        let text_of = format!("stablehlo.convert {} : (tensor<ui32>) -> tensor<i32>", id.name);
        let id = b.define(&[], DType::Int32, &text_of);
        let mut number = b.index(0);
        for axis in axes {
            let [stride, size] = self.devices.stride(axis);
            let above = b.with("divide", &id, stride as f64);
            let place = b.with("remainder", &above, size as f64);
            let before = b.with("multiply", &number, size as f64);
            number = b.binary("add", &before, &place);
        }
        let own = std::mem::replace(&mut self.builder.text, text);
        self.first += &own;
        self.builder.indent = indent;
        self.places.insert(axes.to_vec(), number.clone());
        number
    }

    /// Where a device's block begins along a dimension, if not at zero.
    pub(super) fn start(&mut self, of: &TensorJson, dim: &str) -> Option<Array> {
        let split = of.dims.iter().find(|other| other.dim == dim)?.axes.clone();
        if split.is_empty() {
            return None;
        }
        let place = self.place(&split);
        Some(self.builder.with("multiply", &place, self.length(of, dim) as f64))
    }

    /// An array with its dimensions in another order; those that it lacks stay away.
    pub(super) fn reordered(&mut self, of: &Array, dims: &[&str], order: &[&str]) -> Array {
        let present = order.iter().filter_map(|dim| dims.iter().position(|other| other == dim));
        self.builder.transpose(of, &present.collect::<Vec<_>>())
    }

    /// An array in the order and shape of another, repeated along dimensions that it lacks.
    pub(super) fn aligned(
        &mut self,
        of: &Array,
        dims: &[&str],
        (order, shape): (&[&str], &[u64]),
    ) -> Array {
        let turned = self.reordered(of, dims, order);
        let places = order.iter().enumerate().filter(|(_, dim)| dims.contains(dim));
        let places: Vec<usize> = places.map(|(place, _)| place).collect();
        self.builder.broadcast(&turned, shape, &places)
    }

    /// A step's result, in the type and shape that the plan has for it.
    fn checked(&mut self, step: &StepJson, made: &Array) -> Result<Array> {
        let made = self.builder.convert(made, self.dtype(&step.value));
        if made.shape != self.shape(&step.result) {
            return unsupported(&step.value, "an operation on blocks of these lengths");
        }
        self.made = Some(made.name.clone());
        Ok(made)
    }

    fn begin(&mut self, step: &StepJson) {
        self.builder.line(&format!("// {}", step.text.trim()));
    }
}

/// The type of a value.
pub(super) fn dtype(plan: &PlanJson, value: &str) -> DType {
    let value = plan.values.iter().find(|other| other.value == value);
    value.and_then(|value| DType::from_name(&value.dtype)).unwrap_or(DType::Bf16)
}

impl Target for Writer<'_> {
    type Array = Array;
    type Entry = Entry;

    fn declared(&mut self, value: &ValueJson, _: &TensorJson) -> Array {
        self.of_layers(&value.value)
    }

    fn of_layers(&self, value: &str) -> Array {
        let unknown = || Array { name: "%_".to_owned(), shape: Vec::new(), dtype: DType::F32 };
        self.given.get(value).cloned().unwrap_or_else(unknown)
    }

    fn local(&mut self, step: &StepJson, of: &[Array]) -> Result<Array> {
        self.begin(step);
        let made = self.computed(step, of)?;
        let is_new = !of.contains(&made);
        let made = self.checked(step, &made)?;
        self.made = self.made.take().filter(|_| is_new);
        Ok(made)
    }

    fn collective(&mut self, step: &StepJson, operation: &Operation, of: &Array) -> Result<Array> {
        self.begin(step);
        let made = self.communicated(step, operation, of)?;
        let is_new = made != *of;
        let made = self.checked(step, &made)?;
        self.made = self.made.take().filter(|_| is_new);
        Ok(made)
    }

    fn joined(&mut self, step: &StepJson, of: &Array, from: &str, to: &str) -> Array {
        let place = super::super::walk::collectives::place_of(&step.operands[0], from);
        let all = self.joined_rows(of, place);
        self.renamed(step, &all, Some(from), to)
    }

    fn stacked(&mut self, step: &StepJson, of: &Array, from: Option<&str>, to: &str) -> Array {
        let Some(from) = from else { return self.renamed(step, of, None, to) };
        let place = super::super::walk::collectives::place_of(&step.operands[0], from);
        let moved: Vec<usize> = (1..=place).chain([0]).chain(place + 1..of.rank()).collect();
        let moved = self.builder.transpose(of, &moved);
        let mut shape = moved.shape.clone();
        let count = shape.remove(place);
        shape[place] *= count;
        let all = self.builder.reshape(&moved, &shape);
        self.renamed(step, &all, Some(from), to)
    }

    fn assigned(
        &mut self,
        step: &StepJson,
        mut made: Array,
        old: Option<Array>,
        is_first: bool,
    ) -> Array {
        if self.made.take().is_some_and(|name| name == made.name) {
            let suffix = match step.operation {
                _ if is_first && old.is_none() => "",
                Some(Operation::AllGather { .. }) => "_gathered",
                Some(Operation::ReduceScatter { .. }) => "_scattered",
                Some(Operation::AllReduce { .. }) => "_reduced",
                Some(Operation::AllToAll { .. } | Operation::Permute { .. }) => "_moved",
                Some(Operation::Slice { .. }) => "_part",
                _ => "",
            };
            self.builder.rename(&mut made, &format!("{}{suffix}", step.value));
        }
        made
    }

    fn zeros(&mut self, first: &[Count], of: &TensorJson) -> Result<Array> {
        let mut shape: Vec<u64> = first.iter().map(|&count| self.count(count)).collect();
        shape.extend(self.shape(of));
        Ok(self.builder.constant(0.0, &shape, self.dtype(&of.value)))
    }

    fn plus(&mut self, a: &Array, b: &Array) -> Array {
        self.builder.binary("add", a, b)
    }

    fn named_like(&mut self, like: &Array, name: &str) -> Array {
        self.builder.declared(name, &like.shape, like.dtype)
    }

    fn named_part(&mut self, all: &Array, name: &str, depth: usize) -> Array {
        self.builder.declared(name, all.shape.get(depth..).unwrap_or_default(), all.dtype)
    }

    fn named_all(&mut self, own: &Array, name: &str, first: &[Count]) -> Array {
        let mut shape: Vec<u64> = first.iter().map(|&count| self.count(count)).collect();
        shape.extend(&own.shape);
        self.builder.declared(name, &shape, own.dtype)
    }

    fn rows(
        &mut self,
        _: &StepJson,
        of: &Array,
        (place, rows): (usize, Rows),
        block: usize,
    ) -> Array {
        let count = self.plan.blocks[block].count;
        match rows {
            Rows::Microbatch => self.split_rows(of, count, place),
            Rows::Chunk => self.split_chunks(of, count, place),
            Rows::Element => {
                let first = std::iter::once(place).chain((0..of.rank()).filter(|&it| it != place));
                self.builder.transpose(of, &first.collect::<Vec<_>>())
            }
        }
    }

    fn microbatches(&mut self, of: &Array, rows: &Microbatches<'_>) -> Array {
        let stages = self.plan.blocks.iter().filter_map(|block| block.pipeline.as_ref());
        let count = stages.filter(|stages| stages.batch == rows.batch).map(|it| it.microbatches);
        let count = count.max().unwrap_or(1);
        if !rows.by_layer {
            return self.split_rows(of, count, rows.place);
        }
        let parts = self.split_rows(of, count, rows.place + 1);
        let places: Vec<usize> = [1, 0].into_iter().chain(2..parts.rank()).collect();
        self.builder.transpose(&parts, &places)
    }

    fn taken(&mut self, all: &Array, taken: Taken, block: usize) -> Array {
        match taken {
            Taken::All => all.clone(),
            Taken::Last { reverse } => {
                let last = if reverse { 0 } else { all.shape[0] - 1 };
                let one = self.builder.slice(all, 0, [last, last + 1]);
                let shape = one.shape[1..].to_vec();
                self.builder.reshape(&one, &shape)
            }
            Taken::SumOfLayers => self.sum_of_layers(all, block),
            Taken::Joined(place) => self.joined_rows(all, place),
            Taken::SumJoined(place) => {
                let sum = self.sum_of_layers(all, block);
                self.joined_rows(&sum, place)
            }
        }
    }

    fn held(&mut self, made: Array, _: &str) -> Array {
        made
    }

    fn enter_loop(&mut self, _: usize, _: bool) -> Entry {
        Entry::default()
    }

    fn enter_stages(&mut self, block: usize, rows: &IndexSet<String>) -> Entry {
        Entry {
            rows: Some((rows.clone(), self.count(Count::Microbatches(block)))),
            ..Entry::default()
        }
    }

    fn begin_body(&mut self, entry: &mut Entry) {
        self.begin_iteration(entry);
    }

    fn write_loop(&mut self, entry: Entry, of: &Iterated<'_, Array>) -> Result<()> {
        self.iterated(entry, of);
        Ok(())
    }

    fn write_stages(
        &mut self,
        entry: Entry,
        stages: &StagesJson,
        of: &Staged<'_, Array>,
    ) -> Result<()> {
        self.staged(entry, stages, of);
        Ok(())
    }
}

impl Writer<'_> {
    /// An array of a step's operand with one dimension under another name, or with one more first,
    /// in the order of the result.
    fn renamed(&mut self, step: &StepJson, of: &Array, from: Option<&str>, to: &str) -> Array {
        let own = names(&step.operands[0]);
        let dims: Vec<&str> = match from {
            Some(from) => own.into_iter().map(|dim| if dim == from { to } else { dim }).collect(),
            None => std::iter::once(to).chain(own).collect(),
        };
        self.reordered(of, &dims, &names(&step.result))
    }

    /// The rows of each of some microbatches, which come first: every so-many-th row.
    fn split_rows(&mut self, of: &Array, count: u64, place: usize) -> Array {
        let mut shape = of.shape.clone();
        shape[place] /= count;
        shape.insert(place + 1, count);
        let split = self.builder.reshape(of, &shape);
        let first =
            std::iter::once(place + 1).chain((0..shape.len()).filter(|&it| it != place + 1));
        self.builder.transpose(&split, &first.collect::<Vec<_>>())
    }

    /// The chunks of a dimension, which come first.
    fn split_chunks(&mut self, of: &Array, count: u64, place: usize) -> Array {
        let mut shape = of.shape.clone();
        shape[place] /= count;
        shape.insert(place, count);
        let split = self.builder.reshape(of, &shape);
        let first = std::iter::once(place).chain((0..shape.len()).filter(|&it| it != place));
        self.builder.transpose(&split, &first.collect::<Vec<_>>())
    }

    /// The rows of all microbatches, which come first.
    fn joined_rows(&mut self, of: &Array, place: usize) -> Array {
        let moved: Vec<usize> = (1..=place + 1).chain([0]).chain(place + 2..of.rank()).collect();
        let moved = self.builder.transpose(of, &moved);
        let mut shape = moved.shape.clone();
        let count = shape.remove(place + 1);
        shape[place] *= count;
        self.builder.reshape(&moved, &shape)
    }

    /// The layers around a value: their counts, and the stage axis of those on stages.
    pub(super) fn layers(&self, value: &ValueJson) -> Vec<(u64, Option<&StagesJson>)> {
        let around = value.block.map(|block| loops(self.plan, block)).unwrap_or_default();
        let one = |block: usize| {
            let of = &self.plan.blocks[block];
            (of.count, of.pipeline.as_ref())
        };
        around.into_iter().map(one).collect()
    }
}
