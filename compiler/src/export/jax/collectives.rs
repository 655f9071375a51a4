//! Collectives as calls of `jax.lax`.

use super::super::json::{Operation, StepJson};
use super::super::python::collectives::{axes, relabelled, tuple_of};
use super::super::python::expression::Expressions;
use super::super::walk::collectives::{by_dim, gathered, place_of, source};
use super::super::walk::{Result, unsupported};

/// The call of a collective on an operand.
pub(super) fn collective(
    e: &mut Expressions<'_>,
    step: &StepJson,
    operation: &Operation,
    of: &str,
) -> Result {
    let from = &step.operands[0];
    let of = barred(step, of);
    match operation {
        Operation::AllGather { axes: over } => {
            Ok(gathered(from, over).into_iter().fold(of, |of, (place, gone)| {
                format!("lax.all_gather({of}, {}, axis={place}, tiled=True)", axes(&gone))
            }))
        }
        Operation::AllReduce { axes: over, reduction } => {
            Ok(format!("lax.{}({of}, {})", reduce_call(reduction), axes(over)))
        }
        Operation::ReduceScatter { axes: over, into, reduction } => {
            if reduction != "sum" {
                return unsupported(&step.value, "a ReduceScatter of maxima or minima");
            }
            Ok(by_dim(over, into).into_iter().fold(of, |of, (dim, over)| {
                let place = place_of(from, dim);
                format!(
                    "lax.psum_scatter({of}, {}, scatter_dimension={place}, tiled=True)",
                    axes(&over)
                )
            }))
        }
        Operation::AllToAll { axes: over, into } => exchanged(step, by_dim(over, into), of),
        Operation::Permute { axes: over } => {
            e.helper("relabel");
            let [held, wanted] = relabelled(step);
            Ok(format!("relabel({of}, {}, {held}, {wanted})", tuple_of(over)))
        }
        Operation::Slice { axes: over, into } => {
            e.helper("own_part");
            Ok(by_dim(over, into).into_iter().fold(of, |of, (dim, over)| {
                format!("own_part({of}, {}, {})", axes(&over), place_of(from, dim))
            }))
        }
        Operation::Unreduce { axes: over } => {
            e.helper("first_only");
            Ok(format!("first_only({of}, {})", axes(over)))
        }
        _ => unsupported(&step.value, "this collective"),
    }
}

/// An operand that is communicated for a second time: the compiler would merge the two, and keep
/// the first result.
fn barred(step: &StepJson, operand: &str) -> String {
    if step.again { format!("lax.optimization_barrier({operand})") } else { operand.to_owned() }
}

fn reduce_call(reduction: &str) -> &'static str {
    match reduction {
        "max" => "pmax",
        "min" => "pmin",
        _ => "psum",
    }
}

/// An AllToAll from one dimension to another.
fn exchanged(step: &StepJson, moves: Vec<(&str, Vec<String>)>, of: String) -> Result {
    let mut call = of;
    for (to, moved) in moves {
        let place = source(step, &moved)?;
        call = format!(
            "lax.all_to_all({call}, {}, split_axis={}, concat_axis={place}, tiled=True)",
            axes(&moved),
            place_of(&step.operands[0], to)
        );
    }
    Ok(call)
}
