//! Splits mesh axes into parts where a dimension calls for it: 8 key heads on an axis of 16 devices
//! use 8 ways of it, and the other 2 are left to another dimension.
//!
//! A program is planned with whole axes first. Then an axis is tried as two parts, a common divisor
//! and the rest, if a tenth of the plan's time is at stake:
//!
//! * where it can split a dimension of a parameter (heads, experts), one that a reshape splits or
//!   merges, or one of attention with a causal mask, only in part: collectives over the axis on
//!   values with that dimension, operations on them for which the axis is idle, and the time for
//!   which the others wait for the device with the latest queries;
//! * where its size and that of another axis have a common divisor: reshards of several steps, or
//!   by a Permute. Blocks that change places between axes of 2 and 8 devices take fewer bytes with
//!   the 8 as 2 and 4.
//!
//! Where a limit on memory makes the plan of a small program costlier, all of its reshards are
//! reasons, and 2% of the time are enough: a tighter limit has more at stake, and must not be the
//! one whose plan is found. (To try that for every small program would take up to twenty times as
//! long, and shortens few plans.)
//!
//! A plan with parts is taken if it is at least 2% cheaper, and of small programs if it is cheaper
//! at all: else a limit on memory, within which it is much cheaper than others, could make a
//! program cheaper. In longer programs it is planned near the values that the parts could split
//! first ([`shardwise_passes::Rival`]): others keep their layouts, and only if that gains as much,
//! everything is planned. The bound that is claimed is that of all spaces that were searched to the
//! end.
//!
//! Alternatives: *all factors of all axes at once* would contain every plan found here, but the
//! number of shardings grows with the power of the number of axes, and most programs do not use one
//! of them. *A move of the reshard planner* that splits an axis inside of a sequence of collectives
//! would not reach declarations and products, where the parts are worth most. Two parts an axis,
//! one axis at a time, keeps the time of planning a small multiple of what it was, and only for
//! programs whose sizes call for it; more parts can be written (`mesh X=16 as 4x2x2`).

use indexmap::IndexSet;
use rustc_hash::FxHashSet;
use shardwise_ir::Role;
use shardwise_ir::axis_parts::AxisInParts;
use shardwise_ir::ids::{AxisId, DimId, OpId, ValueId};
use shardwise_ir::plan::{Materialization, Step, StepKind};
use shardwise_ir::program::{CollectiveKind, OpKind, Program, Value};
use shardwise_ir::rearrange::{Rearrange, atoms};
use shardwise_ir::sharding::Sharding;
use shardwise_ir::total;
use shardwise_passes::report::StepCost;
use shardwise_passes::{Goal, Objective, Optimality, local};

use crate::options::{AxisParts, Options};
use crate::planned::{NoPlan, Origin, Planned};
use crate::simulate::gcd;

/// The most operations of a program for which axes are split without being asked to: the searches
/// of longer ones take minutes.
const MOST_OPERATIONS: usize = 1000;

/// The operations of a program for which all axes that call for it are tried; in longer ones, the
/// one with the most at stake.
const FEW_OPERATIONS: usize = 100;

/// The most axes of a mesh on which axes are split for reshards, or in longer programs: the number
/// of shardings grows with its power.
const FEW_AXES: usize = 2;

/// The operations of a program for which one axis more is few.
const SMALL: usize = 20;

/// The share of a plan's time that has to be at stake before a split axis is searched.
const LEAST_SHARE: f64 = 0.1;

/// The share of its time by which a plan of a longer program with a split axis, or of another
/// grouping, has to be cheaper than one without: it is harder to read and to run.
pub(crate) const LEAST_GAIN: f64 = 0.02;

/// The share of a time that is rounding.
pub(crate) const ROUNDING: f64 = 1e-6;

/// An axis, the sizes of its parts in the orders that are tried, and the seconds at stake.
struct Split {
    axis: String,
    sizes: Vec<[u64; 2]>,
    at_stake_s: f64,
    /// The names of the values that parts could split, in longer programs.
    about: Option<IndexSet<String>>,
}

