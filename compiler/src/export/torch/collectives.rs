//! Collectives as functional collectives of `torch.distributed`, over the groups of `axes`.

use super::super::json::{Operation, StepJson};
use super::super::python::collectives::{lists_of, relabelled, tuple_of};
use super::super::python::expression::Expressions;
use super::super::python::layout::tuple;
use super::super::walk::collectives::{Cut, Exchange, by_place, gathered, listed, moved};
use super::super::walk::{Result, unsupported};

/// `"X", "Y"`: axes as arguments.
pub(super) fn arguments(axes: &[String]) -> String {
    axes.iter().map(|axis| format!("{axis:?}")).collect::<Vec<_>>().join(", ")
}

/// `axes["X", "Y"]`: the group along axes, which is noted.
pub(super) fn group(e: &mut Expressions<'_>, axes: &[String]) -> String {
    e.groups.insert(axes.to_vec());
    format!("axes[{}]", arguments(axes))
}

/// The call of a collective on an operand.
pub(super) fn collective(
    e: &mut Expressions<'_>,
    step: &StepJson,
    operation: &Operation,
    of: &str,
) -> Result {
    let from = &step.operands[0];
    let of = cut(e, step, of.to_owned());
    match operation {
        Operation::AllGather { axes } => Ok(all_gather(e, gathered(from, axes), of)),
        Operation::AllReduce { axes, reduction } => {
            Ok(format!("funcol.all_reduce({of}, {reduction:?}, {})", group(e, axes)))
        }
        Operation::ReduceScatter { axes, into, reduction } => {
            if reduction != "sum" {
                return unsupported(&step.value, "a ReduceScatter of maxima or minima");
            }
            let (axes, into) = moved(from, axes, into);
            Ok(reduce_scatter(e, by_place(from, &axes, &into), of))
        }
        Operation::AllToAll { axes, into } => {
            let exchange = Exchange::of(step);
            let (axes, _) = moved(from, axes, into);
            let group = group(e, &axes);
            if let Some(run) = exchange.run() {
                e.helper("all_to_all");
                return Ok(format!("all_to_all({of}, {}, {}, {group})", run.to, run.from));
            }
            e.helper("exchange");
            let [gained, lost] = [exchange.gained, exchange.lost].map(|lists| lists_of(&lists));
            Ok(format!("exchange({of}, axes, {}, {gained}, {lost})", tuple_of(&axes)))
        }
        Operation::Permute { axes } => {
            e.helper("relabel");
            e.helper("permute");
            let [held, wanted] = relabelled(step);
            e.groups.insert(axes.clone());
            Ok(format!("relabel({of}, axes, {}, {held}, {wanted})", tuple_of(axes)))
        }
        Operation::Slice { axes, into } => {
            Ok(by_place(from, axes, into).into_iter().fold(of, |of, (place, axes)| {
                let axes = arguments(&axes);
                format!("{of}.chunk(axes.size({axes}), {place})[axes.index({axes})]")
            }))
        }
        Operation::Unreduce { axes } => {
            e.helper("first_only");
            Ok(format!("first_only({of}, axes.index({}))", arguments(axes)))
        }
        _ => unsupported(&step.value, "this collective"),
    }
}

/// An operand without the parts that a device need not send.
fn cut(e: &mut Expressions<'_>, step: &StepJson, of: String) -> String {
    Cut::of(step).into_iter().fold(of, |of, Cut { place, axes, own }| {
        e.helper("own_parts");
        format!("own_parts({of}, axes, {}, {}, {place})", tuple_of(&axes), tuple_of(&own))
    })
}

/// `axes, ("X", "Y"), (0, 1)`: axes and the places of the dimensions that they split, as arguments
/// of the helpers for several dimensions.
fn placed(over: &[String], places: &[usize]) -> String {
    let places = tuple(&places.iter().map(ToString::to_string).collect::<Vec<_>>());
    format!("axes, {}, {places}", tuple_of(over))
}

fn all_gather(e: &mut Expressions<'_>, split: Vec<(usize, Vec<String>)>, of: String) -> String {
    if split.is_empty() {
        return of;
    }
    e.helper("all_gather");
    if let [(place, over)] = split.as_slice() {
        return format!("all_gather({of}, {place}, {})", group(e, over));
    }
    e.helper("side_by_side");
    let (over, places) = listed(split);
    let (group, placed) = (group(e, &over), placed(&over, &places));
    format!("side_by_side(all_gather({of}[None], 0, {group}), {placed})")
}

fn reduce_scatter(e: &mut Expressions<'_>, split: Vec<(usize, Vec<String>)>, of: String) -> String {
    if split.is_empty() {
        return of;
    }
    e.helper("all_gather");
    if let [(place, over)] = split.as_slice() {
        return format!("reduce_scatter({of}, \"sum\", {place}, {})", group(e, over));
    }
    e.helper("blocks");
    let (over, places) = listed(split);
    let (group, placed) = (group(e, &over), placed(&over, &places));
    format!("torch.squeeze(reduce_scatter(blocks({of}, {placed}), \"sum\", 0, {group}), 0)")
}
