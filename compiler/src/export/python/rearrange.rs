//! Rearrangements, and functions of all elements along a dimension, as expressions.

use super::super::json::{Operation, StepJson};
use super::super::walk::collectives::place_of;
use super::super::walk::{Result, unsupported};
use super::expression::{Expressions, names};
use super::names::identifier;

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
}

fn size(dim: &str) -> String {
    format!("n.{}", identifier(dim))
}

impl Expressions<'_> {
    /// An array with these dimensions in the order of the result.
    fn turned(&self, moved: &Moved<'_>, text: &str, dims: &[&str]) -> String {
        self.aligned(text, dims, &names(&moved.step.result))
    }

    /// The same where one of the operand's dimensions has become another.
    fn replaced(&self, moved: &Moved<'_>, text: &str, old: &str, new: &str) -> String {
        let dims: Vec<&str> =
            moved.dims.iter().map(|&dim| if dim == old { new } else { dim }).collect();
        self.turned(moved, text, &dims)
    }

    pub(super) fn rearranged(
        &mut self,
        step: &StepJson,
        operation: &Operation,
        of: &[String],
    ) -> Result {
        let moved = Moved::of(step, of);
        if let Some(call) = self.convolved(step, operation, moved.operand) {
            return Ok(call);
        }
        match operation {
            Operation::Rename { pairs } => Ok(self.renamed(&moved, pairs)),
            Operation::Reshape { groups } => Ok(self.reshaped(step, groups, moved.operand)),
            Operation::Window { from, to, start } => {
                let (axis, start) = (moved.place(from), self.offset(step, *start));
                let call = self.dialect.window(moved.operand, axis, &start, &size(to));
                Ok(self.replaced(&moved, &call, from, to))
            }
            Operation::Pad { from, to, start } => {
                self.helper("pad");
                let (axis, start) = (moved.place(from), self.offset(step, *start));
                let call = format!("pad({}, {start}, {}, {axis})", moved.operand, size(to));
                Ok(self.replaced(&moved, &call, from, to))
            }
            Operation::Concat { from, to } => Ok(self.concatenated(step, from, to, of)),
            Operation::Roll { dim, distance } => Ok(self.rolled(&moved, dim, *distance)),
            Operation::Along { function, from, to } => Ok(self.along(&moved, function, (from, to))),
            Operation::Route { tokens, experts, capacity, choices, .. } => {
                self.helper("route");
                let groups =
                    moved.dims.iter().copied().filter(|dim| dim != tokens && dim != experts);
                let mut dims: Vec<&str> = groups.chain([tokens.as_str(), experts]).collect();
                let scores = self.aligned(moved.operand, &moved.dims, &dims);
                dims.push(capacity);
                let call = format!("route({scores}, {choices}, {})", size(capacity));
                Ok(self.turned(&moved, &call, &dims))
            }
            other => unsupported(&step.value, format!("`{}` here", other.kind())),
        }
    }

    fn rolled(&mut self, moved: &Moved<'_>, dim: &str, distance: u64) -> String {
        let (axis, distance) = (moved.place(dim), self.offset(moved.step, distance));
        let split = &moved.step.operands[0].dims[axis].axes;
        if self.is_whole(split) {
            let call = format!("{}.roll({}, {distance}, {axis})", self.np(), moved.operand);
            return self.turned(moved, &call, &moved.dims);
        }
        let dialect = self.dialect;
        let call = dialect.rolled(self, moved.operand, &distance, axis, split);
        self.turned(moved, &call, &moved.dims)
    }

    fn along(&mut self, moved: &Moved<'_>, function: &str, (from, to): (&str, &str)) -> String {
        let (of, axis) = (moved.operand, moved.place(from));
        let dialect = self.dialect;
        let call = match function {
            "cumsum" => dialect.running_sum(self, of, axis, false),
            "revcumsum" => dialect.running_sum(self, of, axis, true),
            other => {
                self.helper("top_k");
                let which = usize::from(other == "argtopk");
                format!("top_k({of}, {}, {axis})[{which}]", size(to))
            }
        };
        self.replaced(moved, &call, from, to)
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
        let call = format!("{}.reshape({})", self.aligned(of, &from, &before), lengths.join(", "));
        self.aligned(&call, &after, &names(&step.result))
    }

    fn renamed(&self, moved: &Moved<'_>, pairs: &[(String, String)]) -> String {
        let name = |dim: &&str| {
            let pair = pairs.iter().find(|(old, _)| old == dim);
            pair.map_or((*dim).to_owned(), |(_, new)| new.clone())
        };
        let dims: Vec<String> = moved.dims.iter().map(name).collect();
        self.turned(moved, moved.operand, &dims.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn concatenated(&self, step: &StepJson, from: &[String], to: &str, of: &[String]) -> String {
        let order = names(&step.result);
        let part = |(number, dim): (usize, &String)| {
            let dims: Vec<&str> = names(&step.operands[number])
                .into_iter()
                .map(|other| if other == dim { to } else { other })
                .collect();
            self.aligned(&of[number], &dims, &order)
        };
        let parts: Vec<String> = from.iter().enumerate().map(part).collect();
        let axis = place_of(&step.result, to);
        self.dialect.concatenated(&parts.join(", "), axis)
    }
}
