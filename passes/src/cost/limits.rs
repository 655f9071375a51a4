//! What a plan waits for: arithmetic, HBM, the links of an axis, latency, or a pipeline's bubble.
//!
//! Every step's time is assigned to what it consists of: a local operation to the longer of its
//! arithmetic and its traffic, a collective to the links of its axes; what does not depend on sizes
//! (hops, and at measured rates the fixed time of kernels and messages) to latency. The plan waits
//! for the largest part of its busiest resource, compute or the links of an axis, since with
//! perfect overlap the others are hidden; and for the bubble, which nothing hides, where that is
//! longer. The alternative, the largest part of all, would name HBM for a plan whose links are
//! busy all the time, where two kinds of local work share the rest.

use shardwise_ir::ids::AxisId;
use shardwise_ir::plan::{Plan, Step, StepKind};

use crate::cost::collective::{Refinement, latency_seconds};
use crate::cost::local;
use crate::cost::report::{Report, StepCost};

/// What a plan waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Arithmetic.
    Flops,
    /// Traffic of the memory of a device.
    Hbm,
    /// Bytes on the links of an axis.
    Links(AxisId),
    /// Bytes on the link to the host.
    Host,
    /// Hops, and the fixed times of kernels and messages.
    Latency,
    /// The idle time while pipelines fill and drain.
    Bubble,
}

/// Busy seconds of a device, by what they consist of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BusyTimes {
    /// Local operations that wait for arithmetic.
    pub flops_s: f64,
    /// Local operations that wait for HBM.
    pub hbm_s: f64,
    /// Fixed times of local operations.
    pub fixed_s: f64,
    /// For each axis, the bytes of its collectives, and their latency.
    pub links: Vec<(f64, f64)>,
    /// The link to the host.
    pub host_s: f64,
    /// The bubble.
    pub bubble_s: f64,
}

impl BusyTimes {
    /// The busy seconds of a plan whose price is `report`.
    pub fn of(plan: &Plan, report: &Report, refinement: Refinement) -> Self {
        let mut times = Self {
            links: vec![(0.0, 0.0); plan.program.mesh.axes.len()],
            bubble_s: report.bubble_s,
            ..Self::default()
        };
        for (step, cost) in plan.steps.iter().zip(&report.steps) {
            times.add(plan, step, cost, refinement);
        }
        times
    }

    fn add(&mut self, plan: &Plan, step: &Step, cost: &StepCost, refinement: Refinement) {
        match &step.kind {
            StepKind::Local(op) if !cost.is_move(step) => {
                let op = &plan.program.ops[*op];
                let shardings: Vec<_> = step.operands.iter().map(|of| &of.sharding).collect();
                let work = local::work(&plan.program, op, &shardings, &step.result.sharding);
                let parts = local::parts(&plan.program, op, &work);
                self.fixed_s += cost.times * parts.fixed_s;
                let rest = cost.times * (cost.seconds - parts.fixed_s).max(0.0);
                let waits_for_hbm = parts.hbm_s > parts.flops_s;
                *(if waits_for_hbm { &mut self.hbm_s } else { &mut self.flops_s }) += rest;
            }
            StepKind::Collective(collective, _) => {
                let latency_s = latency_seconds(
                    &plan.program,
                    &collective.kind,
                    &cost.axes,
                    cost.bytes,
                    refinement,
                );
                self.add_links(cost, latency_s.min(cost.seconds));
            }
            StepKind::Local(_) if cost.uses_host => self.host_s += cost.total_s(),
            StepKind::Local(_) => self.add_links(cost, 0.0),
        }
    }

    fn add_links(&mut self, cost: &StepCost, latency_s: f64) {
        for axis in &cost.links {
            let (bytes_s, waited_s) = &mut self.links[axis.index()];
            *bytes_s += cost.times * (cost.seconds - latency_s);
            *waited_s += cost.times * latency_s;
        }
    }

    /// What the plan waits for; `None` where there is nothing to do.
    pub fn limit(&self) -> Option<Limit> {
        let compute_s = self.flops_s + self.hbm_s + self.fixed_s;
        let busiest = self.links.iter().enumerate().fold((0.0, None), |best, (axis, links)| {
            let busy = links.0 + links.1;
            if busy > best.0 { (busy, Some(AxisId::new(axis))) } else { best }
        });
        let waits_for_host = self.host_s > busiest.0.max(compute_s);
        let parts = match busiest.1.filter(|_| busiest.0 > compute_s) {
            _ if waits_for_host => vec![(self.host_s, Limit::Host)],
            Some(axis) => {
                let (bytes_s, latency_s) = self.links[axis.index()];
                vec![(bytes_s, Limit::Links(axis)), (latency_s, Limit::Latency)]
            }
            None => vec![
                (self.flops_s, Limit::Flops),
                (self.hbm_s, Limit::Hbm),
                (self.fixed_s, Limit::Latency),
            ],
        };
        let all = parts.into_iter().chain([(self.bubble_s, Limit::Bubble)]);
        let longest = all.reduce(|best, other| if other.0 > best.0 { other } else { best });
        longest.filter(|(seconds, _)| *seconds > 0.0).map(|(_, limit)| limit)
    }
}
