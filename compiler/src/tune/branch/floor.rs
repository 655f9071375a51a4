//! What no candidate is below: the plan on one device, over the number of chips.
//!
//! No device computes or keeps less than its share of that. On stages the time of layers counts the
//! bubble as well, which follows from the number of stages, microbatches and layers alone: a
//! candidate whose bubble is too long is cut before any plan is made for it. In the sum of steps
//! the bubble is a formula. For the schedule it is the work of a stage for all microbatches, before
//! which one passes the stages before it, forward, and after which one passes them back; schedules
//! that delay gradients of weights fill it in their own ways, and have none here.

use indexmap::{IndexMap, IndexSet};
use rayon::prelude::*;
use shardwise_ir::plan::{Plan, Step, StepKind};
use shardwise_ir::program::Blocks;
use shardwise_ir::stages::Stages;

use super::{ROUNDING, Search};
use crate::Planned;
use crate::options::{Effort, Objective};
use crate::tune::candidate::{Candidate, Recompute, Staging};
use crate::tune::dtypes::Dtypes;
use crate::tune::leaf::Refusal;
use crate::tune::stage_layers::fewer_first;

/// What no candidate with this recomputation, number of microbatches and dtypes is below.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Floor {
    pub(super) seconds: f64,
    /// The part of it in which layers compute rows of the batch.
    of_layers_s: f64,
    /// Whether it is one of schedules, not of the sum of steps.
    is_scheduled: bool,
    /// Whether microbatches go back through the layers.
    trains: bool,
    /// Bytes of a device at the peak.
    pub(super) peak_bytes: f64,
    /// Bytes of parameters and state.
    pub(super) resident_bytes: f64,
}

impl Floor {
    /// The seconds of a candidate whose layers are on stages, if they are so many.
    pub(super) fn seconds_of(&self, candidate: &Candidate, layers: Option<u64>) -> f64 {
        let (Some(staging), Some(microbatches), Some(layers)) =
            (candidate.staging, candidate.microbatches, layers)
        else {
            return self.seconds;
        };
        let stages = candidate.shape.stages;
        let spread = || Stages::spread(staging.schedule, stages, staging.chunks, layers);
        let turns = if self.is_scheduled {
            let list = staging.longest.and_then(|of| fewer_first(layers, stages, microbatches, of));
            let list = list.map(|list| Stages::new(staging.schedule, stages, list));
            scheduled_turns(&list.unwrap_or_else(spread), staging, microbatches)
        } else {
            // Other lists of layers have a longer stage, which takes more than their bubble is
            // less.
            spread().trip_count(microbatches, 1, self.trains).including_bubble
        };
        let even = layers as f64 * microbatches as f64 / stages as f64;
        self.seconds + self.of_layers_s * (turns as f64 / even - 1.0).max(0.0)
    }
}

/// The layers that are run one after another in every schedule: on some stage those of all
/// microbatches, and on each stage before it at least those of the shortest chunk for one.
fn scheduled_turns(stages: &Stages, staging: Staging, microbatches: u64) -> u64 {
    if staging.schedule.delays_weights() {
        return 0;
    }
    let least = stages.layers().iter().copied().min().unwrap_or(0);
    let by_stage = (0..).zip(stages.held());
    by_stage.map(|(before, layers)| microbatches * layers + before * least).max().unwrap_or(0)
}

/// Candidates with equal floors: recomputation, microbatches, the size of the batch, and dtypes.
pub(super) type Group = (Recompute, Option<u64>, Option<u64>, Dtypes);

/// The group of a candidate.
pub(super) fn group(candidate: &Candidate) -> Group {
    let count = candidate.microbatches.filter(|_| candidate.staging.is_none());
    (candidate.recompute, count, candidate.batch, candidate.dtypes)
}

