//! Plans of an assignment that take less memory than the cheapest: their reshards lead through
//! smaller blocks.
//!
//! An assignment says in which shardings values are computed and read; the steps between those are
//! the cheapest. Where their peak exceeds the capacity, the step at the peak is left out of the
//! table of its value's shape with all that take as much, or alone where the value needs one of
//! those, and the steps are searched again, until the plan fits, is too costly, or nothing can be
//! left out. Trees of least bytes for each value would need the times at which others are live; a
//! second search over trees would multiply the choices.

use std::sync::Arc;

use shardwise_ir::ids::ValueId;
use shardwise_ir::plan::{Materialization, Plan, Step, StepKind};
use shardwise_ir::sharding::Sharding;

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
    let mut left_out = vec![LeftOut::default(); problem.tables.all.len()];
    let mut graphs: Vec<Arc<Graph>> =
        problem.tables.all.iter().map(|table| Arc::clone(table.graph())).collect();
    let mut last = first.clone();
    for _ in 0..MOST_LEFT_OUT {
        let in_the_way = largest_at_peak(&last)?;
        let table = problem.tables.number(in_the_way.value);
        left_out[table] = left_out[table].and(problem, &in_the_way).into_iter().find(|more| {
            graphs[table] = Arc::new(more.graph(problem, in_the_way.value));
            problem.is_realisable(assignment, &mut trees_of(&graphs))
        })?;
        last = plan::plan(problem, assignment, &mut trees_of(&graphs));
        let seconds = measures.seconds(&last);
        if seconds >= best_s {
            return None;
        }
        if measures.peak_bytes_of(&last, seconds) <= capacity {
            return Some((last, seconds));
        }
    }
    None
}

fn trees_of(graphs: &[Arc<Graph>]) -> Vec<Trees<'_>> {
    graphs.iter().map(|graph| Trees::new(graph)).collect()
}

/// A collective that runs at the peak of a plan, or whose result is live then.
struct AtPeak<'p> {
    value: ValueId,
    from: &'p Sharding,
    to: &'p Sharding,
    /// The bytes of both blocks.
    bytes: f64,
}

/// The steps of a shape that are left out.
#[derive(Clone, Debug)]
struct LeftOut {
    /// All whose blocks take as many bytes together.
    from_bytes: f64,
    /// And these.
    single: Vec<(State, State)>,
}

impl Default for LeftOut {
    fn default() -> Self {
        Self { from_bytes: f64::INFINITY, single: Vec::new() }
    }
}

impl LeftOut {
    /// The same, and a collective: with all that take as much, or alone.
    fn and(&self, problem: &Problem<'_>, running: &AtPeak<'_>) -> Vec<Self> {
        let space = &problem.table(running.value).space;
        let as_large = Self { from_bytes: running.bytes, ..self.clone() };
        let ends = space.find(running.from).zip(space.find(running.to));
        let alone = ends.filter(|ends| !self.single.contains(ends)).map(|ends| Self {
            single: self.single.iter().copied().chain([ends]).collect(),
            ..*self
        });
        (running.bytes < self.from_bytes).then_some(as_large).into_iter().chain(alone).collect()
    }

    /// The graph of a value's other steps.
    fn graph(&self, problem: &Problem<'_>, value: ValueId) -> Graph {
        let space = &problem.table(value).space;
        let block: Vec<f64> = space
            .shardings()
            .map(|sharding| local_shape::local_bytes(problem.program, value, sharding))
            .collect();
        let stays = |from: State, to: State| {
            block[from] + block[to] < self.from_bytes && !self.single.contains(&(from, to))
        };
        let steps = |from: State| {
            let edges = space.edges(from).filter(|edge| stays(from, edge.to));
            edges.map(|edge| (edge.to, edge.weight)).collect()
        };
        Graph::new(&(0..space.len()).map(steps).collect::<Vec<_>>())
    }
}

/// The collective that takes most at the peak of a plan: the one that runs then, else of those
/// whose results are live then the largest.
fn largest_at_peak(plan: &Plan) -> Option<AtPeak<'_>> {
    let (expanded, origins) = ExpandedPlan::with_origins(plan);
    let peak = memory(&expanded).peak_step?;
    let origin = origins.as_ref().map_or(peak, |origins| origins[peak]);
    let running = &plan.steps[origin];
    collective(plan, running).or_else(|| {
        let live = live_at(&expanded, expanded.dataflow(), peak);
        let is_beside = |step: &&Step| {
            live.iter().any(|(of, _)| *of == step.result)
                && !running.operands.contains(&step.result)
        };
        let before = plan.steps[..origin].iter().filter(is_beside);
        let collectives = before.filter_map(|step| collective(plan, step));
        collectives.max_by(|a, b| a.bytes.total_cmp(&b.bytes))
    })
}

/// A step that may be replaced by others: a collective that nobody wrote.
fn collective<'p>(plan: &Plan, step: &'p Step) -> Option<AtPeak<'p>> {
    let StepKind::Collective(_, None) = step.kind else { return None };
    let bytes =
        |of: &Materialization| local_shape::local_bytes(&plan.program, of.value, &of.sharding);
    let (operand, result) = (&step.operands[0], &step.result);
    Some(AtPeak {
        value: result.value,
        from: &operand.sharding,
        to: &result.sharding,
        bytes: bytes(operand) + bytes(result),
    })
}