/// The best of `whole` and of the plans with a split axis that its program calls for. `plan` plans
/// the program with other options, while there is time.
pub(crate) fn best(
    whole: Planned,
    plan: impl Fn(&Options, Option<Goal>) -> Result<Planned, NoPlan>,
) -> Planned {
    let options = whole.options.clone();
    let is_searched = matches!(whole.origin, Origin::Searched(..));
    if options.parts != AxisParts::CalledFor || !is_searched {
        return whole;
    }
    let mut best = whole;
    let splits = called_for(&best);
    let count = splits.iter().map(|split| split.sizes.len()).sum();
    for Split { axis, sizes, about, .. } in splits {
        for sizes in sizes {
            let parts = AxisParts::These(vec![(axis.clone(), sizes.to_vec())]);
            // Of short programs all is searched, so that the bound is that of all of it.
            let share = if about.is_some() { LEAST_GAIN } else { 0.0 };
            // Where one search leaves a gap, the others will as well, and share the work of one.
            let searches = if best.is_beyond_the_search() { count } else { 1 };
            let goal = best.goal(about.clone(), share).map(|goal| goal.of_several(searches));
            let split = plan(&Options { parts, ..options.clone() }, goal);
            let is_known = matches!(split, Ok(_) | Err(NoPlan::NotBelow(Some(_))));
            // In long programs the other order hardly gains what this one does not.
            if !is_known && about.is_some() {
                break;
            }
            let gain = if is_small(&best.plan.program) { ROUNDING } else { LEAST_GAIN };
            best = better(split, best, gain);
        }
    }
    best
}

/// The plan of another form, if there is one and it is cheaper by this share; else the best one.
/// With the bound of both.
pub(crate) fn better(other: Result<Planned, NoPlan>, best: Planned, share: f64) -> Planned {
    let (other_s, plan) = match other {
        Ok(plan) => (plan.lower_bound_s(), Some(plan)),
        Err(NoPlan::NotBelow(bound_s)) => (bound_s.unwrap_or(f64::INFINITY), None),
        Err(NoPlan::Refused(_)) => (f64::INFINITY, None),
    };
    let lower_bound_s = best.lower_bound_s().min(other_s);
    let plan = plan.filter(|plan| plan.is_better_than(&best, share));
    bounded(plan.unwrap_or(best), lower_bound_s)
}

/// The plan with the bound of all spaces that were searched.
fn bounded(mut planned: Planned, lower_bound_s: f64) -> Planned {
    let is_below = lower_bound_s < planned.own_s() * (1.0 - ROUNDING);
    if let Origin::Searched(found) = &mut planned.origin
        && is_below
    {
        found.optimality = Optimality::Bounded { lower_bound_s };
    }
    planned
}

/// The ways to split axes that are worth a search.
fn called_for(planned: &Planned) -> Vec<Split> {
    let program = &planned.plan.program;
    let count = program.ops.len();
    if count > if has_few_axes(program) { MOST_OPERATIONS } else { FEW_OPERATIONS } {
        return Vec::new();
    }
    let mut splits: Vec<Split> =
        whole_axes(program).filter_map(|axis| worth(planned, axis)).collect();
    if count > FEW_OPERATIONS {
        splits.sort_by(|a, b| b.at_stake_s.total_cmp(&a.at_stake_s));
        splits.truncate(1);
    }
    splits
}

/// One whole axis of a program in two parts, in every way that a dimension or another axis gives.
pub(crate) fn all(planned: &Planned) -> Vec<AxisParts> {
    let program = &planned.plan.program;
    if planned.options.parts != AxisParts::CalledFor {
        return Vec::new();
    }
    let of_axis = |axis: AxisId| {
        let size = program.mesh.axes[axis].size;
        let dims = program.dims.iter().filter(|dim| !dim.pad).map(|dim| dim.size);
        let others = program.mesh.ids().filter(|&other| other != axis);
        let others = others.map(|other| program.mesh.axes[other].size);
        let common: IndexSet<u64> = dims.chain(others).map(|other| gcd(other, size)).collect();
        let common = common.into_iter().filter(move |&common| common > 1 && common < size);
        let name = &program.mesh.axes[axis].name;
        let in_parts = |sizes: [u64; 2]| AxisParts::These(vec![(name.clone(), sizes.to_vec())]);
        common.flat_map(|common| sizes(program, axis, common)).map(in_parts).collect::<Vec<_>>()
    };
    whole_axes(program).flat_map(of_axis).collect()
}

/// The axes that are neither parts nor in parts, and have no stages.
fn whole_axes(program: &Program) -> impl Iterator<Item = AxisId> {
    let stages: Vec<AxisId> =
        program.repeats.iter().filter_map(|of| of.pipeline.as_ref()).map(|of| of.axis).collect();
    let is_whole =
        move |axis: &AxisId| program.mesh.whole_of(*axis).is_none() && !stages.contains(axis);
    program.mesh.ids().filter(is_whole)
}

