//! What collectives cost the compute that runs beside them.
//!
//! They take cores and memory bandwidth from it, for the bytes that they move. The share of their
//! time that this costs ([`contention`](shardwise_ir::rates::MeasuredRates::contention)) was
//! measured inside of nodes, where a device moves as many bytes as its links can. Over a network it
//! moves a tenth of that in the same time, and takes as much less from the compute: a collective
//! that leaves its node counts the time that its bytes would take on the links inside, at most its
//! own.
//!
//! Which collectives are hidden is not known to a schedule that is extrapolated from a few layers:
//! all count as hidden by the same share of their time. The alternative, to charge each for its own
//! time whatever its network, makes steps with data parallelism between nodes up to a fifth longer
//! than they were measured.

use shardwise_ir::mesh::AxisKind;
use shardwise_ir::plan::{Step, StepKind};
use shardwise_ir::program::CollectiveKind;

use crate::cost::report::StepCost;
use crate::layouts::composite::ExpandedPlan;

/// Seconds by which compute takes longer beside collectives that are hidden for `hidden_s`.
pub(crate) fn slowed_s(plan: &ExpandedPlan<'_>, costs: &[StepCost], hidden_s: f64) -> f64 {
    let hardware = &plan.program.hardware;
    let contention = hardware.contention();
    if contention == 0.0 || hidden_s == 0.0 {
        return 0.0;
    }
    let links = hardware.link_bandwidth.map(|peak| peak * hardware.measured.links().share);
    let moves = plan.steps.iter().zip(costs);
    let moves = moves.filter(|(step, cost)| cost.is_move(step) && !cost.uses_host);
    let (mut busy_s, mut inside_s) = (0.0, 0.0);
    for (step, cost) in moves {
        let leaves_node =
            cost.axes.iter().any(|&axis| plan.program.mesh.axes[axis].runs_over(AxisKind::Dcn));
        let in_node_s = links.filter(|_| leaves_node).map(|links| ways(step) * cost.bytes / links);
        busy_s += cost.total_s();
        inside_s +=
            cost.times * in_node_s.map_or(cost.seconds, |in_node_s| in_node_s.min(cost.seconds));
    }
    if busy_s > 0.0 { contention * hidden_s * inside_s / busy_s } else { 0.0 }
}

/// How often a collective moves its bytes.
fn ways(step: &Step) -> f64 {
    let reduces_all = matches!(
        &step.kind,
        StepKind::Collective(collective, _) if collective.kind == CollectiveKind::AllReduce
    );
    if reduces_all { 2.0 } else { 1.0 }
}
