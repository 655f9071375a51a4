//! Searches programs whose values have more shardings than can be tabulated: part by part, each
//! part around the best plan of those before it ([`crate::reshard::part`]).
//!
//! A part is searched like a program whose shardings can all be tabulated. Its plan is a plan of
//! the program; its bound holds for the part only. All plans are bounded by a relaxation of the
//! space ([`crate::reshard::relaxed`]), which is minimised after the first part; where that is too
//! large as well, and for other objectives than sums, by every operation on all devices at once and
//! no communication.

use shardwise_ir::dataflow::Analyzed;
use shardwise_ir::ids::ValueId;
use shardwise_ir::plan::Plan;
use shardwise_ir::program::{Op, OpKind};
use shardwise_ir::sharding::Sharding;

use crate::cost::{local, send_recv};
use crate::layouts::composite;
use crate::problem::Problem;
use crate::reshard::part::Part;
use crate::reshard::tables::Tables;
use crate::search::objective::{Objective, objective_s, plan_price};
use crate::search::outcome::{Effort, Found, Optimality, Refusal, Request};
use crate::search::within_tables;
use crate::solver::branch_and_bound::can_prune;
use crate::solver::dreyfus_wagner::Trees;
use crate::solver::minimize::{Limits, minimize_with};
use crate::solver::weight::Weight;

/// How many parts are searched.
fn parts(effort: Effort) -> usize {
    match effort {
        Effort::Quick => 2,
        Effort::Normal => 4,
        Effort::High => 8,
    }
}

/// The share of the time for the first part: where there is little, it has to find a plan.
const FOR_THE_FIRST: f64 = 0.5;

/// The best plan of all parts, the first of which is that of `tables`.
pub(super) fn search(
    tables: &Tables<'_>,
    textbook: &Plan,
    request: &Request,
) -> Result<Found, Refusal> {
    let most = parts(request.effort);
    let all = request.interrupt.with_work(1.0 / most as f64).unheard();
    let first = Request { interrupt: all.part(FOR_THE_FIRST), ..request.clone() };
    let mut best = within_tables(tables, textbook, &first);
    let on_all = on_all_devices_s(tables.program, request.objective);
    let lower_bound_s = relaxed_bound_s(tables, textbook, request).unwrap_or(0.0).max(on_all);
    let seconds = |found: &Found| objective_s(tables, &found.plan, request.objective);
    let share = |number: usize| all.part(1.0 / (most - number) as f64);
    for number in 1..most {
        let is_closed = best.as_ref().is_ok_and(|found| can_prune(lower_bound_s, seconds(found)));
        if is_closed || request.interrupt.is_due() {
            break;
        }
        let around = best.as_ref().map_or(textbook, |found| &found.plan);
        let part = Part::around(tables.program, number, around).into();
        let request = Request { interrupt: share(number), ..request.clone() };
        let cost_model = tables.cost_model.clone();
        let Some(part) = Tables::within(tables.program, cost_model, part, &request.interrupt)
        else {
            break;
        };
        let found = within_tables(&part, around, &request);
        best = match (best, found) {
            (Ok(best), Ok(found)) if seconds(&found) < seconds(&best) => Ok(found),
            (Err(_), Ok(found)) => Ok(found),
            (best, _) => best,
        };
    }
    best.map(|found| {
        let seconds = seconds(&found);
        let lower_bound_s = lower_bound_s.min(seconds);
        let closed = can_prune(lower_bound_s, seconds);
        let optimality =
            if closed { Optimality::Optimal } else { Optimality::Bounded { lower_bound_s } };
        Found { optimality, alternatives: Vec::new(), ..found }
    })
}

/// The share of the time and of the work for the relaxation, and of the time before for its tables:
/// a bound is worth more than a part.
const FOR_THE_BOUND: f64 = 0.3;
const FOR_ITS_TABLES: f64 = 0.8;

/// The least sum of steps in the relaxed space, or a bound of it; none for other objectives.
fn relaxed_bound_s(tables: &Tables<'_>, textbook: &Plan, request: &Request) -> Option<f64> {
    let objective = request.objective;
    let part = Part::relaxed(tables.program).filter(|_| objective.is_sum())?;
    let interrupt = request.interrupt.part(FOR_ITS_TABLES);
    let cost_model = tables.cost_model.clone();
    let relaxed = Tables::within(tables.program, cost_model, part.into(), &interrupt)?;
    let model = Problem::in_time(&relaxed, objective.compute(), &interrupt)?.model();
    let interrupt = request.interrupt.part(FOR_THE_BOUND).with_work(FOR_THE_BOUND).unheard();
    let limits = Limits { interrupt, ..Limits::default() };
    let cutoff = plan_price(tables, textbook, objective);
    let mut cost = |assignment: &[usize], trees: &mut [Trees<'_>]| model.cost(assignment, trees);
    let solution = minimize_with(&model, &mut model.tree_tables(), &limits, cutoff, &mut cost);
    Some(solution.bound).filter(|bound| bound.is_finite()).map(Weight::as_seconds)
}

/// No plan is below the seconds of all operations that send nothing, each divided evenly among all
/// devices.
pub(super) fn on_all_devices_s(program: &Analyzed, objective: Objective) -> f64 {
    let devices: f64 = program.mesh.axes.iter().map(|axis| axis.size as f64).product();
    let of = |op: &Op| {
        let whole = unsplit(program, op).map_or(0.0, |seconds| seconds / devices);
        whole * program.trip_count_of(op).per_device as f64
    };
    objective.compute() * program.ops.iter().map(of).sum::<f64>()
}

/// The seconds of an operation on one device; nothing for one that becomes several, or that may be
/// one that communicates, which runs beside others.
fn unsplit(program: &Analyzed, op: &Op) -> Option<f64> {
    let replicated = |value: ValueId| Sharding::replicated(program.values[value].dims.len());
    let operands: Vec<Sharding> =
        op.sharded_operands().iter().map(|operand| replicated(operand.value)).collect();
    let is_one = !matches!(op.kind, OpKind::Collective(_))
        && !send_recv::may_send(program, op)
        && !composite::is_split(program, op, operands.first());
    let operands: Vec<&Sharding> = operands.iter().collect();
    is_one.then(|| local::work(program, op, &operands, &replicated(op.result)).seconds)
}