/// A reason to split an axis: a size that its parts could have in common with a dimension, or with
/// another axis.
struct Reason {
    common: u64,
    at_stake_s: f64,
    dim: Option<DimId>,
}

/// The parts of an axis with the most at stake, if that is enough; of equal ones, those with the
/// largest common divisor.
fn worth(planned: &Planned, axis: AxisId) -> Option<Split> {
    let program = &planned.plan.program;
    let reasons = reasons(planned, axis);
    let in_order = |a: &&Reason, b: &&Reason| {
        a.at_stake_s.total_cmp(&b.at_stake_s).then(a.common.cmp(&b.common))
    };
    let &Reason { common, at_stake_s, .. } = reasons.iter().max_by(in_order)?;
    let dims = || {
        let alike = reasons.iter().filter(|reason| reason.common == common);
        alike.filter_map(|reason| reason.dim).collect::<Vec<DimId>>()
    };
    Some(Split {
        axis: program.mesh.axes[axis].name.clone(),
        sizes: sizes(program, axis, common),
        at_stake_s,
        about: (program.ops.len() > FEW_OPERATIONS).then(|| values_with(program, &dims())),
    })
}

/// The reasons with enough at stake.
fn reasons(planned: &Planned, axis: AxisId) -> Vec<Reason> {
    let program = &planned.plan.program;
    let size = program.mesh.axes[axis].size;
    let of_dims = divided(program, axis).into_iter().map(|dim| Reason {
        common: gcd(program.dims[dim].size, size),
        at_stake_s: at_stake_s(planned, axis, dim),
        dim: Some(dim),
    });
    let is_tried = has_few_axes(program) && planned.objective == Objective::Serial;
    let relayed_s = if is_tried { relayed_s(planned, axis) } else { 0.0 };
    let others = program.mesh.ids().filter(|&other| other != axis).map(|other| Reason {
        common: gcd(program.mesh.axes[other].size, size),
        at_stake_s: relayed_s,
        dim: None,
    });
    let least = if is_small_within_memory(planned) { LEAST_GAIN } else { LEAST_SHARE };
    let least_s = least * planned.report.serial_s;
    let is_enough = |of: &Reason| of.at_stake_s > 0.0 && of.at_stake_s >= least_s;
    let is_part = |of: &Reason| of.common > 1 && of.common < size;
    of_dims.chain(others).filter(|of| is_part(of) && is_enough(of)).collect()
}

/// Whether the plan of a small program would be cheaper without the limit on memory. Then all
/// reshards are reasons to split an axis, and little has to be at stake: with a tighter limit more
/// would be, and a looser one must not have a costlier plan.
fn is_small_within_memory(planned: &Planned) -> bool {
    let Origin::Searched(found) = &planned.origin else { return false };
    found.unlimited_s.is_some() && is_small(&planned.plan.program)
}

fn is_small(program: &Program) -> bool {
    program.ops.len() <= SMALL
}

fn has_few_axes(program: &Program) -> bool {
    let more = usize::from(is_small(program));
    program.mesh.splitting().count() <= FEW_AXES + more
}

/// The dimensions of parameters, of reshapes and of operations that leave devices unequal work, or
/// their factors, that an axis can split in part only.
fn divided(program: &Program, axis: AxisId) -> Vec<DimId> {
    let size = program.mesh.axes[axis].size;
    let params = program.values.iter().filter(|value| value.role == Some(Role::Param));
    let reshaped = program.ops.iter().flat_map(|op| match &op.kind {
        OpKind::Rearrange(Rearrange::Reshape(groups)) => &groups[..],
        _ => &[],
    });
    let reshaped = reshaped.flat_map(|group| group.from.iter().chain(&group.to));
    let uneven = program.ops.iter().filter(|op| op.share.band.is_some());
    let uneven = uneven
        .flat_map(|op| op.operands.iter().map(|of| of.value).chain([op.result]))
        .flat_map(|value| &program.values[value].dims);
    let mut dims: Vec<DimId> = params
        .flat_map(|value| &value.dims)
        .chain(reshaped)
        .chain(uneven)
        .flat_map(|&dim| atoms(&program.dims, dim))
        .filter(|&dim| {
            let common = gcd(program.dims[dim].size, size);
            !program.dims[dim].pad && common > 1 && common < size
        })
        .collect();
    dims.sort_unstable();
    dims.dedup();
    dims
}

