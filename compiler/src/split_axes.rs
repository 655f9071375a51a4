//! Splits mesh axes into parts where a dimension calls for it: 8 key heads on an axis of 16 devices
//! use 8 ways of it, and the other 2 are left to another dimension.
//!
//! A program is planned with whole axes first. Then each axis that can split a dimension of a
//! parameter (heads, experts) only in part is tried as two parts, their greatest common divisor and
//! the rest, if a tenth of the plan's time is at stake: collectives over the axis on values with
//! that dimension, and operations on them for which the axis is idle. A plan with parts is taken if
//! it is at least 2% cheaper; the bound that is claimed is that of all spaces that were searched.
//!
//! Alternatives: *all factors of all axes at once* would contain every plan found here, but the
//! number of shardings grows with the power of the number of axes, and most programs do not use one
//! of them. *A move of the reshard planner* that splits an axis inside of a sequence of collectives
//! would not reach declarations and products, where the parts are worth most. Two parts an axis,
//! one axis at a time, keeps the time of planning a small multiple of what it was, and only for
//! programs whose sizes call for it; more parts can be written (`mesh X=16 as 4x2x2`).

use shardwise_ir::Role;
use shardwise_ir::axis_parts::AxisInParts;
use shardwise_ir::ids::{AxisId, DimId};
use shardwise_ir::plan::{Materialization, Step};
use shardwise_ir::program::Program;
use shardwise_ir::rearrange::atoms;
use shardwise_ir::total;
use shardwise_passes::Optimality;
use shardwise_passes::report::StepCost;

use crate::options::AxisParts;
use crate::planned::{Origin, Planned};
use crate::simulate::gcd;

/// The most operations of a program for which axes are split without being asked to: the searches
/// of longer ones take seconds.
const MOST_OPERATIONS: usize = 100;

/// The share of a plan's time that has to be at stake before a split axis is searched.
const LEAST_SHARE: f64 = 0.1;

/// The share of its time by which a plan with a split axis has to be cheaper than one without: it
/// is harder to read and to run.
const LEAST_GAIN: f64 = 0.02;

/// The share of a time that is rounding.
const ROUNDING: f64 = 1e-6;

/// An axis, and the sizes of its parts, of which the later are tried if the earlier are cheaper.
struct Split {
    axis: String,
    sizes: Vec<[u64; 2]>,
}

/// The best of `whole` and of the plans with a split axis that its program calls for. `plan` plans
/// the program with the parts of axes, while there is time.
pub(crate) fn best(whole: Planned, plan: &dyn Fn(AxisParts) -> Option<Planned>) -> Planned {
    let is_searched = matches!(whole.origin, Origin::Searched(..));
    if whole.options.parts != AxisParts::CalledFor || !is_searched {
        return whole;
    }
    let splits = called_for(&whole);
    let mut best = whole;
    let mut lower_bound_s = best.lower_bound_s();
    for Split { axis, sizes } in splits {
        for sizes in sizes {
            let parts = AxisParts::These(vec![(axis.clone(), sizes.to_vec())]);
            let Some(split) = plan(parts) else { break };
            lower_bound_s = lower_bound_s.min(split.lower_bound_s());
            if split.own_s() >= best.own_s() * (1.0 - LEAST_GAIN) {
                break;
            }
            best = split;
        }
    }
    bounded(best, lower_bound_s)
}

/// The plan with the bound of all spaces that were searched.
fn bounded(mut planned: Planned, lower_bound_s: f64) -> Planned {
    let is_below = lower_bound_s < planned.own_s() * (1.0 - ROUNDING);
    if let Origin::Searched(optimality, _) = &mut planned.origin
        && is_below
    {
        *optimality = Optimality::Bounded { lower_bound_s };
    }
    planned
}

/// The ways to split axes that are worth a search, by name and sizes, each with those to try after
/// it if it is cheaper.
fn called_for(planned: &Planned) -> Vec<Split> {
    let program = &planned.plan.program;
    if program.ops.len() > MOST_OPERATIONS {
        return Vec::new();
    }
    let stages: Vec<AxisId> =
        program.repeats.iter().filter_map(|of| of.pipeline.as_ref()).map(|of| of.axis).collect();
    let least_s = LEAST_SHARE * planned.report.serial_s;
    let whole = program
        .mesh
        .ids()
        .filter(|&axis| program.mesh.whole_of(axis).is_none() && !stages.contains(&axis));
    let best = |axis: AxisId| {
        let dims = divided(program, axis).into_iter();
        let worth = dims.map(|dim| (dim, at_stake_s(planned, axis, dim)));
        let common = |dim: &DimId| gcd(program.dims[*dim].size, program.mesh.axes[axis].size);
        let order = |(a, a_s): &(DimId, f64), (b, b_s): &(DimId, f64)| {
            a_s.total_cmp(b_s).then(common(a).cmp(&common(b)))
        };
        let most = worth.filter(|(_, s)| *s >= least_s).max_by(order);
        most.map(|(dim, _)| split(program, axis, dim))
    };
    whole.filter_map(best).collect()
}

/// The dimensions of parameters, or their factors, that an axis can split in part only.
fn divided(program: &Program, axis: AxisId) -> Vec<DimId> {
    let size = program.mesh.axes[axis].size;
    let params = program.values.iter().filter(|value| value.role == Some(Role::Param));
    let mut dims: Vec<DimId> = params
        .flat_map(|value| &value.dims)
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

/// Seconds of the plan that a part of `axis` along `dim` could save: collectives over the axis on
/// values with the dimension, and operations on them for which it is idle.
fn at_stake_s(planned: &Planned, axis: AxisId, dim: DimId) -> f64 {
    let program = &planned.plan.program;
    let has_dim = |of: &Materialization| {
        let dims = &program.values[of.value].dims;
        dims.iter().any(|&other| atoms(&program.dims, other).contains(&dim))
    };
    let is_idle = |of: &Materialization| of.sharding.axes().all(|other| other.axis() != axis);
    let at_stake = |(step, cost): &(&Step, &StepCost)| {
        let mut values = step.operands.iter().chain([&step.result]);
        let wastes = if cost.is_move(step) {
            cost.axes.contains(&axis)
        } else {
            values.clone().all(is_idle)
        };
        wastes && values.any(has_dim)
    };
    let steps = planned.plan.steps.iter().zip(&planned.report.steps);
    total(steps.filter(at_stake).map(|(_, cost)| cost.total_s()))
}

/// The part of `axis` that divides `dim`, and the rest.
fn split(program: &Program, axis: AxisId, dim: DimId) -> Split {
    let axis = &program.mesh.axes[axis];
    let common = gcd(program.dims[dim].size, axis.size);
    let orders = [[common, axis.size / common], [axis.size / common, common]];
    let fits = |sizes: &[u64; 2]| AxisInParts::new(axis.clone(), sizes, AxisId::new(0)).is_some();
    let mut sizes: Vec<[u64; 2]> = orders.into_iter().filter(fits).collect();
    sizes.dedup();
    Split { axis: axis.name.clone(), sizes }
}
