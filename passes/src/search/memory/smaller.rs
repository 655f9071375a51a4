//! Plans of an assignment that take less memory than the cheapest: their reshards lead through
//! smaller blocks.
//!
//! An assignment says in which shardings values are computed and read; the steps between those are
//! the cheapest. Where their peak exceeds the capacity, the step at the peak is left out of the
//! table of its value's shape, and the steps are searched again, until the plan fits, is too
//! costly, or nothing can be left out. Trees of least bytes for each value would need the times at
//! which others are live; a second search over trees would multiply the choices.

use std::sync::Arc;

use shardwise_ir::ids::ValueId;
use shardwise_ir::plan::{Materialization, Plan, Step, StepKind};

use crate::cost::liveness::{live_at, memory};
use crate::insert_collectives::plan;
use crate::layouts::composite::ExpandedPlan;
use crate::layouts::local_shape;
use crate::problem::Problem;
use crate::reshard::sharding_space::State;
use crate::search::memory::measures::Measures;
use crate::solver::dreyfus_wagner::Trees;
use crate::solver::graph::Graph;

/// Steps that are left out, one after another.
const MOST_LEFT_OUT: usize = 8;

/// States of one value up to which its steps are searched again.
const MOST_STATES: usize = 500;

/// A plan of the assignment that fits into the capacity and takes less than `best_s` seconds, with
/// its seconds; `first` is the cheapest, which does not fit.
pub(crate) fn plan_within(
    problem: &Problem<'_>,
    assignment: &[usize],
    first: &Plan,
    (capacity, best_s): (f64, f64),
    measures: &Measures<'_, '_>,
) -> Option<(Plan, f64)> {
    if problem.tables.all.iter().any(|table| table.space.len() > MOST_STATES) {
        return None;
    }
    let mut most: Vec<f64> = vec![f64::INFINITY; problem.tables.all.len()];
    let mut graphs: Vec<Arc<Graph>> =
        problem.tables.all.iter().map(|table| Arc::clone(table.graph())).collect();
    let mut last = first.clone();
    for _ in 0..MOST_LEFT_OUT {
        let (in_the_way, bytes) = largest_at_peak(&last)?;
        let table = problem.tables.number(in_the_way);
        if bytes >= most[table] {
            return None;
        }
        most[table] = bytes;
        graphs[table] = Arc::new(below(problem, in_the_way, bytes));
        let mut trees: Vec<Trees<'_>> = graphs.iter().map(|graph| Trees::new(graph)).collect();
        if !problem.is_realisable(assignment, &mut trees) {
            return None;
        }
        last = plan::plan(problem, assignment, &mut trees);
        let seconds = measures.seconds(&last);
        if seconds >= best_s {
            return None;
        }
        if measures.peak_bytes(&last) <= capacity {
            return Some((last, seconds));
        }
    }
    None
}

/// The graph of a value's steps whose blocks take less than `bytes` together.
fn below(problem: &Problem<'_>, value: ValueId, bytes: f64) -> Graph {
    let space = &problem.table(value).space;
    let block: Vec<f64> = space
        .shardings()
        .map(|sharding| local_shape::local_bytes(problem.program, value, sharding))
        .collect();
    let steps = |state: State| {
        let edges = space.edges(state).iter();
        edges
            .filter(|edge| block[state] + block[edge.to] < bytes)
            .map(|edge| (edge.to, edge.weight))
            .collect()
    };
    Graph::new(&(0..space.len()).map(steps).collect::<Vec<_>>())
}

/// The value whose collective takes most at the peak of a plan, and its bytes: the one that runs
/// then, else of those whose results are live then the largest.
fn largest_at_peak(plan: &Plan) -> Option<(ValueId, f64)> {
    let (expanded, origins) = ExpandedPlan::with_origins(plan);
    let peak = memory(&expanded).peak_step?;
    let origin = origins.as_ref().map_or(peak, |origins| origins[peak]);
    let of_step = |step: &Step| match step.kind {
        StepKind::Collective(_, None) => {
            let bytes = |of: &Materialization| {
                local_shape::local_bytes(&plan.program, of.value, &of.sharding)
            };
            Some((step.result.value, bytes(&step.operands[0]) + bytes(&step.result)))
        }
        StepKind::Collective(_, Some(_)) | StepKind::Local(_) => None,
    };
    let running = &plan.steps[origin];
    of_step(running).or_else(|| {
        let live = live_at(&expanded, expanded.dataflow(), peak);
        let is_beside = |step: &&Step| {
            live.iter().any(|(of, _)| *of == step.result)
                && !running.operands.contains(&step.result)
        };
        let before = plan.steps[..origin].iter().filter(is_beside);
        before.filter_map(of_step).max_by(|a, b| a.1.total_cmp(&b.1))
    })
}