/// Seconds of the reshards that take several steps, or a Permute, of values that `axis` splits
/// before, between or after them; of small programs within memory, of all reshards.
fn relayed_s(planned: &Planned, axis: AxisId) -> f64 {
    let steps = planned.plan.steps.iter().zip(&planned.report.steps);
    let moves: Vec<(&Step, &StepCost)> =
        steps.filter(|(step, _)| matches!(step.kind, StepKind::Collective(..))).collect();
    let is_permute = |step: &Step| match &step.kind {
        StepKind::Collective(of, _) => of.kind == CollectiveKind::Permute,
        StepKind::Local(_) => false,
    };
    let made: FxHashSet<&Materialization> = moves.iter().map(|(step, _)| &step.result).collect();
    let read: FxHashSet<&Materialization> =
        moves.iter().flat_map(|(step, _)| &step.operands).collect();
    let split: FxHashSet<ValueId> = made
        .union(&read)
        .filter(|of| of.sharding.axes().any(|other| other.axis() == axis))
        .map(|of| of.value)
        .collect();
    let are_all = is_small_within_memory(planned);
    let is_relayed = |step: &Step| {
        are_all
            || is_permute(step)
            || read.contains(&step.result)
            || step.operands.iter().any(|of| made.contains(of))
    };
    let of_axis =
        moves.iter().filter(|(step, _)| split.contains(&step.result.value) && is_relayed(step));
    total(of_axis.map(|(_, cost)| cost.total_s()))
}

/// Seconds of the plan that a part of `axis` along `dim` could save: collectives over the axis on
/// values with the dimension, operations on them for which it is idle, and the waiting for the
/// busiest device where it leaves them unequal work.
fn at_stake_s(planned: &Planned, axis: AxisId, dim: DimId) -> f64 {
    let program = &planned.plan.program;
    let has_dim = |of: &Materialization| {
        let dims = &program.values[of.value].dims;
        dims.iter().any(|&other| atoms(&program.dims, other).contains(&dim))
    };
    let at_stake_s = |(step, cost): (&Step, &StepCost)| {
        let share = match step.kind {
            StepKind::Local(op) if !cost.is_move(step) => waiting_share(program, op, step, axis),
            _ if cost.axes.contains(&axis) => 1.0,
            _ => 0.0,
        };
        share * cost.total_s()
    };
    let steps = planned.plan.steps.iter().zip(&planned.report.steps);
    total(steps.filter(|(step, _)| values(step).any(has_dim)).map(at_stake_s))
}

fn values(step: &Step) -> impl Iterator<Item = &Materialization> {
    step.operands.iter().chain([&step.result])
}

/// The share of an operation's time that `axis` does not shorten: all of it where the axis is idle,
/// else the part for which its devices wait for the busiest one.
fn waiting_share(program: &Program, op: OpId, step: &Step, axis: AxisId) -> f64 {
    let shardings: Vec<Sharding> = values(step).map(|of| of.sharding.clone()).collect();
    if shardings.iter().flat_map(Sharding::axes).all(|of| of.axis() != axis) {
        return 1.0;
    }
    let imbalance = |shardings: &[Sharding]| {
        let all: Vec<&Sharding> = shardings.iter().collect();
        let result_and_read = all.split_last();
        result_and_read
            .map_or(1.0, |(result, read)| local::imbalance(program, &program.ops[op], read, result))
    };
    let others: Vec<Sharding> = shardings.iter().map(|of| without(of, axis)).collect();
    1.0 - imbalance(&others) / imbalance(&shardings)
}

/// A sharding of which nothing is split by `axis`.
fn without(sharding: &Sharding, axis: AxisId) -> Sharding {
    let mut without = sharding.clone();
    for dim in &mut without.dims {
        dim.retain(|of| of.axis() != axis);
    }
    without
}

/// The names of the values that have one of the dimensions.
fn values_with(program: &Program, dims: &[DimId]) -> IndexSet<String> {
    let has_one = |value: &&Value| {
        let mut all = value.dims.iter().flat_map(|&dim| atoms(&program.dims, dim));
        all.any(|dim| dims.contains(&dim))
    };
    program.values.iter().filter(has_one).map(|value| value.name.clone()).collect()
}

/// A part of `axis` of `common` devices, and the rest, in both orders.
fn sizes(program: &Program, axis: AxisId, common: u64) -> Vec<[u64; 2]> {
    let axis = &program.mesh.axes[axis];
    let orders = [[common, axis.size / common], [axis.size / common, common]];
    let fits = |sizes: &[u64; 2]| AxisInParts::new(axis.clone(), sizes, AxisId::new(0)).is_some();
    let mut sizes: Vec<[u64; 2]> = orders.into_iter().filter(fits).collect();
    sizes.dedup();
    sizes
}
