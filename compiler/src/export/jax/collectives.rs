//! Collectives as calls of `jax.lax`, one for each.

use super::super::json::{Operation, StepJson};
use super::super::python::collectives::{axes, lists_of, relabelled, tuple_of};
use super::super::python::expression::Expressions;
use super::super::python::layout::tuple;
use super::super::walk::collectives::{Cut, Exchange, by_place, gathered, listed, moved};
use super::super::walk::{Result, unsupported};

/// The call of a collective on an operand.
pub(super) fn collective(
    e: &mut Expressions<'_>,
    step: &StepJson,
    operation: &Operation,
    of: &str,
) -> Result {
    let from = &step.operands[0];
    let of = cut(e, step, barred(step, of));
    match operation {
        Operation::AllGather { axes: over } => Ok(all_gather(e, gathered(from, over), of)),
        Operation::AllReduce { axes: over, reduction } => {
            Ok(format!("lax.{}({of}, {})", reduce_call(reduction), axes(over)))
        }
        Operation::ReduceScatter { axes: over, into, reduction } => {
            if reduction != "sum" {
                return unsupported(&step.value, "a ReduceScatter of maxima or minima");
            }
            let (over, into) = moved(from, over, into);
            Ok(psum_scatter(e, by_place(from, &over, &into), of))
        }
        Operation::AllToAll { axes: over, into } => {
            Ok(exchanged(e, step, &moved(from, over, into).0, &of))
        }
        Operation::Permute { axes: over } => {
            e.helper("relabel");
            let [held, wanted] = relabelled(step);
            Ok(format!("relabel({of}, {}, {held}, {wanted})", tuple_of(over)))
        }
        Operation::Slice { axes: over, into } => {
            e.helper("own_part");
            Ok(by_place(from, over, into)
                .into_iter()
                .fold(of, |of, (place, over)| format!("own_part({of}, {}, {place})", axes(&over))))
        }
        Operation::Unreduce { axes: over } => {
            e.helper("first_only");
            Ok(format!("first_only({of}, {})", axes(over)))
        }
        _ => unsupported(&step.value, "this collective"),
    }
}

/// An operand without the parts that a device need not send.
fn cut(e: &mut Expressions<'_>, step: &StepJson, of: String) -> String {
    Cut::of(step).into_iter().fold(of, |of, Cut { place, axes, own }| {
        e.helper("own_parts");
        format!("own_parts({of}, {}, {}, {place})", tuple_of(&axes), tuple_of(&own))
    })
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

/// The axes that split each dimension, as arguments of the helpers for several dimensions.
fn of_several(split: Vec<(usize, Vec<String>)>) -> [String; 2] {
    let (over, places) = listed(split);
    [tuple_of(&over), numbers(&places)]
}

fn numbers(places: &[usize]) -> String {
    tuple(&places.iter().map(ToString::to_string).collect::<Vec<_>>())
}

fn all_gather(e: &mut Expressions<'_>, split: Vec<(usize, Vec<String>)>, of: String) -> String {
    match split.as_slice() {
        [] => of,
        [(place, over)] => {
            format!("lax.all_gather({of}, {}, axis={place}, tiled=True)", axes(over))
        }
        _ => {
            e.helper("side_by_side");
            let [over, places] = of_several(split);
            format!("side_by_side(lax.all_gather({of}, {over}), {over}, {places})")
        }
    }
}

fn psum_scatter(e: &mut Expressions<'_>, split: Vec<(usize, Vec<String>)>, of: String) -> String {
    match split.as_slice() {
        [] => of,
        [(place, over)] => {
            let over = axes(over);
            format!("lax.psum_scatter({of}, {over}, scatter_dimension={place}, tiled=True)")
        }
        _ => {
            e.helper("blocks");
            let [over, places] = of_several(split);
            format!("lax.psum_scatter(blocks({of}, {over}, {places}), {over})")
        }
    }
}

/// An AllToAll: of a run of axes from one dimension to another, or of all parts at once.
fn exchanged(e: &mut Expressions<'_>, step: &StepJson, over: &[String], of: &str) -> String {
    let exchange = Exchange::of(step);
    if let Some(run) = exchange.run() {
        return format!(
            "lax.all_to_all({of}, {}, split_axis={}, concat_axis={}, tiled=True)",
            axes(over),
            run.to,
            run.from
        );
    }
    e.helper("exchange");
    let [gained, lost] = [exchange.gained, exchange.lost].map(|lists| lists_of(&lists));
    format!("exchange({of}, {}, {gained}, {lost})", tuple_of(over))
}
