//! Rearrangements, and functions of all elements along a dimension, as expressions.

use super::super::json::{Operation, StepJson};
use super::communication::axes;
use super::expression::{Expressions, aligned, names, number_of};
use super::names::identifier;
use super::{Result, unsupported};

/// The first operand of a rearrangement, and the order of dimensions of its result.
struct Moved<'s> {
    step: &'s StepJson,
    dims: Vec<&'s str>,
    operand: &'s str,
}

impl<'s> Moved<'s> {
    fn of(step: &'s StepJson, operands: &'s [String]) -> Self {
        let dims = step.operands.first().map(names).unwrap_or_default();
        Self { step, dims, operand: operands.first().map_or("", String::as_str) }
    }

    fn place(&self, dim: &str) -> usize {
        self.dims.iter().position(|other| *other == dim).unwrap_or(0)
    }

    /// An array with these dimensions in the order of the result.
    fn turned(&self, text: &str, dims: &[&str]) -> String {
        aligned(text, dims, &names(&self.step.result))
    }

    /// The same where one of the operand's dimensions has become another.
    fn replaced(&self, text: &str, old: &str, new: &str) -> String {
        let dims: Vec<&str> =
            self.dims.iter().map(|&dim| if dim == old { new } else { dim }).collect();
        self.turned(text, &dims)
    }
}

fn size(dim: &str) -> String {
    format!("n.{}", identifier(dim))
}

impl Expressions<'_> {
    pub(super) fn rearranged(
        &mut self,
        step: &StepJson,
        operation: &Operation,
        of: &[String],
    ) -> Result {
        let moved = Moved::of(step, of);
        match operation {
            Operation::Rename { pairs } => Ok(renamed(&moved, pairs)),
            Operation::Reshape { groups } => Ok(self.reshaped(step, groups, moved.operand)),
            Operation::Window { from, to, start } => {
                let (axis, start) = (moved.place(from), self.offset(step, *start));
                let arguments = format!("{}, {start}, {}, {axis}", moved.operand, size(to));
                let call = format!("lax.dynamic_slice_in_dim({arguments})");
                Ok(moved.replaced(&call, from, to))
            }
            Operation::Pad { from, to, start } => {
                self.helper("pad");
                let (axis, start) = (moved.place(from), self.offset(step, *start));
                let call = format!("pad({}, {start}, {}, {axis})", moved.operand, size(to));
                Ok(moved.replaced(&call, from, to))
            }
            Operation::Concat { from, to } => Ok(concatenated(step, from, to, of)),
            Operation::Roll { dim, distance } => Ok(self.rolled(&moved, dim, *distance)),
            Operation::Along { function, from, to } => Ok(self.along(&moved, function, (from, to))),
            Operation::Route { tokens, experts, capacity, choices } => {
                self.helper("route");
                let groups =
                    moved.dims.iter().copied().filter(|dim| dim != tokens && dim != experts);
                let mut dims: Vec<&str> = groups.chain([tokens.as_str(), experts]).collect();
                let scores = aligned(moved.operand, &moved.dims, &dims);
                dims.push(capacity);
                Ok(moved.turned(&format!("route({scores}, {choices}, {})", size(capacity)), &dims))
            }
            other => unsupported(&step.value, format!("`{}` here", other.kind())),
        }
    }

    fn rolled(&mut self, moved: &Moved<'_>, dim: &str, distance: u64) -> String {
        let (axis, distance) = (moved.place(dim), self.offset(moved.step, distance));
        let split = &moved.step.operands[0].dims[axis].axes;
        if self.is_whole(split) {
            let call = format!("jnp.roll({}, {distance}, {axis})", moved.operand);
            return moved.turned(&call, &moved.dims);
        }
        self.helper("roll");
        let call = format!("roll({}, {distance}, {axis}, {})", moved.operand, axes(split));
        moved.turned(&call, &moved.dims)
    }

    fn along(&mut self, moved: &Moved<'_>, function: &str, (from, to): (&str, &str)) -> String {
        let (of, axis) = (moved.operand, moved.place(from));
        let call = match function {
            "cumsum" => format!("jnp.cumsum({of}, axis={axis})"),
            "revcumsum" => format!("lax.cumsum({of}, axis={axis}, reverse=True)"),
            other => {
                self.helper("top_k");
                let which = usize::from(other == "argtopk");
                format!("top_k({of}, {}, {axis})[{which}]", size(to))
            }
        };
        moved.replaced(&call, from, to)
    }

    fn reshaped(
        &mut self,
        step: &StepJson,
        groups: &[(Vec<String>, Vec<String>)],
        of: &str,
    ) -> String {
        let from = names(&step.operands[0]);
        let gone: Vec<&str> = groups.iter().flat_map(|(old, _)| old).map(String::as_str).collect();
        let kept: Vec<&str> = from.iter().copied().filter(|dim| !gone.contains(dim)).collect();
        // Where a group stands side by side already, nothing is moved.
        let new =
            |dim: &str| groups.iter().find(|(old, _)| old.first().is_some_and(|it| it == dim));
        let in_place: Vec<&str> = from
            .iter()
            .flat_map(|&dim| match new(dim) {
                Some((old, _)) => old.iter().map(String::as_str).collect(),
                None if gone.contains(&dim) => Vec::new(),
                None => vec![dim],
            })
            .collect();
        let before: Vec<&str> = if in_place == from {
            from.clone()
        } else {
            kept.into_iter().chain(gone.clone()).collect()
        };
        let after: Vec<&str> = before
            .iter()
            .flat_map(|&dim| match new(dim) {
                Some((_, then)) => then.iter().map(String::as_str).collect(),
                None if gone.contains(&dim) => Vec::new(),
                None => vec![dim],
            })
            .collect();
        let lengths: Vec<String> = after.iter().map(|dim| self.length(&step.result, dim)).collect();
        let call = format!("{}.reshape({})", aligned(of, &from, &before), lengths.join(", "));
        aligned(&call, &after, &names(&step.result))
    }
}

fn renamed(moved: &Moved<'_>, pairs: &[(String, String)]) -> String {
    let name = |dim: &&str| {
        let pair = pairs.iter().find(|(old, _)| old == dim);
        pair.map_or((*dim).to_owned(), |(_, new)| new.clone())
    };
    let dims: Vec<String> = moved.dims.iter().map(name).collect();
    moved.turned(moved.operand, &dims.iter().map(String::as_str).collect::<Vec<_>>())
}

fn concatenated(step: &StepJson, from: &[String], to: &str, of: &[String]) -> String {
    let order = names(&step.result);
    let part = |(number, dim): (usize, &String)| {
        let dims: Vec<&str> = names(&step.operands[number])
            .into_iter()
            .map(|other| if other == dim { to } else { other })
            .collect();
        aligned(&of[number], &dims, &order)
    };
    let parts: Vec<String> = from.iter().enumerate().map(part).collect();
    let axis = number_of(&step.result, to);
    format!("jnp.concatenate([{}], axis={axis})", parts.join(", "))
}
