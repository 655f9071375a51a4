//! Collectives, with the groups of devices that communicate.

use super::super::json::{Operation, StepJson};
use super::super::walk::collectives::{by_dim, gathered, place_of, source};
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
        match operation {
            Operation::AllGather { axes } => {
                for (place, gone) in gathered(from, axes) {
                    of = self.all_gather(&of, place, &gone);
                }
            }
            Operation::AllReduce { axes, reduction } => {
                of = self.all_reduce(&of, axes, combined(reduction));
            }
            Operation::ReduceScatter { axes, into, reduction } => {
                for (dim, over) in by_dim(axes, into) {
                    let place = place_of(from, dim);
                    of = self.reduce_scatter(&of, place, &over, combined(reduction));
                }
            }
            Operation::AllToAll { axes, into } => {
                for (dim, moved) in by_dim(axes, into) {
                    let places = [place_of(from, dim), source(step, &moved)?];
                    of = self.all_to_all(&of, places, &moved);
                }
            }
            Operation::Permute { axes } => {
                let pairs = self.devices.relabelled(step, axes);
                of = self.permuted(&of, &pairs);
            }
            Operation::Slice { axes, into } => {
                for (dim, over) in by_dim(axes, into) {
                    of = self.own_part(&of, place_of(from, dim), &over);
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
