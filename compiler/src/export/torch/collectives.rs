//! Collectives as functional collectives of `torch.distributed`, over the groups of `axes`.

use super::super::json::{Operation, StepJson};
use super::super::python::collectives::{relabelled, tuple_of};
use super::super::python::expression::Expressions;
use super::super::walk::collectives::{by_dim, gathered, place_of, source};
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
    let of = of.to_owned();
    match operation {
        Operation::AllGather { axes } => {
            e.helper("all_gather");
            Ok(gathered(from, axes).into_iter().fold(of, |of, (place, gone)| {
                format!("all_gather({of}, {place}, {})", group(e, &gone))
            }))
        }
        Operation::AllReduce { axes, reduction } => {
            Ok(format!("funcol.all_reduce({of}, {reduction:?}, {})", group(e, axes)))
        }
        Operation::ReduceScatter { axes, into, reduction } => {
            if reduction != "sum" {
                return unsupported(&step.value, "a ReduceScatter of maxima or minima");
            }
            e.helper("all_gather");
            Ok(by_dim(axes, into).into_iter().fold(of, |of, (dim, axes)| {
                let (place, group) = (place_of(from, dim), group(e, &axes));
                format!("reduce_scatter({of}, \"sum\", {place}, {group})")
            }))
        }
        Operation::AllToAll { axes, into } => {
            e.helper("all_to_all");
            let mut call = of;
            for (to, moved) in by_dim(axes, into) {
                let (split, concat) = (place_of(from, to), source(step, &moved)?);
                call = format!("all_to_all({call}, {split}, {concat}, {})", group(e, &moved));
            }
            Ok(call)
        }
        Operation::Permute { axes } => {
            e.helper("relabel");
            e.helper("permute");
            let [held, wanted] = relabelled(step);
            e.groups.insert(axes.clone());
            Ok(format!("relabel({of}, axes, {}, {held}, {wanted})", tuple_of(axes)))
        }
        Operation::Slice { axes, into } => {
            Ok(by_dim(axes, into).into_iter().fold(of, |of, (dim, axes)| {
                let (place, axes) = (place_of(from, dim), arguments(&axes));
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
