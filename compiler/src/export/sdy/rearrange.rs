//! Rearrangements, and functions of all elements along a dimension.

use shardwise_ir::dtype::DType;

use super::super::json::{Operation, StepJson};
use super::super::walk::collectives::place_of;
use super::super::walk::{Result, unsupported};
use super::array::{Array, tensor};
use super::builder::list;
use super::writer::{Writer, names};

impl Writer<'_> {
    /// A step's first operand, of which one dimension has another name, in the result's order.
    fn replaced(&mut self, step: &StepJson, of: &Array, (old, new): (&str, &str)) -> Array {
        let dims = names(&step.operands[0]).into_iter();
        let dims: Vec<&str> = dims.map(|dim| if dim == old { new } else { dim }).collect();
        self.reordered(of, &dims, &names(&step.result))
    }

    pub(super) fn rearranged(
        &mut self,
        step: &StepJson,
        operation: &Operation,
        of: &[Array],
    ) -> Result<Array> {
        match operation {
            Operation::Rename { pairs } => {
                let name = |dim: &str| {
                    let pair = pairs.iter().find(|(old, _)| old == dim);
                    pair.map_or_else(|| dim.to_owned(), |(_, new)| new.clone())
                };
                let dims: Vec<String> = names(&step.operands[0]).into_iter().map(name).collect();
                let dims: Vec<&str> = dims.iter().map(String::as_str).collect();
                Ok(self.reordered(&of[0], &dims, &names(&step.result)))
            }
            Operation::Reshape { groups } => Ok(self.reshaped(step, groups, &of[0])),
            Operation::Window { from, to, start } => {
                let place = place_of(&step.operands[0], from);
                let part = self.builder.slice(&of[0], place, [*start, start + self.size(to)]);
                Ok(self.replaced(step, &part, (from, to)))
            }
            Operation::Pad { from, to, start } => {
                let place = place_of(&step.operands[0], from);
                let after = self.size(to) - start - of[0].shape[place];
                let padded = self.padded(&of[0], place, [*start, after]);
                Ok(self.replaced(step, &padded, (from, to)))
            }
            Operation::Concat { from, to } => Ok(self.concatenated(step, from, to, of)),
            Operation::Roll { dim, distance } => Ok(self.rolled(step, dim, *distance, &of[0])),
            Operation::Along { function, from, to } => {
                let made = self.along(step, function, (from, to), &of[0]);
                Ok(self.replaced(step, &made, (from, to)))
            }
            Operation::Route { tokens, experts, capacity, choices, .. } => {
                Ok(self.route(step, [tokens, experts, capacity], *choices, &of[0]))
            }
            Operation::Windows { .. } | Operation::Overlap { .. } => {
                self.convolved(step, operation, &of[0])
            }
            other => unsupported(&step.value, format!("`{}` here", other.kind())),
        }
    }

    /// Zeros around an array along one dimension.
    pub(super) fn padded(&mut self, of: &Array, place: usize, [before, after]: [u64; 2]) -> Array {
        let zero = self.builder.constant(0.0, &[], of.dtype);
        let widths = |own: u64| list((0..of.rank()).map(|it| if it == place { own } else { 0 }));
        let mut shape = of.shape.clone();
        shape[place] += before + after;
        let text = format!(
            "stablehlo.pad {}, {}, low = {}, high = {}, interior = {} : ({}, {}) -> {}",
            of.name,
            zero.name,
            widths(before),
            widths(after),
            widths(0),
            of.ty(),
            zero.ty(),
            tensor(&shape, of.dtype)
        );
        self.builder.define(&shape, of.dtype, &text)
    }

    fn concatenated(&mut self, step: &StepJson, from: &[String], to: &str, of: &[Array]) -> Array {
        let (order, planned) = (names(&step.result), self.dtype(&step.value));
        let mut parts = Vec::new();
        for (number, dim) in from.iter().enumerate() {
            let dims: Vec<&str> = names(&step.operands[number])
                .into_iter()
                .map(|other| if other == dim { to } else { other })
                .collect();
            let part = self.builder.convert(&of[number], planned);
            parts.push(self.reordered(&part, &dims, &order));
        }
        self.builder.concatenate(&parts, place_of(&step.result, to))
    }

    /// Elements so many places further along: from the devices that have them.
    fn rolled(&mut self, step: &StepJson, dim: &str, distance: u64, of: &Array) -> Array {
        let place = place_of(&step.operands[0], dim);
        let split = step.operands[0].dims[place].axes.clone();
        let (length, ways) = (of.shape[place], self.devices.ways(&split));
        let distance = distance % (length * ways).max(1);
        let (blocks, rest) = (distance / length, distance % length);
        let near = self.builder.slice(of, place, [0, length - rest]);
        let near = self.shifted_from(&near, &split, blocks);
        if rest == 0 {
            return self.reordered(&near, &names(&step.operands[0]), &names(&step.result));
        }
        let far = self.builder.slice(of, place, [length - rest, length]);
        let far = self.shifted_from(&far, &split, blocks + 1);
        let all = self.builder.concatenate(&[far, near], place);
        self.reordered(&all, &names(&step.operands[0]), &names(&step.result))
    }

    /// What the device so many before this one along axes has.
    fn shifted_from(&mut self, of: &Array, axes: &[String], by: u64) -> Array {
        let ways = self.devices.ways(axes);
        if by.is_multiple_of(ways) {
            return of.clone();
        }
        let pairs = self.devices.shifted(axes, by % ways);
        self.permuted(of, &pairs)
    }

    fn along(
        &mut self,
        step: &StepJson,
        function: &str,
        (from, to): (&str, &str),
        of: &Array,
    ) -> Array {
        let place = place_of(&step.operands[0], from);
        let count = self.size(to);
        match function {
            "cumsum" | "revcumsum" => {
                let of = self.builder.convert(of, self.dtype(&step.value));
                self.builder.running_sum(&of, place, function == "revcumsum")
            }
            "topk" => {
                let [sorted, _] = self.sorted(of, place);
                self.builder.slice(&sorted, place, [0, count])
            }
            _ => {
                let [_, places] = self.sorted(of, place);
                self.builder.slice(&places, place, [0, count])
            }
        }
    }

    /// Elements along a dimension from the largest to the smallest, and where each was; equal ones
    /// in their order.
    fn sorted(&mut self, of: &Array, place: usize) -> [Array; 2] {
        let index = self.builder.iota(&of.shape, place);
        let (name, ty) = (self.builder.fresh(), tensor(&[], of.dtype));
        let names: Vec<String> = (0..5).map(|_| self.builder.fresh()).collect();
        let (x, y, i, j, p) = (&names[0], &names[1], &names[2], &names[3], &names[4]);
        let b = &mut self.builder;
        b.line(&format!(
            "{name}:2 = \"stablehlo.sort\"({}, {}) <{{dimension = {place} : i64, is_stable = \
             true}}> ({{",
            of.name, index.name
        ));
        b.line(&format!("^bb0({x}: {ty}, {y}: {ty}, {i}: tensor<i32>, {j}: tensor<i32>):"));
        b.indent += 2;
        b.line(&format!("{p} = stablehlo.compare GT, {x}, {y} : ({ty}, {ty}) -> tensor<i1>"));
        b.line(&format!("stablehlo.return {p} : tensor<i1>"));
        b.indent -= 2;
        let types = format!("{}, {}", of.ty(), index.ty());
        b.line(&format!("}}) : ({types}) -> ({types})"));
        let result =
            |place: usize, like: &Array| Array { name: format!("{name}#{place}"), ..like.clone() };
        [result(0, of), result(1, &index)]
    }

    /// One where a token has a slot of one of the experts with its largest scores.
    fn route(
        &mut self,
        step: &StepJson,
        [tokens, experts, capacity]: [&str; 3],
        choices: u64,
        of: &Array,
    ) -> Array {
        let own = names(&step.operands[0]);
        let groups = own.iter().copied().filter(|dim| *dim != tokens && *dim != experts);
        let mut dims: Vec<&str> = groups.chain([tokens, experts]).collect();
        let scores = self.reordered(of, &own, &dims);
        let (last, count) = (scores.rank() - 1, scores.shape[scores.rank() - 1]);
        let [_, ranked] = self.sorted(&scores, last);
        let chosen = self.builder.slice(&ranked, last, [0, choices]);
        let chosen = self.one_hot(&chosen, count, DType::Int32);
        let chosen = self.builder.reduce(&chosen, "add", &[last]);
        let so_far = self.builder.running_sum(&chosen, last - 1, false);
        let slot = self.builder.with("subtract", &so_far, 1.0);
        let slots = self.size(capacity);
        let hot = self.one_hot(&slot, slots, DType::Int32);
        let places: Vec<usize> = (0..chosen.rank()).collect();
        let chosen = self.builder.broadcast(&chosen, &hot.shape.clone(), &places);
        let made = self.builder.binary("multiply", &chosen, &hot);
        dims.push(capacity);
        self.reordered(&made, &dims, &names(&step.result))
    }

    /// Each group of dimensions side by side, then apart again.
    fn reshaped(
        &mut self,
        step: &StepJson,
        groups: &[(Vec<String>, Vec<String>)],
        of: &Array,
    ) -> Array {
        let from = names(&step.operands[0]);
        let gone: Vec<&str> = groups.iter().flat_map(|(old, _)| old).map(String::as_str).collect();
        // Each group stands where its first dimension stands.
        let group =
            |dim: &str| groups.iter().find(|(old, _)| old.first().is_some_and(|it| it == dim));
        let each = |then: bool| {
            let mut dims: Vec<&str> = Vec::new();
            for &dim in &from {
                match group(dim) {
                    Some((old, new)) => {
                        dims.extend((if then { new } else { old }).iter().map(String::as_str));
                    }
                    None if gone.contains(&dim) => {}
                    None => dims.push(dim),
                }
            }
            dims
        };
        let (before, after) = (each(false), each(true));
        let lengths: Vec<u64> = after.iter().map(|dim| self.length(&step.result, dim)).collect();
        let turned = self.reordered(of, &from, &before);
        let apart = self.builder.reshape(&turned, &lengths);
        self.reordered(&apart, &after, &names(&step.result))
    }
}
