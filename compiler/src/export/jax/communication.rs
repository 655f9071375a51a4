//! Collectives as calls of `jax.lax`.

use super::super::json::{Operation, StepJson, TensorJson};
use super::expression::{Expressions, number_of};
use super::{Result, unsupported};

/// Whether a step is a collective, or a part of what every device has.
pub(super) fn is_collective(step: &StepJson) -> bool {
    matches!(
        step.operation,
        Some(
            Operation::AllGather { .. }
                | Operation::AllReduce { .. }
                | Operation::ReduceScatter { .. }
                | Operation::AllToAll { .. }
                | Operation::Permute { .. }
                | Operation::Slice { .. }
                | Operation::Unreduce { .. }
        )
    )
}

/// `"X"`, `("X", "Y")`: axes as arguments.
pub(super) fn axes(names: &[String]) -> String {
    match names {
        [one] => format!("{one:?}"),
        all => {
            format!("({})", all.iter().map(|one| format!("{one:?}")).collect::<Vec<_>>().join(", "))
        }
    }
}

impl Expressions<'_> {
    /// The call of a collective on an operand.
    pub(super) fn collective(
        &mut self,
        step: &StepJson,
        operation: &Operation,
        of: &str,
    ) -> Result {
        let from = &step.operands[0];
        match operation {
            Operation::AllGather { axes } => Ok(gathered(from, axes, of)),
            Operation::AllReduce { axes: over, reduction } => {
                Ok(format!("lax.{}({of}, {})", reduce_call(reduction), axes(over)))
            }
            Operation::ReduceScatter { axes, into, reduction } => {
                if reduction != "sum" {
                    return unsupported(&step.value, "a ReduceScatter of maxima or minima");
                }
                Ok(by_dim(axes, into).into_iter().fold(of.to_owned(), |of, (dim, axes)| {
                    let place = number_of(from, dim);
                    format!(
                        "lax.psum_scatter({of}, {}, scatter_dimension={place}, tiled=True)",
                        self::axes(&axes)
                    )
                }))
            }
            Operation::AllToAll { axes, into } => exchanged(step, axes, into, of),
            Operation::Permute { axes } => Ok(self.permuted(step, axes, of)),
            Operation::Slice { axes, into } => {
                self.helper("own_part");
                Ok(by_dim(axes, into).into_iter().fold(of.to_owned(), |of, (dim, axes)| {
                    format!("own_part({of}, {}, {})", self::axes(&axes), number_of(from, dim))
                }))
            }
            Operation::Unreduce { axes: over } => {
                self.helper("first_only");
                Ok(format!("first_only({of}, {})", axes(over)))
            }
            _ => unsupported(&step.value, "this collective"),
        }
    }

    fn permuted(&mut self, step: &StepJson, taking_part: &[String], of: &str) -> String {
        self.helper("relabel");
        let changed =
            || step.operands[0].dims.iter().zip(&step.result.dims).filter(|(a, b)| a != b);
        let lists = |lists: Vec<&Vec<String>>| {
            let lists: Vec<String> = lists.into_iter().map(|list| tuple_of(list)).collect();
            super::layout::tuple(&lists)
        };
        let held = lists(changed().map(|(a, _)| &a.axes).collect());
        let wanted = lists(changed().map(|(_, b)| &b.axes).collect());
        format!("relabel({of}, {}, {held}, {wanted})", tuple_of(taking_part))
    }
}

fn tuple_of(axes: &[String]) -> String {
    super::layout::tuple(&axes.iter().map(|axis| format!("{axis:?}")).collect::<Vec<_>>())
}

fn reduce_call(reduction: &str) -> &'static str {
    match reduction {
        "max" => "pmax",
        "min" => "pmin",
        _ => "psum",
    }
}

/// An AllGather: one call for each dimension that it completes.
fn gathered(from: &TensorJson, axes: &[String], of: &str) -> String {
    let dropped = from.dims.iter().enumerate().filter_map(|(place, dim)| {
        let gone: Vec<String> =
            dim.axes.iter().filter(|axis| axes.contains(axis)).cloned().collect();
        (!gone.is_empty()).then_some((place, gone))
    });
    dropped.fold(of.to_owned(), |of, (place, gone)| {
        format!("lax.all_gather({of}, {}, axis={place}, tiled=True)", self::axes(&gone))
    })
}

/// An AllToAll from one dimension to another.
fn exchanged(step: &StepJson, axes: &[String], into: &[String], of: &str) -> Result {
    let from = &step.operands[0];
    let mut call = of.to_owned();
    for (to, moved) in by_dim(axes, into) {
        let source = from.dims.iter().enumerate().find(|(_, dim)| dim.axes.ends_with(&moved));
        let Some((place, _)) = source else {
            return unsupported(&step.value, "an AllToAll from several dimensions at once");
        };
        call = format!(
            "lax.all_to_all({call}, {}, split_axis={}, concat_axis={place}, tiled=True)",
            self::axes(&moved),
            number_of(from, to)
        );
    }
    Ok(call)
}

/// Axes by the dimension that receives them, in order.
fn by_dim<'a>(axes: &[String], into: &'a [String]) -> Vec<(&'a str, Vec<String>)> {
    let mut found: Vec<(&str, Vec<String>)> = Vec::new();
    for (axis, dim) in axes.iter().zip(into) {
        match found.iter_mut().find(|(other, _)| other == dim) {
            Some((_, axes)) => axes.push(axis.clone()),
            None => found.push((dim, vec![axis.clone()])),
        }
    }
    found
}
