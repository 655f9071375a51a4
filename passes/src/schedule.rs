//! The plan's own schedule: compute in program order, each collective as soon as its operand exists and its axes are free.
//!
//! `overlap ≤ scheduled ≤ serial`: no resource does two things at once, and something is always running. A step is *critical* if it has no slack:
//! making it longer makes the whole longer.

use rustc_hash::FxBuildHasher;
use shardwise_ir::plan::{Materialization, Plan, StepKind};

use crate::report::StepCost;

/// When each step runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schedule {
    /// When all is done, seconds.
    pub makespan_s: f64,
    /// Start of each step, seconds.
    pub start_s: Vec<f64>,
    /// Whether each step is critical.
    pub critical: Vec<bool>,
}

/// Schedules a plan whose steps cost `costs`.
pub fn schedule(plan: &Plan, costs: &[StepCost]) -> Schedule {
    let waits = predecessors(plan, costs);
    let mut start_s = Vec::with_capacity(costs.len());
    let mut end_s: Vec<f64> = Vec::with_capacity(costs.len());
    for (step, cost) in costs.iter().enumerate() {
        let start = waits[step].iter().map(|&before| end_s[before]).fold(0.0, f64::max);
        start_s.push(start);
        end_s.push(start + cost.seconds);
    }
    let makespan_s = end_s.iter().copied().fold(0.0, f64::max);
    let critical = critical(&waits, costs, &start_s, &end_s, makespan_s);
    Schedule { makespan_s, start_s, critical }
}

/// For each step, the steps that it waits for: those that give its operands, and the last user of each of its resources.
fn predecessors(plan: &Plan, costs: &[StepCost]) -> Vec<Vec<usize>> {
    let mut given: indexmap::IndexMap<&Materialization, usize, FxBuildHasher> = indexmap::IndexMap::default();
    let mut compute: Option<usize> = None;
    let mut links: Vec<Option<usize>> = vec![None; plan.program.mesh.axes.len()];
    let mut waits = Vec::with_capacity(plan.steps.len());
    for (number, (step, cost)) in plan.steps.iter().zip(costs).enumerate() {
        let mut before: Vec<usize> = step.operands.iter().filter_map(|operand| given.get(operand).copied()).collect();
        match step.kind {
            StepKind::Local(_) => before.extend(compute.replace(number)),
            StepKind::Collective(..) => before.extend(cost.axes.iter().filter_map(|axis| links[axis.index()].replace(number))),
        }
        given.insert(&step.result, number);
        waits.push(before);
    }
    waits
}

/// Steps without slack, found backwards from the end.
fn critical(waits: &[Vec<usize>], costs: &[StepCost], start_s: &[f64], end_s: &[f64], makespan_s: f64) -> Vec<bool> {
    let mut latest_end = vec![makespan_s; costs.len()];
    for step in (0..costs.len()).rev() {
        let latest_start = latest_end[step] - costs[step].seconds;
        for &before in &waits[step] {
            latest_end[before] = latest_end[before].min(latest_start);
        }
    }
    let rounding = makespan_s * 1e-12;
    let slackless = |step: usize| latest_end[step] - end_s[step] <= rounding && end_s[step] > start_s[step];
    (0..costs.len()).map(slackless).collect()
}
