//! The time of collectives on each network, where they span nodes of GPUs or pods.
//!
//! A plan prints such a collective as one step, since it is one call; that it runs network by
//! network, and which network bounds it, is printed in the plan's summary for an axis larger than a
//! node, and by `explain` for any collective.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shardwise_ir::ids::AxisId;
use shardwise_ir::mesh::AxisKind;
use shardwise_ir::plan::StepKind;
use shardwise_passes::collective::{NetworkTime, time_by_network};
use shardwise_passes::report::StepCost;

use super::Planned;
use crate::display::units;

/// The placement of an axis that is larger than a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Nodes {
    /// Devices along the axis that are in one node: its minor coordinates.
    pub inside: u64,
    /// Nodes along it.
    pub nodes: u64,
    /// The busy seconds of its links on the network between nodes.
    pub network_s: f64,
}

/// The time of a collective on one network.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Network {
    /// The kind of links: `ring`, `line`, `switch` or `dcn`.
    pub kind: &'static str,
    /// The number of participating devices.
    pub devices: u64,
    /// Seconds.
    pub time_s: f64,
}

/// The placement of an axis on nodes, if it is larger than one.
pub(crate) fn nodes(planned: &Planned, axis: AxisId) -> Option<Nodes> {
    let (inside, nodes) = planned.plan.program.mesh.axes[axis].across_nodes()?;
    let network_s = steps_over(planned, axis)
        .map(|(number, cost)| cost.times * on_network(planned, number).unwrap_or(cost.seconds))
        .sum();
    Some(Nodes { inside, nodes, network_s })
}

/// The collectives over an axis.
fn steps_over(planned: &Planned, axis: AxisId) -> impl Iterator<Item = (usize, &StepCost)> {
    let costs = planned.report.steps.iter().enumerate();
    costs.filter(move |(_, cost)| cost.axes.contains(&axis))
}

/// The time of a collective on each network, innermost first; empty where there is only one.
pub(crate) fn networks(planned: &Planned, number: usize) -> Vec<Network> {
    let parts = parts(planned, number).filter(|parts| parts.len() > 1).unwrap_or_default();
    parts
        .into_iter()
        .map(|NetworkTime { devices, kind, seconds }| Network {
            kind: kind.name(),
            devices,
            time_s: seconds,
        })
        .collect()
}

/// `26 us among 8 (switch), 63 us among 2 (dcn)`.
pub(crate) fn shares(networks: &[Network]) -> String {
    let share = |network: &Network| {
        format!("{} among {} ({})", units::seconds(network.time_s), network.devices, network.kind)
    };
    networks.iter().map(share).collect::<Vec<_>>().join(", ")
}

/// For every axis that spans nodes or runs between them:
/// `X=16 leaves the node: 8 inside, 2 nodes, 63 us of its 89 us between them`,
/// `Z=4 runs between nodes of 8 chips`.
pub(crate) fn lines(planned: &Planned) -> Vec<String> {
    let mesh = &planned.plan.program.mesh;
    let domain = planned.plan.program.hardware.nvlink_domain();
    let line = |id: AxisId| {
        let axis = &mesh.axes[id];
        let Some(Nodes { inside, nodes, network_s }) = nodes(planned, id) else {
            let follows = axis.written_kind.is_none() && axis.runs_over(AxisKind::Dcn);
            return domain.filter(|_| follows).map(|chips| {
                format!("{}={} runs between nodes of {chips} chips", axis.name, axis.size)
            });
        };
        let busy_s: f64 = steps_over(planned, id).map(|(_, cost)| cost.total_s()).sum();
        let share = if busy_s > 0.0 {
            format!(
                ", {} of its {} between them",
                units::seconds(network_s),
                units::seconds(busy_s)
            )
        } else {
            String::new()
        };
        Some(format!(
            "{}={} leaves the node: {inside} inside, {nodes} nodes{share}",
            axis.name, axis.size
        ))
    };
    mesh.ids().filter_map(line).collect()
}

fn parts(planned: &Planned, number: usize) -> Option<Vec<NetworkTime>> {
    let StepKind::Collective(collective, _) = &planned.plan.steps[number].kind else { return None };
    let cost = &planned.report.steps[number];
    Some(time_by_network(
        &planned.plan.program,
        &collective.kind,
        &cost.axes,
        cost.bytes,
        planned.refinement,
    ))
}

/// Seconds of a collective on the network between nodes; `None` for a Permute, which is bound by
/// the slowest link alone.
fn on_network(planned: &Planned, number: usize) -> Option<f64> {
    Some(
        parts(planned, number)?
            .iter()
            .filter(|part| part.kind == AxisKind::Dcn)
            .map(|part| part.seconds)
            .sum(),
    )
}