impl Search<'_, '_> {
    /// The floors of all groups; the error is the rule that refuses the group.
    pub(super) fn all_floors(&mut self) -> IndexMap<Group, Result<Floor, String>> {
        let groups: IndexSet<Group> = self.candidates.iter().map(group).collect();
        let groups: Vec<Group> = groups.into_iter().collect();
        self.space.runs += groups.len();
        let (leaves, named_axes) = (self.leaves, &self.template.named_axes);
        let planned = |&(recompute, microbatches, batch, dtypes): &Group| {
            let alone = Candidate::alone(named_axes, recompute);
            let alone = Candidate { microbatches, batch, dtypes, ..alone };
            leaves.planned(&alone, Some(f64::INFINITY), Effort::Normal)
        };
        let planned: Vec<_> = groups.par_iter().map(planned).collect();
        let floor = |planned: Result<Planned, Refusal>| match planned {
            Ok(planned) => Ok(self.floor_of(&planned)),
            // One device may be too few for its schedule, or for its list of layers.
            Err(Refusal::Illegal(_)) if self.template.has_pipeline() => Ok(Floor::default()),
            Err(Refusal::OverMemory(reason) | Refusal::Illegal(reason)) => Err(reason),
            Err(Refusal::NotBelow(_)) => Ok(Floor::default()),
        };
        groups.into_iter().zip(planned.into_iter().map(floor)).collect()
    }

    fn floor_of(&self, planned: &Planned) -> Floor {
        let share = 1.0 / self.request.chips as f64;
        let report = &planned.report;
        let is_scheduled = planned.objective == Objective::Scheduled;
        let (mut bound_s, mut found_s) = (planned.lower_bound_s(), planned.own_s());
        if is_scheduled {
            // Other orders of the steps may be shorter than that of the schedule.
            (bound_s, found_s) = (bound_s.min(report.overlap_s), report.overlap_s);
        }
        let has_bubble = match planned.objective {
            Objective::Serial => true,
            Objective::Scheduled => report.compute_s >= found_s * (1.0 - ROUNDING),
            Objective::Comm | Objective::Overlap => false,
        };
        let program = &planned.plan.program;
        // The bubble is that of layers that all take as long.
        let is_alike = program.repeats.iter().filter(|of| of.has_outermost_layers()).count() == 1;
        let is_proven = is_alike && has_bubble && bound_s >= found_s * (1.0 - ROUNDING);
        let of_layers_s = if is_proven { self.of_layers_s(planned) } else { 0.0 };
        Floor {
            seconds: share * bound_s * (1.0 - ROUNDING),
            of_layers_s: share * of_layers_s * (1.0 - ROUNDING),
            is_scheduled,
            trains: program.repeats.iter().any(|block| block.reversed.is_some()),
            peak_bytes: share * report.memory.peak_bytes,
            resident_bytes: share * report.memory.resident_bytes,
        }
    }

    /// The time of the steps of layers that compute rows of the batch.
    fn of_layers_s(&self, planned: &Planned) -> f64 {
        let steps = planned.plan.steps.iter().zip(&planned.report.steps);
        let rows = steps.filter(|(step, _)| self.has_rows(&planned.plan, step));
        rows.map(|(_, cost)| cost.total_s()).sum()
    }

    /// Whether a step of layers reads or makes rows of the batch.
    fn has_rows(&self, plan: &Plan, step: &Step) -> bool {
        let program = &plan.program;
        let StepKind::Local(op) = step.kind else { return false };
        let outermost = program.repeats.outwards(step.repeat).last();
        let is_of_layers = outermost.is_some_and(|block| program.repeats[block].has_layers());
        let Some(batch) = program.dims.position(|dim| self.template.is_batch(&dim.name)) else {
            return false;
        };
        let op = &program.ops[op];
        let mut values = op.operands.iter().map(|operand| operand.value).chain([op.result]);
        is_of_layers
            && values.any(|value| {
                program.values[value].dims.iter().any(|&dim| program.holds_batch(dim, batch))
            })
    }
}
