//! What is live at a step and when, for reports; the planner reads the peak alone. Of layers, it is
//! what is live during the one that has the peak.

use std::ops::RangeInclusive;

use shardwise_ir::dataflow::{Dataflow, Node, NodeIndex};
use shardwise_ir::plan::{Materialization, Plan};

use super::lives;

/// What is live beside the resident values, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct Live {
    /// The materialization.
    pub of: Materialization,
    /// The bytes of all its copies on a device.
    pub bytes: f64,
    /// The first and the last step at which it is live.
    pub steps: RangeInclusive<usize>,
    node: NodeIndex,
}

/// The live ranges of an expanded plan that take bytes, declared values first.
pub fn live_ranges(plan: &Plan, dataflow: &Dataflow<usize>) -> Vec<Live> {
    let (_, ranges) = lives(plan, dataflow);
    let (.., layer) = ranges.peak();
    let of_node = |node: NodeIndex| {
        let first = ranges.ranges[node.index()].as_ref().map(|alive| &alive.life);
        let lives = first.into_iter().chain(ranges.again.get(&node));
        let of = ranges.materialization(node);
        let pieces = lives.filter(|life| life.bytes > 0.0).flat_map(move |life| life.pieces(layer));
        pieces.filter_map(move |(steps, bytes)| Some(Live { of: of.clone()?, bytes, steps, node }))
    };
    let (steps, others): (Vec<_>, Vec<_>) = dataflow
        .graph()
        .node_indices()
        .partition(|&node| matches!(dataflow.graph()[node], Node::Statement(_)));
    others.into_iter().chain(steps).flat_map(of_node).collect()
}

/// The materializations that are live beside the resident ones while a step of an expanded plan
/// runs, largest first.
pub fn live_at(
    plan: &Plan,
    dataflow: &Dataflow<usize>,
    step: usize,
) -> Vec<(Materialization, f64)> {
    let mut live = live_ranges(plan, dataflow);
    live.retain(|live| live.steps.contains(&step));
    // Of two ranges of a node at a step, the first has its bytes.
    live.dedup_by_key(|live| live.node);
    let mut held: Vec<_> = live.into_iter().map(|live| (live.of, live.bytes)).collect();
    held.sort_by(|a, b| b.1.total_cmp(&a.1));
    held
}
