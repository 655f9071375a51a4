//! Collectives, with the groups of devices that communicate.

use std::slice;

use super::super::json::{Operation, StepJson};
use super::super::walk::collectives::{Cut, Exchange, by_place, gathered, listed, moved};
use super::super::walk::{Result, unsupported};
use super::array::{Array, tensor};
use super::builder::list;
use super::writer::Writer;

impl Writer<'_> {
    /// A collective on an operand.
    pub(super) fn communicated(
        &mut self,
        step: &StepJson,
        operation: &Operation,
        of: &Array,
    ) -> Result<Array> {
        let from = &step.operands[0];
        let mut of = of.clone();
        if step.again {
            // The compiler would merge the two, and keep the first result.
            of = self.builder.unary("optimization_barrier", &of);
        }
        for cut in Cut::of(step) {
            of = self.own_parts(&of, &cut);
        }
        match operation {
            Operation::AllGather { axes } => of = self.gathered(of, gathered(from, axes)),
            Operation::AllReduce { axes, reduction } => {
                of = self.all_reduce(&of, axes, combined(reduction));
            }
            Operation::ReduceScatter { axes, into, reduction } => {
                let (axes, into) = moved(from, axes, into);
                of = self.scattered(of, by_place(from, &axes, &into), combined(reduction));
            }
            Operation::AllToAll { axes, into } => {
                of = self.exchanged(&of, step, &moved(from, axes, into).0);
            }
            Operation::Permute { axes } => {
                let pairs = self.devices.relabelled(step, axes);
                of = self.permuted(&of, &pairs);
            }
            Operation::Slice { axes, into } => {
                for (place, over) in by_place(from, axes, into) {
                    of = self.own_part(&of, place, &over);
                }
            }
            Operation::Unreduce { axes } => {
                let place = self.place(axes);
                let zero = self.builder.index(0);
                let is_first = self.builder.compare("EQ", &place, &zero);
                let nothing = self.builder.like(&of, 0.0);
                of = self.builder.select(&is_first, &of, &nothing);
            }
            _ => return unsupported(&step.value, "this collective"),
        }
        Ok(of)
    }

    /// The attributes of a collective: its channel, and who takes part.
    fn groups(&mut self, axes: &[String]) -> String {
        let groups = self.devices.groups(axes);
        let (count, size) = (groups.len(), self.devices.ways(axes));
        let groups = list(groups.into_iter().map(list));
        self.channels += 1;
        format!(
            "channel_handle = #stablehlo.channel_handle<handle = {}, type = 1>, replica_groups = \
             dense<{groups}> : tensor<{count}x{size}xi64>, use_global_device_ids",
            self.channels
        )
    }

    /// Blocks side by side along dimensions, by one AllGather.
    fn gathered(&mut self, of: Array, split: Vec<(usize, Vec<String>)>) -> Array {
        match split.as_slice() {
            [] => of,
            [(place, axes)] => self.all_gather(&of, *place, axes),
            _ => {
                let (axes, places) = listed(split);
                let shape: Vec<u64> = [&[1], of.shape.as_slice()].concat();
                let one = self.builder.reshape(&of, &shape);
                let blocks = self.all_gather(&one, 0, &axes);
                self.side_by_side(&blocks, &axes, &places)
            }
        }
    }

    /// A device's blocks along dimensions of what all combine, by one ReduceScatter.
    fn scattered(&mut self, of: Array, split: Vec<(usize, Vec<String>)>, how: &str) -> Array {
        match split.as_slice() {
            [] => of,
            [(place, axes)] => self.reduce_scatter(&of, *place, axes, how),
            _ => {
                let (axes, places) = listed(split);
                let blocks = self.blocks(&of, &axes, &places);
                let one = self.reduce_scatter(&blocks, 0, &axes, how);
                let shape = one.shape[1..].to_vec();
                self.builder.reshape(&one, &shape)
            }
        }
    }

    /// The blocks for all devices along axes, the first dimension; each axis splits one of the
    /// dimensions at these places.
    fn blocks(&mut self, of: &Array, axes: &[String], places: &[usize]) -> Array {
        // The dimensions of each place: one for each axis, and what is left.
        let (mut shape, mut first, mut rest) = (Vec::new(), vec![0; axes.len()], Vec::new());
        for (place, size) in of.shape.iter().enumerate() {
            let mut size = *size;
            for (number, axis) in axes.iter().enumerate().filter(|(n, _)| places[*n] == place) {
                let ways = self.devices.ways(std::slice::from_ref(axis));
                first[number] = shape.len();
                shape.push(ways);
                size /= ways;
            }
            rest.push(shape.len());
            shape.push(size);
        }
        let parts = self.builder.reshape(of, &shape);
        let parts = self.builder.transpose(&parts, &[first, rest].concat());
        let shape = [&[self.devices.ways(axes)], &parts.shape[axes.len()..]].concat();
        self.builder.reshape(&parts, &shape)
    }

    /// The blocks of all devices along axes as one array: the inverse of `blocks`.
    fn side_by_side(&mut self, of: &Array, axes: &[String], places: &[usize]) -> Array {
        let ways = |axis: &String| self.devices.ways(std::slice::from_ref(axis));
        let ways: Vec<u64> = axes.iter().map(ways).collect();
        let parts = [ways.as_slice(), &of.shape[1..]].concat();
        let (mut order, mut shape) = (Vec::new(), of.shape[1..].to_vec());
        for (place, size) in shape.iter_mut().enumerate() {
            for number in (0..axes.len()).filter(|number| places[*number] == place) {
                order.push(number);
                *size *= ways[number];
            }
            order.push(axes.len() + place);
        }
        let parts = self.builder.reshape(of, &parts);
        let parts = self.builder.transpose(&parts, &order);
        self.builder.reshape(&parts, &shape)
    }

    fn all_gather(&mut self, of: &Array, place: usize, axes: &[String]) -> Array {
        let groups = self.groups(axes);
        let mut shape = of.shape.clone();
        shape[place] *= self.devices.ways(axes);
        let ty = tensor(&shape, of.dtype);
        let text = format!(
            "\"stablehlo.all_gather\"({}) <{{all_gather_dim = {place} : i64, {groups}}}> : ({}) \
             -> {ty}",
            of.name,
            of.ty()
        );
        self.builder.define(&shape, of.dtype, &text)
    }

    fn all_reduce(&mut self, of: &Array, axes: &[String], how: &str) -> Array {
        let groups = self.groups(axes);
        let text = format!("\"stablehlo.all_reduce\"({}) <{{{groups}}}> (", of.name);
        let types = format!("({}) -> {}", of.ty(), of.ty());
        self.builder.with_region(of, &text, how, &types)
    }

    fn reduce_scatter(&mut self, of: &Array, place: usize, axes: &[String], how: &str) -> Array {
        let groups = self.groups(axes);
        let mut result = of.clone();
        result.shape[place] /= self.devices.ways(axes);
        let text = format!(
            "\"stablehlo.reduce_scatter\"({}) <{{scatter_dimension = {place} : i64, {groups}}}> (",
            of.name
        );
        let types = format!("({}) -> {}", of.ty(), result.ty());
        self.builder.with_region(&result, &text, how, &types)
    }

    /// An AllToAll: of a run of axes from one dimension to another, or of all parts at once, with
    /// those of a device side by side before and after.
    fn exchanged(&mut self, of: &Array, step: &StepJson, axes: &[String]) -> Array {
        let exchange = Exchange::of(step);
        if let Some(run) = exchange.run() {
            return self.all_to_all(of, [run.to, run.from], axes);
        }
        let (mut shape, mut place) = (Vec::new(), vec![0; axes.len()]);
        let number = |axis: &String| axes.iter().position(|other| other == axis).unwrap_or(0);
        for (length, split) in of.shape.iter().zip(&exchange.gained) {
            for axis in split {
                place[number(axis)] = shape.len();
                shape.push(self.devices.ways(slice::from_ref(axis)));
            }
            shape.push(length / self.devices.ways(split));
        }
        let rest = (0..shape.len()).filter(|at| !place.contains(at));
        let order: Vec<usize> = place.iter().copied().chain(rest).collect();
        let parts = self.builder.reshape(of, &shape);
        let parts = self.builder.transpose(&parts, &order);
        let (shape, ways) = (parts.shape.clone(), self.devices.ways(axes));
        let block = &shape[axes.len()..];
        let flat = self.builder.reshape(&parts, &[&[ways], block].concat());
        let flat = self.all_to_all(&flat, [0, 0], axes);
        let parts = self.builder.reshape(&flat, &shape);
        let with_lost = |(dim, merged): (usize, &Vec<String>)| {
            merged.iter().map(number).chain([axes.len() + dim]).collect::<Vec<_>>()
        };
        let order: Vec<usize> = exchange.lost.iter().enumerate().flat_map(with_lost).collect();
        let lengths: Vec<u64> = block
            .iter()
            .zip(&exchange.lost)
            .map(|(length, merged)| length * self.devices.ways(merged))
            .collect();
        let parts = self.builder.transpose(&parts, &order);
        self.builder.reshape(&parts, &lengths)
    }

    fn all_to_all(&mut self, of: &Array, [to, from]: [usize; 2], axes: &[String]) -> Array {
        let groups = self.groups(axes).replace(", use_global_device_ids", "");
        let ways = self.devices.ways(axes);
        let mut shape = of.shape.clone();
        shape[to] /= ways;
        shape[from] *= ways;
        let ty = tensor(&shape, of.dtype);
        let text = format!(
            "\"stablehlo.all_to_all\"({}) <{{split_dimension = {to} : i64, concat_dimension = \
             {from} : i64, split_count = {ways} : i64, {groups}}}> : ({}) -> {ty}",
            of.name,
            of.ty()
        );
        self.builder.define(&shape, of.dtype, &text)
    }

    /// Each device sends what it has to another.
    pub(super) fn permuted(&mut self, of: &Array, pairs: &[[u64; 2]]) -> Array {
        self.channels += 1;
        let text = format!(
            "\"stablehlo.collective_permute\"({}) <{{channel_handle = \
             #stablehlo.channel_handle<handle = {}, type = 1>, source_target_pairs = dense<{}> : \
             tensor<{}x2xi64>}}> : ({}) -> {}",
            of.name,
            self.channels,
            list(pairs.iter().map(|pair| list(*pair))),
            pairs.len(),
            of.ty(),
            of.ty()
        );
        self.builder.define(&of.shape, of.dtype, &text)
    }

    /// A device's parts of a dimension along axes that cut it, not along the others.
    fn own_parts(&mut self, of: &Array, Cut { place, axes, own }: &Cut) -> Array {
        let ways: Vec<u64> =
            axes.iter().map(|axis| self.devices.ways(slice::from_ref(axis))).collect();
        let rest = of.shape[*place] / ways.iter().product::<u64>();
        let (before, after) = (&of.shape[..*place], &of.shape[place + 1..]);
        let mut parts =
            self.builder.reshape(of, &[before, ways.as_slice(), &[rest], after].concat());
        let mut length = of.shape[*place];
        for (number, axis) in axes.iter().enumerate().filter(|(_, axis)| own.contains(axis)) {
            let index = self.place(slice::from_ref(axis));
            parts = self.builder.part_along(&parts, place + number, &index, 1);
            length /= ways[number];
        }
        self.builder.reshape(&parts, &[before, &[length], after].concat())
    }

    /// A device's part of what it has complete.
    fn own_part(&mut self, of: &Array, place: usize, axes: &[String]) -> Array {
        let length = of.shape[place] / self.devices.ways(axes);
        let number = self.place(axes);
        let start = self.builder.with("multiply", &number, length as f64);
        self.builder.part_along(of, place, &start, length)
    }
}

/// The operation that combines two numbers.
fn combined(reduction: &str) -> &'static str {
    match reduction {
        "max" => "maximum",
        "min" => "minimum",
        _ => "add",
    }
}
